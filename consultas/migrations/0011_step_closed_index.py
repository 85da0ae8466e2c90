from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # an index that is built without a lock can't be built in a transaction

    dependencies = [
        ('consultas', '0010_step_offers'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='step',
            index=models.Index(
                condition=models.Q(('closed_at__isnull', False)), fields=['closed_at'], name='step_closed'
            ),
        ),
    ]
