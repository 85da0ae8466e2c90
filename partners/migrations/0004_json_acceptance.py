from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("partners", "0003_authorization_page")]

    operations = [
        migrations.AddField(
            model_name="partner",
            name="json_acceptance",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Em produção o titular só autoriza pela página do serviço. Marcado, o aceite enviado em JSON "
                "também vale, e que o titular viu os termos fica por conta do parceiro.",
                verbose_name="aceite por JSON",
            ),
        ),
    ]
