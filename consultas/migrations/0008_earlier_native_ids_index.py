"""Finds an offer by an earlier identifier. Built beside the writes that go on, so without a transaction."""

import django.contrib.postgres.indexes
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("consultas", "0007_earlier_native_ids"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="offer",
            index=django.contrib.postgres.indexes.GinIndex(fields=["earlier_native_ids"], name="offer_earlier_native"),
        ),
    ]
