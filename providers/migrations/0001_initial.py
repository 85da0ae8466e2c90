import django.db.models.deletion
import django.utils.timezone
import foundation.boxes
import foundation.encryption
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Provider',
            fields=[
                ('name', models.SlugField(max_length=40, primary_key=True, serialize=False, verbose_name='identificador')),
                ('enabled', models.BooleanField(default=True, verbose_name='habilitado')),
                ('base_url', models.CharField(max_length=200, verbose_name='endereço base')),
                ('credentials', foundation.boxes.BoxesField(blank=True, default=dict, verbose_name='credenciais')),
                ('former_credentials', foundation.boxes.BoxesField(blank=True, default=dict, editable=False, shared_with='credentials', verbose_name='credenciais anteriores')),
                ('callback_secret', foundation.encryption.EncryptedTextField(blank=True, null=True, verbose_name='segredo dos avisos')),
                ('certificate', models.TextField(blank=True, verbose_name='certificado de cliente')),
                ('former_certificate', models.TextField(blank=True, editable=False, verbose_name='certificado anterior')),
                ('authorities', models.TextField(blank=True, verbose_name='autoridades do banco')),
                ('way_secrets', foundation.boxes.BoxesField(blank=True, default=dict, verbose_name='segredos do caminho')),
                ('portfolio', models.CharField(blank=True, max_length=60, verbose_name='carteira padrão')),
                ('timeout_s', models.PositiveIntegerField(blank=True, null=True, verbose_name='tempo limite (s)')),
                ('max_in_flight', models.PositiveIntegerField(default=512, verbose_name='chamadas simultâneas')),
                ('circuit', models.CharField(choices=[('auto', 'automático: com pausa quando falha'), ('open', 'nunca: o banco fica fora do ar'), ('closed', 'sempre, mesmo que falhe')], default='auto', max_length=10, verbose_name='chamar o banco')),
                ('updated_at', models.DateTimeField(auto_now=True, verbose_name='atualizado em')),
            ],
            options={
                'verbose_name': 'banco',
                'verbose_name_plural': 'bancos',
                'ordering': ('name',),
                'permissions': (('change_account', 'Pode mudar endereço e credenciais de bancos'),),
            },
        ),
        migrations.CreateModel(
            name='Maintenance',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('starts_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='início')),
                ('ends_at', models.DateTimeField(verbose_name='fim')),
                ('reason', models.CharField(help_text='Os parceiros leem este texto.', max_length=200, verbose_name='motivo')),
                ('provider', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='maintenance', to='providers.provider', verbose_name='banco')),
            ],
            options={
                'verbose_name': 'janela fora do ar',
                'verbose_name_plural': 'janelas fora do ar',
                'ordering': ('-starts_at',),
                'indexes': [models.Index(fields=['provider', 'ends_at'], name='maintenance_of_bank')],
                'constraints': [models.CheckConstraint(condition=models.Q(('ends_at__gt', models.F('starts_at'))), name='maintenance_has_a_length', violation_error_message='O fim tem de ser depois do início.')],
            },
        ),
    ]
