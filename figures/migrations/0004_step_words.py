"""One Portuguese word for a step. The database does not change."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('figures', '0003_later_offers'),
    ]

    operations = [
        migrations.AlterField(
            model_name='bankhour',
            name='step_offered',
            field=models.DecimalField(db_default=0, decimal_places=2, default=0, max_digits=16, verbose_name='valor ofertado depois de um passo'),
        ),
        migrations.AlterField(
            model_name='bankhour',
            name='step_offers',
            field=models.PositiveIntegerField(db_default=0, default=0, verbose_name='ofertas depois de um passo'),
        ),
        migrations.AlterField(
            model_name='bankhour',
            name='steps_approved',
            field=models.PositiveIntegerField(db_default=0, default=0, verbose_name='passos concluídos'),
        ),
        migrations.AlterField(
            model_name='bankhour',
            name='steps_expired',
            field=models.PositiveIntegerField(db_default=0, default=0, verbose_name='passos expirados'),
        ),
        migrations.AlterField(
            model_name='bankhour',
            name='steps_refused',
            field=models.PositiveIntegerField(db_default=0, default=0, verbose_name='passos recusados'),
        ),
        migrations.AlterField(
            model_name='bankhour',
            name='steps_with_offers',
            field=models.PositiveIntegerField(db_default=0, default=0, verbose_name='passos com ofertas'),
        ),
        migrations.AlterField(
            model_name='progress',
            name='source',
            field=models.CharField(choices=[('queries', 'consultas'), ('steps', 'passos do titular'), ('moves', 'mudanças de propostas')], max_length=10, primary_key=True, serialize=False),
        ),
        migrations.AlterField(
            model_name='queryhour',
            name='later_offered',
            field=models.DecimalField(db_default=0, decimal_places=2, default=0, max_digits=16, verbose_name='valor ofertado depois de um passo'),
        ),
        migrations.AlterField(
            model_name='queryhour',
            name='later_with_offers',
            field=models.PositiveIntegerField(db_default=0, default=0, verbose_name='com ofertas depois de um passo'),
        ),
    ]
