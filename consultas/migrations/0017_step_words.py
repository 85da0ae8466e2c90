"""One Portuguese word for a step. The database does not change."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('consultas', '0016_own_name_index'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='step',
            options={'ordering': ('-opened_at',), 'verbose_name': 'passo do titular', 'verbose_name_plural': 'passos do titular'},
        ),
        migrations.AlterField(
            model_name='step',
            name='closed_at',
            field=models.DateTimeField(null=True, verbose_name='encerrado em'),
        ),
        migrations.AlterField(
            model_name='step',
            name='opened_at',
            field=models.DateTimeField(default=django.utils.timezone.now, verbose_name='aberto em'),
        ),
        migrations.AlterField(
            model_name='step',
            name='state',
            field=models.CharField(choices=[('open', 'aguardando o titular'), ('approved', 'concluído'), ('refused', 'recusado'), ('expired', 'expirado')], default='open', max_length=10, verbose_name='situação'),
        ),
    ]
