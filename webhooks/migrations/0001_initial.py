import django.db.models.deletion
import django.db.models.expressions
import django.utils.timezone
import foundation.encryption
import webhooks.models
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('partners', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.CharField(default=webhooks.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False, verbose_name='webhook-id')),
                ('name', models.CharField(max_length=60, verbose_name='evento')),
                ('external_reference', foundation.encryption.EncryptedTextField(null=True, verbose_name='referência externa')),
                ('reference_index', models.CharField(blank=True, max_length=64)),
                ('body', foundation.encryption.EncryptedTextField(null=True, verbose_name='corpo')),
                ('state', models.CharField(choices=[('due', 'a entregar'), ('delivered', 'entregue'), ('failed', 'falhou')], default='due', max_length=10, verbose_name='estado')),
                ('attempts', models.PositiveIntegerField(default=0, verbose_name='tentativas')),
                ('failures', models.PositiveSmallIntegerField(default=0, verbose_name='falhas seguidas')),
                ('fault', models.CharField(blank=True, choices=[('status', 'resposta fora de 2xx'), ('redirect', 'redirecionamento (não seguido)'), ('gone', '410: o destino pediu para não receber mais'), ('timeout', 'tempo esgotado'), ('refused', 'conexão recusada'), ('connection', 'falha de conexão'), ('tls', 'falha de TLS ou certificado inválido'), ('protocol', 'resposta ilegível'), ('dns', 'nome não resolvido'), ('blocked', 'endereço não permitido'), ('url', 'URL inválida'), ('internal', 'falha interna do serviço')], max_length=12, verbose_name='falha atual')),
                ('due_at', models.DateTimeField(default=django.utils.timezone.now, null=True, verbose_name='próxima tentativa')),
                ('lease_until', models.DateTimeField(editable=False, null=True, verbose_name='em entrega até')),
                ('worker', models.CharField(blank=True, db_default='', default='', editable=False, max_length=32)),
                ('resent', models.BooleanField(db_default=False, default=False, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='criado em')),
                ('delivered_at', models.DateTimeField(null=True, verbose_name='entregue em')),
                ('purged_at', models.DateTimeField(null=True, verbose_name='conteúdo apagado em')),
                ('partner_reference', models.CharField(blank=True, db_default='', default='', max_length=64, verbose_name='referência do parceiro')),
                ('xact_id', models.BigIntegerField(db_default=django.db.models.expressions.RawSQL('pg_current_xact_id()::text::bigint', ()), editable=False)),
                ('partner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='events', to='partners.partner', verbose_name='parceiro')),
            ],
            options={
                'verbose_name': 'evento',
                'verbose_name_plural': 'eventos',
                'ordering': ('-created_at', '-id'),
            },
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField(verbose_name='nº')),
                ('at', models.DateTimeField(verbose_name='início')),
                ('url', models.CharField(max_length=500, verbose_name='URL')),
                ('status', models.PositiveSmallIntegerField(null=True, verbose_name='status HTTP')),
                ('fault', models.CharField(blank=True, choices=[('status', 'resposta fora de 2xx'), ('redirect', 'redirecionamento (não seguido)'), ('gone', '410: o destino pediu para não receber mais'), ('timeout', 'tempo esgotado'), ('refused', 'conexão recusada'), ('connection', 'falha de conexão'), ('tls', 'falha de TLS ou certificado inválido'), ('protocol', 'resposta ilegível'), ('dns', 'nome não resolvido'), ('blocked', 'endereço não permitido'), ('url', 'URL inválida'), ('internal', 'falha interna do serviço')], max_length=12, verbose_name='falha')),
                ('duration_ms', models.PositiveIntegerField(verbose_name='duração (ms)')),
                ('excerpt', foundation.encryption.EncryptedTextField(null=True, verbose_name='início da resposta')),
                ('event', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='webhooks.event', verbose_name='evento')),
                ('partner', models.ForeignKey(db_index=False, editable=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='partners.partner')),
            ],
            options={
                'verbose_name': 'tentativa',
                'verbose_name_plural': 'tentativas',
                'ordering': ('event', 'number'),
            },
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('due_at__isnull', False)), fields=['partner', 'due_at'], name='event_due'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('lease_until__isnull', False)), fields=['partner'], name='event_leased'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('state', 'failed')), fields=['partner'], name='event_failed'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(fields=['partner', '-created_at'], name='event_newest'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(fields=['partner', 'name', '-created_at'], name='event_by_name'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(fields=['reference_index'], name='event_reference'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(fields=['-created_at', '-id'], name='event_newest_of_all'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(fields=['partner', 'xact_id', 'created_at', 'id'], name='event_in_order'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('partner_reference__gt', '')), fields=['partner', 'partner_reference', '-created_at'], name='event_by_own_name'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('purged_at__isnull', True)), fields=['created_at'], name='event_unpurged'),
        ),
        migrations.AddConstraint(
            model_name='event',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('due_at__isnull', False), ('state', 'due')), models.Q(models.Q(('state', 'due'), _negated=True), ('due_at__isnull', True)), _connector='OR'), name='event_due_has_its_time'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(fields=['partner', '-at'], name='attempt_newest'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(condition=models.Q(('fault', '')), fields=['partner', '-at'], name='attempt_newest_success'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(condition=models.Q(('fault', ''), _negated=True), fields=['partner', '-at'], name='attempt_newest_failure'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.UniqueConstraint(fields=('event', 'number'), name='one_attempt_per_number'),
        ),
    ]
