from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("proposals", "0013_query_of_origin")]

    operations = [
        migrations.AddField(
            model_name="erasure",
            name="partners",
            field=models.JSONField("parceiros a avisar", null=True),
        ),
    ]
