"""The database itself refuses to change what may have to be proven in court years later.

The triggers hold for the application's own role and plain SQL. They can't stop whoever owns the tables from
dropping them: that is what the hash chain and the signatures are for (`verify_evidence`), and why production
runs migrations under a role of its own (docs/security.md).
"""

from django.db import migrations

CREATE = """
CREATE FUNCTION authorizations_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % never change', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER evidence_is_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON authorizations_evidence
    FOR EACH STATEMENT EXECUTE FUNCTION authorizations_refuse_change();

CREATE TRIGGER evidence_use_is_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON authorizations_evidenceuse
    FOR EACH STATEMENT EXECUTE FUNCTION authorizations_refuse_change();

CREATE TRIGGER published_terms_are_immutable BEFORE UPDATE OR DELETE ON authorizations_terms
    FOR EACH ROW WHEN (OLD.published_at IS NOT NULL) EXECUTE FUNCTION authorizations_refuse_change();

CREATE TRIGGER terms_are_not_truncated BEFORE TRUNCATE ON authorizations_terms
    FOR EACH STATEMENT EXECUTE FUNCTION authorizations_refuse_change();
"""

DROP = """
DROP TRIGGER terms_are_not_truncated ON authorizations_terms;
DROP TRIGGER published_terms_are_immutable ON authorizations_terms;
DROP TRIGGER evidence_use_is_immutable ON authorizations_evidenceuse;
DROP TRIGGER evidence_is_immutable ON authorizations_evidence;
DROP FUNCTION authorizations_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("authorizations", "0001_initial")]

    operations = [migrations.RunSQL(CREATE, DROP)]
