from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # an index that is built without a lock can't be built in a transaction

    dependencies = [("authorizations", "0010_own_name_index")]

    operations = [
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                condition=models.Q(("revoked_at__isnull", False)), fields=["-created_at"], name="session_revoked"
            ),
        ),
    ]
