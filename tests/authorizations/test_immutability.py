"""Evidence, once written, can't be changed: not even by plain SQL."""

import pytest
from django.db import DatabaseError, IntegrityError, connection, models, transaction
from django.utils import timezone

from authorizations.evidence import record_use
from authorizations.models import Evidence, EvidenceUse, Session
from tests.authorizations.clients import HolderClient


@pytest.fixture
def evidence(session: Session, holder: HolderClient) -> Evidence:
    holder.accept(session)
    evidence = Evidence.objects.get()
    record_use(evidence.number, ["ipe"], call="query", reference="q1")
    connection.check_constraints()  # deferred triggers that are still pending would refuse a TRUNCATE themselves
    return evidence


def sql(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


STATEMENTS = [
    "UPDATE {table} SET {column} = 'outro'",
    "UPDATE {table} SET {column} = {column}",
    "DELETE FROM {table}",
    "TRUNCATE {table} CASCADE",
    "TRUNCATE authorizations_session CASCADE",
    "TRUNCATE partners_partner CASCADE",
    "INSERT INTO {table} SELECT * FROM {table} ON CONFLICT ({key}) DO UPDATE SET {column} = 'outro'",
]


@pytest.mark.parametrize(("model", "column", "key"), [(Evidence, "record", "number"), (EvidenceUse, "provider", "id")])
@pytest.mark.control("LGPD 8")
def test_by_plain_sql(evidence: Evidence, model: type[models.Model], column: str, key: str) -> None:
    for statement in STATEMENTS:
        before = list(model.objects.values())
        filled = statement.format(table=model._meta.db_table, column=column, key=key)
        with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
            sql(filled)
        assert list(model.objects.values()) == before


def test_a_session_with_evidence_stays(evidence: Evidence) -> None:
    with pytest.raises(models.ProtectedError):
        evidence.session.delete()
    sql("SET CONSTRAINTS ALL IMMEDIATE")
    with pytest.raises(IntegrityError), transaction.atomic():
        sql("DELETE FROM authorizations_session")


CHANGES = [
    "cpf_index = repeat('0', 64)",
    "partner_id = gen_random_uuid()",
    "authorization_id = repeat('x', 32)",
    "terms_id = terms_id + 1",
    "created_at = now()",
    "status = 'pending'",
    "use_count = 0",
    "erased_at = NULL",
    "revoked_at = NULL",
    "revoked_by = 'outro'",
    "id = id + 1",
]


def test_an_accepted_session_keeps_whose_it_is(evidence: Evidence) -> None:
    """Even the application's role can't change the columns by which queries and erasures find the holder."""
    Session.objects.update(erased_at=timezone.now(), revoked_at=timezone.now())
    for change in CHANGES:
        before = Session.objects.values().get()
        with pytest.raises(DatabaseError, match="keeps whose it is"), transaction.atomic():
            sql(f"UPDATE authorizations_session SET {change}")
        assert Session.objects.values().get() == before


def test_a_second_evidence_of_a_session_is_refused(evidence: Evidence) -> None:
    values = Evidence.objects.values().get() | {"number": 2, "previous_hash": evidence.hash, "hash": "f" * 64}
    with pytest.raises(IntegrityError), transaction.atomic():
        Evidence.objects.create(**values | {"record": evidence.record})


def test_the_chain_does_not_fork(evidence: Evidence) -> None:
    """Two links never follow the same one."""
    fields = [field for field in Evidence._meta.get_fields() if getattr(field, "name", "") == "previous_hash"]
    assert fields[0].unique  # type: ignore[union-attr]
