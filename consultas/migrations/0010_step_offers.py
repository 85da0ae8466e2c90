from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('consultas', '0009_offer_prices'),
    ]

    operations = [
        migrations.AddField(
            model_name='step',
            name='best_offer',
            field=models.DecimalField(decimal_places=2, max_digits=14, null=True, verbose_name='maior oferta'),
        ),
        migrations.AddField(
            model_name='step',
            name='offers',
            field=models.PositiveSmallIntegerField(null=True, verbose_name='ofertas'),
        ),
    ]
