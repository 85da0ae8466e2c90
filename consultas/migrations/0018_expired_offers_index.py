from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # an index that is built without a lock can't be built in a transaction

    dependencies = [
        ("consultas", "0017_step_words"),
    ]

    operations = [
        AddIndexConcurrently(
            "offer",
            models.Index(
                condition=models.Q(("expired_at__isnull", False)), fields=["cpf_index"], name="offer_expired"
            ),
        ),
    ]
