from django.db import migrations, models

import partners.validators


class Migration(migrations.Migration):
    dependencies = [("partners", "0004_json_acceptance")]

    operations = [
        migrations.AddField(
            model_name="allowance",
            name="portfolios",
            field=models.JSONField(
                blank=True,
                db_default=[],
                default=list,
                help_text="Separadas por vírgula. Sem carteira fixa, o originador da chamada vale só se estiver aqui.",
                validators=[partners.validators.validate_portfolios],
                verbose_name="carteiras que pode pedir",
            ),
        ),
    ]
