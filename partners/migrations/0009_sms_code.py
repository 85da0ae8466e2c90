from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("partners", "0008_addresses_and_held_deliveries")]

    operations = [
        migrations.AddField(
            model_name="partner",
            name="sms_code",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="O titular só autoriza com um código de seis dígitos enviado ao telefone declarado na "
                "abertura. Exclui o aceite por JSON.",
                verbose_name="código por SMS antes do aceite",
            ),
        ),
    ]
