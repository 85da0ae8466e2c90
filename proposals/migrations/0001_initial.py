import django.db.models.deletion
import django.utils.timezone
import foundation.encryption
import proposals.attempts
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('consultas', '0001_initial'),
        ('partners', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Erasure',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cpf_index', models.CharField(db_index=True, max_length=64, verbose_name='hash do CPF')),
                ('event_index', models.CharField(editable=False, max_length=64)),
                ('by', models.CharField(max_length=150, verbose_name='feito por')),
                ('at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='quando')),
                ('erased', models.JSONField(verbose_name='apagados')),
                ('kept', models.JSONField(verbose_name='mantidos como prova')),
                ('left', models.JSONField(verbose_name='deixados para repetir')),
                ('partners', models.JSONField(null=True, verbose_name='parceiros a avisar')),
            ],
            options={
                'verbose_name': 'exclusão de dados',
                'verbose_name_plural': 'exclusões de dados',
                'ordering': ('-at',),
                'permissions': [('erase_holder', 'Pode apagar os dados de um titular')],
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='ErasureRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cpf_index', models.CharField(db_index=True, max_length=64, verbose_name='hash do CPF')),
                ('asked_by', models.CharField(max_length=150, verbose_name='pedido por')),
                ('asked_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='pedido em')),
                ('erasure', models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='asked', to='proposals.erasure', verbose_name='exclusão feita')),
            ],
            options={
                'verbose_name': 'pedido de exclusão',
                'verbose_name_plural': 'pedidos de exclusão',
                'ordering': ('-asked_at',),
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='Proposal',
            fields=[
                ('due_at', models.DateTimeField(editable=False, null=True, verbose_name='próxima verificação')),
                ('lease_until', models.DateTimeField(editable=False, null=True)),
                ('worker', models.CharField(blank=True, db_default='', default='', editable=False, max_length=32)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('origin_query_id', models.UUIDField(editable=False, verbose_name='consulta de origem')),
                ('provider', models.CharField(max_length=40, verbose_name='banco')),
                ('cpf_index', models.CharField(max_length=64)),
                ('reference', models.CharField(default=proposals.attempts.new_reference, max_length=64, unique=True, verbose_name='nossa referência')),
                ('dataset', foundation.encryption.EncryptedJSONField(verbose_name='dados enviados')),
                ('next_dataset', foundation.encryption.EncryptedJSONField(null=True)),
                ('terms', foundation.encryption.EncryptedJSONField(verbose_name='oferta')),
                ('channel', models.CharField(blank=True, max_length=10, verbose_name='envio do link')),
                ('submission', models.CharField(choices=[('sending', 'em envio'), ('unknown', 'resultado desconhecido'), ('not_sent', 'não chegou ao banco'), ('accepted', 'aceita'), ('refused', 'recusada')], default='sending', max_length=10, verbose_name='envio')),
                ('error', foundation.encryption.EncryptedJSONField(null=True, verbose_name='erro')),
                ('attempts', models.PositiveIntegerField(default=1, verbose_name='tentativas')),
                ('taken_at', models.DateTimeField(null=True)),
                ('sent_until', models.DateTimeField(null=True)),
                ('reconciles', models.PositiveSmallIntegerField(default=0, verbose_name='conciliações sem resposta')),
                ('partner_reference', models.CharField(blank=True, db_default='', default='', max_length=64, verbose_name='referência do parceiro')),
                ('request_id', models.CharField(max_length=128, verbose_name='id da requisição')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='criada em')),
                ('updated_at', models.DateTimeField(auto_now=True, verbose_name='atualizada em')),
                ('status', models.CharField(choices=[('created', 'criada'), ('in_analysis', 'em análise'), ('awaiting_signature', 'aguardando assinatura'), ('signed', 'assinada'), ('disbursed', 'paga'), ('rejected', 'recusada'), ('cancelled', 'cancelada'), ('expired', 'expirada')], default='created', max_length=20, verbose_name='situação')),
                ('native_id', models.CharField(blank=True, max_length=200, verbose_name='id no banco')),
                ('native_status', models.CharField(blank=True, max_length=60, verbose_name='situação no banco')),
                ('data', foundation.encryption.EncryptedJSONField(default=dict, verbose_name='dados do banco')),
                ('signature_url', foundation.encryption.EncryptedTextField(null=True, verbose_name='link de assinatura')),
                ('signature_expires_at', models.DateTimeField(null=True, verbose_name='link válido até')),
                ('stage', models.CharField(blank=True, choices=[('analysis', 'análise'), ('signature', 'assinatura'), ('averbation', 'averbação'), ('disbursement', 'pagamento')], db_default='', default='', max_length=12, verbose_name='etapa')),
                ('stage_since', models.DateTimeField(null=True, verbose_name='nesta etapa desde')),
                ('stage_reason', foundation.encryption.EncryptedJSONField(null=True, verbose_name='motivo da espera')),
                ('reason', foundation.encryption.EncryptedJSONField(null=True, verbose_name='motivo do fim')),
                ('contract_number', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='número do contrato')),
                ('disbursed_at', models.DateTimeField(null=True, verbose_name='paga em')),
                ('disbursed_amount', models.DecimalField(decimal_places=2, max_digits=12, null=True, verbose_name='valor pago')),
                ('withdrawal_until', models.DateField(null=True, verbose_name='desistência até')),
                ('withdrawn_at', models.DateTimeField(null=True, verbose_name='desistência em')),
                ('moved_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='última mudança')),
                ('last_status_at', models.DateTimeField(null=True)),
                ('offer', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='proposals', to='consultas.offer', verbose_name='oferta')),
                ('partner', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='proposals', to='partners.partner', verbose_name='parceiro')),
            ],
            options={
                'verbose_name': 'proposta',
                'verbose_name_plural': 'propostas',
                'ordering': ('-created_at', '-id'),
            },
        ),
        migrations.CreateModel(
            name='Move',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('from_status', models.CharField(blank=True, max_length=20, verbose_name='de')),
                ('to_status', models.CharField(max_length=20, verbose_name='para')),
                ('cause', models.CharField(choices=[('submit', 'envio'), ('reconcile', 'conciliação'), ('formalize', 'formalização'), ('status', 'consulta de situação'), ('refresh', 'atualização automática'), ('cancel', 'cancelamento')], max_length=10, verbose_name='causa')),
                ('native_word', models.CharField(blank=True, max_length=60, verbose_name='palavra do banco')),
                ('reason', foundation.encryption.EncryptedJSONField(null=True, verbose_name='motivo')),
                ('at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='quando')),
                ('proposal', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='moves', to='proposals.proposal', verbose_name='proposta')),
            ],
            options={
                'verbose_name': 'mudança',
                'verbose_name_plural': 'mudanças',
                'ordering': ('at', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='BankCall',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('operation', models.CharField(choices=[('submit', 'envio'), ('find', 'busca pela referência'), ('formalize', 'formalização'), ('status', 'consulta de situação'), ('cancel', 'cancelamento')], max_length=10, verbose_name='operação')),
                ('outcome', models.CharField(blank=True, max_length=40, verbose_name='resultado')),
                ('ms', models.PositiveIntegerField(null=True, verbose_name='duração (ms)')),
                ('request_id', models.CharField(max_length=128, verbose_name='id da requisição')),
                ('at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='quando')),
                ('proposal', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='calls', to='proposals.proposal', verbose_name='proposta')),
            ],
            options={
                'verbose_name': 'chamada ao banco',
                'verbose_name_plural': 'chamadas ao banco',
                'ordering': ('at',),
            },
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(fields=['partner', '-created_at', '-id'], name='proposal_newest'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(fields=['partner', 'status', '-created_at', '-id'], name='proposal_by_status'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(fields=['partner', 'provider', '-created_at', '-id'], name='proposal_by_bank'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(fields=['partner', 'updated_at'], name='proposal_by_change'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(condition=models.Q(('partner_reference__gt', '')), fields=['partner_reference', 'partner', '-created_at', '-id'], name='proposal_by_own_name'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(fields=['native_id'], name='proposal_native'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(condition=models.Q(('contract_number__gt', '')), fields=['contract_number'], name='proposal_contract'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(fields=['request_id'], name='proposal_request'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(fields=['partner', 'cpf_index'], name='proposal_holder'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(fields=['-created_at', '-id'], name='proposal_newest_of_all'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(fields=['cpf_index'], name='proposal_holder_of_all'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(condition=models.Q(('submission', 'accepted'), _negated=True), fields=['-created_at', '-id'], name='proposal_not_accepted'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='proposal_due'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(condition=models.Q(('submission__in', ('not_sent', 'refused'))), fields=['updated_at'], name='proposal_never_accepted'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(condition=models.Q(('withdrawn_at__isnull', False)), fields=['-created_at', '-id'], name='proposal_withdrawn'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(fields=['origin_query_id'], name='proposal_origin'),
        ),
        migrations.AddConstraint(
            model_name='proposal',
            constraint=models.UniqueConstraint(condition=models.Q(('status__in', ['rejected', 'cancelled', 'expired']), _negated=True), fields=('partner', 'offer'), name='one_live_proposal_per_offer'),
        ),
        migrations.AddIndex(
            model_name='move',
            index=models.Index(fields=['at'], name='move_at'),
        ),
        migrations.AddIndex(
            model_name='bankcall',
            index=models.Index(fields=['request_id'], name='bankcall_request'),
        ),
        migrations.AddIndex(
            model_name='bankcall',
            index=models.Index(fields=['at'], name='bankcall_at'),
        ),
    ]
