import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.utils.timezone
import foundation.encryption
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('partners', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Query',
            fields=[
                ('due_at', models.DateTimeField(editable=False, null=True, verbose_name='próxima verificação')),
                ('lease_until', models.DateTimeField(editable=False, null=True)),
                ('worker', models.CharField(blank=True, db_default='', default='', editable=False, max_length=32)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('aggregated', 'agregada'), ('stream', 'em fluxo'), ('individual', 'individual')], max_length=10, verbose_name='tipo')),
                ('cpf_index', models.CharField(max_length=64)),
                ('request', foundation.encryption.EncryptedJSONField(verbose_name='dados')),
                ('banks', models.JSONField(default=list, verbose_name='bancos')),
                ('portfolios', models.JSONField(default=dict, verbose_name='carteiras')),
                ('fingerprint', models.CharField(blank=True, max_length=64)),
                ('authorization_id', models.CharField(blank=True, max_length=64, verbose_name='sessão de autorização')),
                ('evidence_number', models.BigIntegerField(null=True, verbose_name='evidência')),
                ('answers', foundation.encryption.EncryptedJSONField(null=True, verbose_name='respostas')),
                ('simulation_group', models.UUIDField(null=True, verbose_name='grupo de simulação')),
                ('request_id', models.CharField(max_length=128, verbose_name='id da requisição')),
                ('partner_reference', models.CharField(blank=True, db_default='', default='', max_length=64, verbose_name='referência do parceiro')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='criada em')),
                ('deadline_at', models.DateTimeField(verbose_name='prazo')),
                ('finished_at', models.DateTimeField(null=True, verbose_name='concluída em')),
                ('follows', models.UUIDField(editable=False, null=True, verbose_name='acompanha a consulta')),
                ('takes', models.PositiveSmallIntegerField(default=0, editable=False)),
                ('partner', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='queries', to='partners.partner', verbose_name='parceiro')),
            ],
            options={
                'verbose_name': 'consulta',
                'verbose_name_plural': 'consultas',
                'ordering': ('-created_at',),
            },
        ),
        migrations.CreateModel(
            name='Offer',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('provider', models.CharField(max_length=40, verbose_name='banco')),
                ('cpf_index', models.CharField(max_length=64)),
                ('identity', models.CharField(max_length=64)),
                ('native_offer_id', models.CharField(max_length=200, verbose_name='id no banco')),
                ('earlier_native_ids', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), db_default=[], default=list, size=None, verbose_name='ids anteriores no banco')),
                ('loan_value', models.DecimalField(decimal_places=2, max_digits=14, verbose_name='valor')),
                ('installment_value', models.DecimalField(decimal_places=2, max_digits=14, verbose_name='parcela')),
                ('installments', models.PositiveSmallIntegerField(verbose_name='parcelas')),
                ('interest_rate', models.DecimalField(decimal_places=6, max_digits=10, verbose_name='taxa ao mês (%)')),
                ('total_amount', models.DecimalField(decimal_places=2, max_digits=14, verbose_name='total')),
                ('table_code', models.CharField(max_length=60, verbose_name='tabela')),
                ('with_insurance', models.BooleanField(verbose_name='com seguro')),
                ('first_due_date', models.DateField(null=True, verbose_name='primeiro vencimento')),
                ('employer_cnpj', models.CharField(max_length=14, verbose_name='CNPJ do empregador')),
                ('employer_name', models.CharField(max_length=200, verbose_name='empregador')),
                ('registration', models.CharField(max_length=60, verbose_name='matrícula')),
                ('native', models.JSONField(default=dict, verbose_name='dados do banco')),
                ('cet_monthly', models.DecimalField(decimal_places=6, max_digits=10, null=True, verbose_name='CET ao mês (%)')),
                ('cet_annual', models.DecimalField(decimal_places=2, max_digits=8, null=True, verbose_name='CET ao ano (%)')),
                ('cet_source', models.CharField(max_length=8, null=True, verbose_name='origem do CET')),
                ('iof', models.DecimalField(decimal_places=2, max_digits=14, null=True, verbose_name='IOF')),
                ('insurance_value', models.DecimalField(decimal_places=2, max_digits=14, null=True, verbose_name='seguro')),
                ('quoted_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='cotada em')),
                ('valid_until', models.DateTimeField(null=True, verbose_name='válida até')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='criada em')),
                ('refreshed_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='atualizada em')),
                ('live_proposal_id', models.UUIDField(null=True, verbose_name='proposta em andamento')),
                ('live_proposal_since', models.DateTimeField(null=True)),
                ('expired_at', models.DateTimeField(null=True, verbose_name='vencida no banco em')),
                ('partner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='offers', to='partners.partner', verbose_name='parceiro')),
                ('query', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='offers', to='consultas.query', verbose_name='última consulta')),
            ],
            options={
                'verbose_name': 'oferta',
                'verbose_name_plural': 'ofertas',
                'ordering': ('-refreshed_at',),
            },
        ),
        migrations.CreateModel(
            name='Step',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('provider', models.CharField(max_length=40, verbose_name='banco')),
                ('cpf_index', models.CharField(max_length=64)),
                ('type', models.CharField(max_length=20, verbose_name='tipo')),
                ('url', foundation.encryption.EncryptedTextField(null=True, verbose_name='link')),
                ('detail', models.CharField(max_length=300, verbose_name='detalhe')),
                ('reference', models.CharField(max_length=200, verbose_name='referência no banco')),
                ('state', models.CharField(choices=[('open', 'aguardando o titular'), ('approved', 'concluído'), ('refused', 'recusado'), ('expired', 'expirado')], default='open', max_length=10, verbose_name='situação')),
                ('opened_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='aberto em')),
                ('expires_at', models.DateTimeField(verbose_name='expira em')),
                ('checks', models.PositiveIntegerField(default=0, verbose_name='verificações')),
                ('due_at', models.DateTimeField(editable=False, null=True, verbose_name='próxima verificação')),
                ('lease_until', models.DateTimeField(editable=False, null=True)),
                ('woken_at', models.DateTimeField(null=True)),
                ('worker', models.CharField(blank=True, db_default='', default='', editable=False, max_length=32)),
                ('closed_at', models.DateTimeField(null=True, verbose_name='encerrado em')),
                ('offers', models.PositiveSmallIntegerField(null=True, verbose_name='ofertas')),
                ('best_offer', models.DecimalField(decimal_places=2, max_digits=14, null=True, verbose_name='maior oferta')),
                ('partner', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='partners.partner', verbose_name='parceiro')),
                ('query', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='consultas.query', verbose_name='consulta')),
            ],
            options={
                'verbose_name': 'passo do titular',
                'verbose_name_plural': 'passos do titular',
                'ordering': ('-opened_at',),
            },
        ),
        migrations.AddIndex(
            model_name='query',
            index=models.Index(condition=models.Q(('fingerprint', ''), _negated=True), fields=['fingerprint', '-created_at'], name='query_repeats'),
        ),
        migrations.AddIndex(
            model_name='query',
            index=models.Index(fields=['-created_at'], name='query_newest'),
        ),
        migrations.AddIndex(
            model_name='query',
            index=models.Index(fields=['cpf_index'], name='query_holder'),
        ),
        migrations.AddIndex(
            model_name='query',
            index=models.Index(fields=['request_id'], name='query_request'),
        ),
        migrations.AddIndex(
            model_name='query',
            index=models.Index(condition=models.Q(('partner_reference__gt', '')), fields=['partner_reference', '-created_at'], name='query_by_own_name'),
        ),
        migrations.AddIndex(
            model_name='query',
            index=models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='query_due'),
        ),
        migrations.AddConstraint(
            model_name='query',
            constraint=models.UniqueConstraint(condition=models.Q(('finished_at', None), models.Q(('fingerprint', ''), _negated=True)), fields=('fingerprint',), name='one_identical_query_runs'),
        ),
        migrations.AddIndex(
            model_name='offer',
            index=models.Index(fields=['partner', 'provider', 'native_offer_id'], name='offer_native'),
        ),
        migrations.AddIndex(
            model_name='offer',
            index=django.contrib.postgres.indexes.GinIndex(condition=models.Q(('earlier_native_ids', []), _negated=True), fields=['earlier_native_ids'], name='offer_earlier_native'),
        ),
        migrations.AddIndex(
            model_name='offer',
            index=models.Index(fields=['-refreshed_at'], name='offer_newest'),
        ),
        migrations.AddIndex(
            model_name='offer',
            index=models.Index(fields=['cpf_index'], name='offer_holder'),
        ),
        migrations.AddIndex(
            model_name='offer',
            index=models.Index(condition=models.Q(('live_proposal_id__isnull', False)), fields=['partner', 'provider', 'cpf_index', '-live_proposal_since'], name='offer_with_proposal'),
        ),
        migrations.AddIndex(
            model_name='offer',
            index=models.Index(condition=models.Q(('expired_at__isnull', False)), fields=['cpf_index'], name='offer_expired'),
        ),
        migrations.AddConstraint(
            model_name='offer',
            constraint=models.UniqueConstraint(fields=('partner', 'identity'), name='one_row_per_offer'),
        ),
        migrations.AddIndex(
            model_name='step',
            index=models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='step_due'),
        ),
        migrations.AddIndex(
            model_name='step',
            index=models.Index(fields=['opened_at'], name='step_oldest'),
        ),
        migrations.AddIndex(
            model_name='step',
            index=models.Index(condition=models.Q(('closed_at__isnull', False)), fields=['closed_at'], name='step_closed'),
        ),
        migrations.AddIndex(
            model_name='step',
            index=models.Index(fields=['cpf_index'], name='step_holder'),
        ),
        migrations.AddConstraint(
            model_name='step',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'open')), fields=('partner', 'provider', 'cpf_index'), name='one_open_step'),
        ),
    ]
