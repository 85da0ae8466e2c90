"""The identifiers that a bank gave an offer before: a column with a database default, so that processes of the release
before may go on writing offers."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("consultas", "0006_steps"),
    ]

    operations = [
        migrations.AddField(
            model_name="offer",
            name="earlier_native_ids",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=200),
                db_default=[],
                default=list,
                size=None,
                verbose_name="ids anteriores no banco",
            ),
        ),
    ]
