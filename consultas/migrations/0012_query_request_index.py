from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("consultas", "0011_step_closed_index"),
    ]

    operations = [
        AddIndexConcurrently("query", models.Index(fields=["request_id"], name="query_request")),
    ]
