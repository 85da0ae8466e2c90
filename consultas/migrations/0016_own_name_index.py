from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # an index that is built without a lock can't be built in a transaction

    dependencies = [
        ("consultas", "0015_unfinished_queries"),
    ]

    operations = [
        AddIndexConcurrently(
            "query",
            models.Index(
                condition=models.Q(("partner_reference__gt", "")),
                fields=["partner_reference", "-created_at"],
                name="query_by_own_name",
            ),
        ),
    ]
