import django.core.serializers.json
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('partners', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Progress',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('until', models.DateTimeField()),
                ('erased', models.JSONField(default=list, encoder=django.core.serializers.json.DjangoJSONEncoder)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='BreakerMove',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('bank', models.CharField(max_length=40, verbose_name='banco')),
                ('partner_id', models.UUIDField(null=True, verbose_name='parceiro')),
                ('is_open', models.BooleanField(verbose_name='abriu')),
                ('at', models.DateTimeField(verbose_name='quando')),
            ],
            options={
                'ordering': ('-at',),
                'default_permissions': (),
                'indexes': [models.Index(fields=['at'], name='breaker_move_at')],
                'constraints': [models.UniqueConstraint(fields=('bank', 'at', 'partner_id', 'is_open'), name='one_row_of_a_breaker', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='LatencyHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField(verbose_name='hora')),
                ('bank', models.CharField(max_length=40, verbose_name='banco')),
                ('up_to_ms', models.PositiveIntegerField(verbose_name='até (ms)')),
                ('count', models.PositiveIntegerField(db_default=0, default=0, verbose_name='respostas')),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('hour', 'bank', 'up_to_ms'), name='one_row_of_a_latency')],
            },
        ),
        migrations.CreateModel(
            name='BankHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField(verbose_name='hora')),
                ('bank', models.CharField(max_length=40, verbose_name='banco')),
                ('ok', models.PositiveIntegerField(db_default=0, default=0, verbose_name='com ofertas')),
                ('no_offers', models.PositiveIntegerField(db_default=0, default=0, verbose_name='sem ofertas')),
                ('requires_action', models.PositiveIntegerField(db_default=0, default=0, verbose_name='falta um passo do titular')),
                ('pending', models.PositiveIntegerField(db_default=0, default=0, verbose_name='aguardando o titular')),
                ('refused', models.PositiveIntegerField(db_default=0, default=0, verbose_name='recusadas')),
                ('failed', models.PositiveIntegerField(db_default=0, default=0, verbose_name='falhas')),
                ('offers', models.PositiveIntegerField(db_default=0, default=0, verbose_name='ofertas')),
                ('offered', models.DecimalField(db_default=0, decimal_places=2, default=0, max_digits=16, verbose_name='valor ofertado')),
                ('steps_approved', models.PositiveIntegerField(db_default=0, default=0, verbose_name='passos concluídos')),
                ('steps_refused', models.PositiveIntegerField(db_default=0, default=0, verbose_name='passos recusados')),
                ('steps_expired', models.PositiveIntegerField(db_default=0, default=0, verbose_name='passos expirados')),
                ('steps_with_offers', models.PositiveIntegerField(db_default=0, default=0, verbose_name='passos com ofertas')),
                ('step_offers', models.PositiveIntegerField(db_default=0, default=0, verbose_name='ofertas depois de um passo')),
                ('step_offered', models.DecimalField(db_default=0, decimal_places=2, default=0, max_digits=16, verbose_name='valor ofertado depois de um passo')),
                ('submitted', models.PositiveIntegerField(db_default=0, default=0, verbose_name='enviadas')),
                ('submitted_amount', models.DecimalField(db_default=0, decimal_places=2, default=0, max_digits=16, verbose_name='valor enviado')),
                ('signed', models.PositiveIntegerField(db_default=0, default=0, verbose_name='assinadas')),
                ('signed_amount', models.DecimalField(db_default=0, decimal_places=2, default=0, max_digits=16, verbose_name='valor assinado')),
                ('disbursed', models.PositiveIntegerField(db_default=0, default=0, verbose_name='pagas')),
                ('disbursed_amount', models.DecimalField(db_default=0, decimal_places=2, default=0, max_digits=16, verbose_name='valor pago')),
                ('withdrawn', models.PositiveIntegerField(db_default=0, default=0, verbose_name='desistências')),
                ('withdrawn_amount', models.DecimalField(db_default=0, decimal_places=2, default=0, max_digits=16, verbose_name='valor desistido')),
                ('rejected', models.PositiveIntegerField(db_default=0, default=0, verbose_name='recusadas pelo banco')),
                ('rejected_amount', models.DecimalField(db_default=0, decimal_places=2, default=0, max_digits=16, verbose_name='valor recusado')),
                ('cancelled', models.PositiveIntegerField(db_default=0, default=0, verbose_name='canceladas')),
                ('cancelled_amount', models.DecimalField(db_default=0, decimal_places=2, default=0, max_digits=16, verbose_name='valor cancelado')),
                ('expired', models.PositiveIntegerField(db_default=0, default=0, verbose_name='expiradas')),
                ('expired_amount', models.DecimalField(db_default=0, decimal_places=2, default=0, max_digits=16, verbose_name='valor expirado')),
                ('partner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='partners.partner', verbose_name='parceiro')),
            ],
            options={
                'verbose_name': 'número por hora',
                'verbose_name_plural': 'números por hora',
                'default_permissions': ('view',),
                'indexes': [models.Index(fields=['bank', 'hour'], name='hours_of_a_bank')],
                'constraints': [models.UniqueConstraint(fields=('hour', 'bank', 'partner'), name='one_row_of_a_bank')],
            },
        ),
        migrations.CreateModel(
            name='QueryHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField(verbose_name='hora')),
                ('queries', models.PositiveIntegerField(db_default=0, default=0, verbose_name='consultas')),
                ('unfinished', models.PositiveIntegerField(db_default=0, default=0, verbose_name='interrompidas')),
                ('with_offers', models.PositiveIntegerField(db_default=0, default=0, verbose_name='com ofertas')),
                ('offers', models.PositiveIntegerField(db_default=0, default=0, verbose_name='ofertas')),
                ('offered', models.DecimalField(db_default=0, decimal_places=2, default=0, max_digits=16, verbose_name='valor ofertado')),
                ('later_with_offers', models.PositiveIntegerField(db_default=0, default=0, verbose_name='com ofertas depois de um passo')),
                ('later_offered', models.DecimalField(db_default=0, decimal_places=2, default=0, max_digits=16, verbose_name='valor ofertado depois de um passo')),
                ('partner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='partners.partner', verbose_name='parceiro')),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('hour', 'partner'), name='one_row_of_queries')],
            },
        ),
        migrations.CreateModel(
            name='ReasonHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField(verbose_name='hora')),
                ('bank', models.CharField(max_length=40, verbose_name='banco')),
                ('stage', models.CharField(choices=[('offer', 'sem oferta'), ('signature', 'enviada e não assinada'), ('payment', 'assinada e não paga')], max_length=10, verbose_name='etapa')),
                ('code', models.CharField(max_length=40, verbose_name='motivo')),
                ('count', models.PositiveIntegerField(db_default=0, default=0, verbose_name='vezes')),
                ('amount', models.DecimalField(db_default=0, decimal_places=2, default=0, max_digits=16, verbose_name='valor')),
                ('partner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='partners.partner', verbose_name='parceiro')),
            ],
            options={
                'default_permissions': (),
                'indexes': [models.Index(fields=['bank', 'hour'], name='reasons_of_a_bank')],
                'constraints': [models.UniqueConstraint(fields=('hour', 'bank', 'partner', 'stage', 'code'), name='one_row_of_a_reason')],
            },
        ),
    ]
