from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # an index that is built without a lock can't be built in a transaction

    dependencies = [
        ('proposals', '0006_end_reason'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='move',
            index=models.Index(fields=['at'], name='move_at'),
        ),
    ]
