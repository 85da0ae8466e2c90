"""An auction look-up keeps no row any more: its key travels as an encrypted argument, its record as an encrypted reply.

The table stays, since processes of the release before write to it until the last of them is replaced. A later release
drops it (`DROP TABLE consultas_auctionlookup`). The foreign key's constraint goes now, so that a row which is left over
keeps no partner from being deleted.
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("consultas", "0004_woken_steps"),
        ("partners", "0002_retired_webhook_secrets"),
    ]

    operations = [
        migrations.AlterField(
            model_name="auctionlookup",
            name="partner",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="partners.partner",
                verbose_name="parceiro",
            ),
        ),
        migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel(name="AuctionLookup")]),
    ]
