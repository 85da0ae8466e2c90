from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # an index that is built without a lock can't be built in a transaction

    dependencies = [("figures", "0002_bank_indexes")]

    operations = [
        migrations.AddField(
            model_name="queryhour",
            name="later_with_offers",
            field=models.PositiveIntegerField("com ofertas depois de autorização", db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="queryhour",
            name="later_offered",
            field=models.DecimalField(
                "valor ofertado depois de autorização", db_default=0, decimal_places=2, default=0, max_digits=16
            ),
        ),
        # For the purge.
        AddIndexConcurrently(
            model_name="breakermove",
            index=models.Index(fields=["at"], name="breaker_move_at"),
        ),
    ]
