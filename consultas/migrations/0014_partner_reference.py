from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("consultas", "0013_workers_of_leases"),
    ]

    operations = [
        migrations.AddField(
            model_name="query",
            name="partner_reference",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=64, verbose_name="referência do parceiro"
            ),
        ),
    ]
