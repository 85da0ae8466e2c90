from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # an index that is built without a lock can't be built in a transaction

    dependencies = [("proposals", "0012_not_accepted_index")]

    operations = [
        migrations.AddField(
            model_name="proposal",
            name="origin_query_id",
            field=models.UUIDField("consulta de origem", editable=False, null=True),
        ),
        AddIndexConcurrently(
            model_name="proposal",
            index=models.Index(fields=["origin_query_id"], name="proposal_origin"),
        ),
    ]
