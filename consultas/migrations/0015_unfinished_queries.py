"""Finds the queries that nobody brought to their end. Built beside the writes that go on, so without a transaction."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("consultas", "0014_partner_reference"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="query",
            index=models.Index(
                condition=models.Q(("finished_at", None)), fields=["deadline_at"], name="query_unfinished"
            ),
        ),
    ]
