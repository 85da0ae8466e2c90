import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
import foundation.encryption
import partners.models
import partners.validators
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('providers', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Partner',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=120, verbose_name='nome')),
                ('status', models.CharField(choices=[('active', 'ativo'), ('suspended', 'suspenso')], default='active', editable=False, max_length=10, verbose_name='situação')),
                ('cnpj', models.CharField(blank=True, db_default='', default='', max_length=14, validators=[partners.validators.validate_cnpj], verbose_name='CNPJ')),
                ('privacy_contact', models.CharField(blank=True, db_default='', default='', help_text='E-mail, telefone ou endereço que o titular lê na página de autorização.', max_length=200, verbose_name='contato de privacidade')),
                ('return_hosts', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), blank=True, db_default=[], default=list, help_text='Domínios a que a página de autorização pode levar o titular de volta (return_url).', validators=[partners.validators.validate_hosts], verbose_name='domínios de volta')),
                ('json_acceptance', models.BooleanField(db_default=False, default=False, help_text='Em produção o titular só autoriza pela página do serviço. Marcado, o aceite enviado em JSON também vale, e que o titular viu os termos fica por conta do parceiro.', verbose_name='aceite por JSON')),
                ('sms_code', models.BooleanField(db_default=False, default=False, help_text='O titular só autoriza com um código de seis dígitos enviado ao telefone declarado na abertura. Exclui o aceite por JSON.', verbose_name='código por SMS antes do aceite')),
                ('dossier_by_api', models.BooleanField(db_default=True, default=True, help_text='O parceiro exporta pela API o dossiê das suas sessões aceitas.', verbose_name='dossiê pela API')),
                ('rate_limit', models.PositiveIntegerField(blank=True, help_text='Vazio: sem limite.', null=True, validators=[django.core.validators.MinValueValidator(1)], verbose_name='chamadas por minuto')),
                ('in_flight_limit', models.PositiveIntegerField(blank=True, db_default=128, default=128, help_text='Vazio: sem limite.', null=True, validators=[django.core.validators.MinValueValidator(1)], verbose_name='consultas simultâneas')),
                ('daily_cpf_limit', models.PositiveIntegerField(blank=True, help_text='Vazio: sem limite.', null=True, validators=[django.core.validators.MinValueValidator(1)], verbose_name='CPFs distintos por dia')),
                ('deliveries_held', models.BooleanField(db_default=False, default=False, editable=False, verbose_name='entregas retidas')),
                ('webhook_url', models.CharField(blank=True, max_length=500, validators=[partners.validators.validate_webhook_url], verbose_name='URL do webhook')),
                ('webhook_secret', foundation.encryption.EncryptedTextField(editable=False, null=True, verbose_name='segredo do webhook')),
                ('retired_webhook_secrets', foundation.encryption.EncryptedJSONField(editable=False, null=True, verbose_name='segredos anteriores')),
                ('webhook_events', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), blank=True, default=partners.models.default_webhook_events, validators=[partners.models.validate_events], verbose_name='eventos')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='criado em')),
            ],
            options={
                'verbose_name': 'parceiro',
                'verbose_name_plural': 'parceiros',
                'ordering': ('name',),
            },
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('label', models.CharField(blank=True, max_length=60, verbose_name='rótulo')),
                ('prefix', models.CharField(editable=False, max_length=20, verbose_name='prefixo')),
                ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='criada em')),
                ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='expira em')),
                ('networks', models.JSONField(blank=True, db_default=[], default=list, validators=[partners.validators.validate_networks], verbose_name='endereços permitidos')),
                ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='revogada em')),
                ('last_used_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='último uso')),
                ('partner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_keys', to='partners.partner', verbose_name='parceiro')),
            ],
            options={
                'verbose_name': 'chave de API',
                'verbose_name_plural': 'chaves de API',
                'ordering': ('-created_at',),
            },
        ),
        migrations.CreateModel(
            name='FailedCall',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='quando')),
                ('key_prefix', models.CharField(blank=True, max_length=20, verbose_name='prefixo da chave')),
                ('method', models.CharField(max_length=10, verbose_name='método')),
                ('route', models.CharField(max_length=200, verbose_name='rota')),
                ('status', models.PositiveSmallIntegerField(verbose_name='HTTP')),
                ('code', models.CharField(blank=True, max_length=40, verbose_name='código')),
                ('field', models.CharField(blank=True, max_length=100, verbose_name='campo')),
                ('request_id', models.CharField(max_length=128, verbose_name='X-Request-Id')),
                ('times', models.PositiveIntegerField(default=1, verbose_name='vezes')),
                ('partner', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='partners.partner', verbose_name='parceiro')),
            ],
            options={
                'verbose_name': 'chamada com falha',
                'verbose_name_plural': 'chamadas com falha',
                'ordering': ('-at', '-pk'),
                'default_permissions': ('view',),
                'indexes': [models.Index(fields=['-at', '-id'], name='failed_call_newest'), models.Index(fields=['partner', '-at', '-id'], name='failed_call_partner'), models.Index(fields=['partner', 'code', '-at', '-id'], name='failed_call_code'), models.Index(fields=['request_id'], name='failed_call_request'), models.Index(condition=models.Q(('key_prefix', ''), _negated=True), fields=['key_prefix'], name='failed_call_key')],
            },
        ),
        migrations.CreateModel(
            name='Allowance',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('portfolio', models.CharField(blank=True, max_length=60, verbose_name='carteira (originador)')),
                ('portfolios', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), blank=True, db_default=[], default=list, help_text='Separadas por vírgula. Sem carteira fixa, o originador da chamada vale só se estiver aqui.', validators=[partners.validators.validate_portfolios], verbose_name='carteiras que pode pedir')),
                ('paused_until', models.DateTimeField(blank=True, null=True, verbose_name='pausado até')),
                ('pause_reason', models.CharField(blank=True, default='', max_length=200, verbose_name='motivo da pausa')),
                ('provider', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='providers.provider', verbose_name='banco')),
                ('partner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='allowances', to='partners.partner', verbose_name='parceiro')),
            ],
            options={
                'verbose_name': 'banco permitido',
                'verbose_name_plural': 'bancos permitidos',
                'ordering': ('provider_id',),
                'constraints': [models.UniqueConstraint(fields=('partner', 'provider'), name='one_allowance_per_bank')],
            },
        ),
    ]
