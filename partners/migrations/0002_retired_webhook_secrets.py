from datetime import datetime

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.utils import timezone

import foundation.encryption


def keep_what_still_signs(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    partners = apps.get_model("partners", "Partner").objects
    signing = partners.filter(previous_webhook_secret__isnull=False, previous_secret_until__gt=timezone.now())
    for partner in signing:
        until = partner.previous_secret_until.isoformat()
        partner.retired_webhook_secrets = [[partner.previous_webhook_secret, until]]
        partner.save(update_fields=["retired_webhook_secrets"])


def keep_the_newest(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    partners = apps.get_model("partners", "Partner").objects
    for partner in partners.filter(retired_webhook_secrets__isnull=False):
        secret, until = partner.retired_webhook_secrets[0]
        partner.previous_webhook_secret, partner.previous_secret_until = secret, datetime.fromisoformat(until)
        partner.save(update_fields=["previous_webhook_secret", "previous_secret_until"])


class Migration(migrations.Migration):
    dependencies = [("partners", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="partner",
            name="retired_webhook_secrets",
            field=foundation.encryption.EncryptedJSONField(
                editable=False, null=True, verbose_name="segredos anteriores"
            ),
        ),
        migrations.RunPython(keep_what_still_signs, keep_the_newest),
        # The columns stay for the processes that still run the version before; a later release drops them.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField(model_name="partner", name="previous_secret_until"),
                migrations.RemoveField(model_name="partner", name="previous_webhook_secret"),
            ]
        ),
    ]
