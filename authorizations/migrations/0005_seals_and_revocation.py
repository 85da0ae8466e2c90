"""What was left open beside the evidence: who an accepted session belongs to, which calls relied on it, and that it
can be revoked.

Uses that were noted before are numbered and sealed here as they are found.
"""

from datetime import UTC

from django.db import migrations, models
from django.db.models import Count

import foundation.encryption
from authorizations import seal

GUARD_OFF = "ALTER TABLE authorizations_evidenceuse DISABLE TRIGGER evidence_use_is_immutable"
GUARD_ON = "ALTER TABLE authorizations_evidenceuse ENABLE TRIGGER evidence_use_is_immutable"

# CPF, name, phone and reason are left out: `reencrypt` renews their ciphertext, and an erasure masks them.
CREATE = """
CREATE FUNCTION authorizations_keep_accepted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'an accepted row of % keeps whose it is', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER accepted_session_keeps_whose_it_is BEFORE UPDATE ON authorizations_session
    FOR EACH ROW WHEN (
        OLD.status = 'authorized' AND (
            (OLD.id, OLD.authorization_id, OLD.partner_id, OLD.cpf_index, OLD.terms_id, OLD.status, OLD.created_at)
            IS DISTINCT FROM
            (NEW.id, NEW.authorization_id, NEW.partner_id, NEW.cpf_index, NEW.terms_id, NEW.status, NEW.created_at)
            OR NEW.use_count < OLD.use_count
            OR OLD.erased_at IS NOT NULL AND OLD.erased_at IS DISTINCT FROM NEW.erased_at
            OR OLD.revoked_at IS NOT NULL AND (OLD.revoked_at, OLD.revoked_by)
                IS DISTINCT FROM (NEW.revoked_at, NEW.revoked_by)
        )
    ) EXECUTE FUNCTION authorizations_keep_accepted();
"""

DROP = """
DROP TRIGGER accepted_session_keeps_whose_it_is ON authorizations_session;
DROP FUNCTION authorizations_keep_accepted();
"""


def seal_uses(apps, schema_editor):
    EvidenceUse = apps.get_model("authorizations", "EvidenceUse")
    last, number = None, 0
    uses = EvidenceUse.objects.order_by("evidence_id", "used_at", "pk")
    for use in uses.values("pk", "evidence_id", "evidence__hash", "used_at", "provider", "call", "reference").iterator():
        number = number + 1 if use["evidence_id"] == last else 1
        last = use["evidence_id"]
        content = {
            "number": number,
            "used_at": use["used_at"].astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "provider": use["provider"],
            "call": use["call"],
            "reference": use["reference"],
        }
        EvidenceUse.objects.filter(pk=use["pk"]).update(
            number=number, seal=seal.sign_use(use["evidence__hash"], content)
        )
    Session = apps.get_model("authorizations", "Session")
    used = Session.objects.annotate(count=Count("evidence__uses")).filter(count__gt=0)
    for pk, count in used.values_list("pk", "count"):
        Session.objects.filter(pk=pk).update(use_count=count)


class Migration(migrations.Migration):
    dependencies = [("authorizations", "0004_retention")]

    operations = [
        migrations.AddField(
            model_name="session",
            name="use_count",
            field=models.PositiveIntegerField(default=0, editable=False),
        ),
        migrations.AddField(
            model_name="session",
            name="revoked_at",
            field=models.DateTimeField(editable=False, null=True, verbose_name="revogada em"),
        ),
        migrations.AddField(
            model_name="session",
            name="revoked_by",
            field=models.CharField(default="", max_length=150, verbose_name="revogada por"),
        ),
        migrations.AddField(
            model_name="session",
            name="revocation_reason",
            field=foundation.encryption.EncryptedTextField(null=True, verbose_name="motivo da revogação"),
        ),
        migrations.AlterModelOptions(
            name="session",
            options={
                "ordering": ("-created_at",),
                "permissions": [("revoke_authorization", "Pode revogar uma autorização")],
                "verbose_name": "sessão de autorização",
                "verbose_name_plural": "sessões de autorização",
            },
        ),
        migrations.AddField(
            model_name="evidenceuse",
            name="number",
            field=models.PositiveIntegerField(null=True, verbose_name="número"),
        ),
        migrations.AddField(
            model_name="evidenceuse",
            name="seal",
            field=models.CharField(max_length=128, null=True, verbose_name="selo"),
        ),
        migrations.RunSQL(GUARD_OFF, GUARD_ON),
        migrations.RunPython(seal_uses, migrations.RunPython.noop),
        # Constraint triggers still waiting would forbid the changes of the table that follow.
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", migrations.RunSQL.noop),
        migrations.RunSQL(GUARD_ON, GUARD_OFF),
        migrations.AlterField(
            model_name="evidenceuse",
            name="number",
            field=models.PositiveIntegerField(verbose_name="número"),
        ),
        migrations.AlterField(
            model_name="evidenceuse",
            name="seal",
            field=models.CharField(max_length=128, verbose_name="selo"),
        ),
        migrations.AddConstraint(
            model_name="evidenceuse",
            constraint=models.UniqueConstraint(fields=("evidence", "number"), name="uses_are_numbered"),
        ),
        migrations.AlterModelOptions(
            name="evidenceuse",
            options={
                "default_permissions": ("view",),
                "ordering": ("evidence_id", "number"),
                "verbose_name": "uso da evidência",
                "verbose_name_plural": "usos da evidência",
            },
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
