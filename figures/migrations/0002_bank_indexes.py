from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # an index that is built without a lock can't be built in a transaction

    dependencies = [
        ('figures', '0001_initial'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='bankhour',
            index=models.Index(fields=['bank', 'hour'], name='hours_of_a_bank'),
        ),
        AddIndexConcurrently(
            model_name='reasonhour',
            index=models.Index(fields=['bank', 'hour'], name='reasons_of_a_bank'),
        ),
    ]
