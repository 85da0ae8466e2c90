from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # an index that is built without a lock can't be built in a transaction

    dependencies = [
        ("authorizations", "0009_sealed_way_back"),
    ]

    operations = [
        AddIndexConcurrently(
            "session",
            models.Index(
                condition=models.Q(("partner_reference__gt", "")),
                fields=["partner_reference", "-created_at"],
                name="session_by_own_name",
            ),
        ),
    ]
