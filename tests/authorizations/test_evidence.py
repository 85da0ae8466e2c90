"""Which evidence a query gets from a session, and that even plain SQL changes neither it nor its uses."""

from decimal import Decimal

import pytest
from django.db import DatabaseError, IntegrityError, connection, models, transaction
from django.utils import timezone

from authorizations.evidence import for_query, record_use
from authorizations.models import Evidence, EvidenceUse, Session
from foundation.encryption import sealed
from foundation.errors import InvalidInput
from partners.models import Partner
from providers.types.query import Geolocation
from tests.authorizations.clients import CPF, NAME, OTHER_CPF, HolderClient, open_session, public
from tests.factories import PartnerFactory
from tests.operators import see
from tests.plans import execute


def test_the_evidence_of_an_authorized_session(partner: Partner, session: Session, holder: HolderClient) -> None:
    body = {
        "geolocation": {"lat": -23.55052, "lng": -46.633308},
        "device": {"platform": "Android", "deviceModel": "SM-A156M"},
    }
    holder.accept(session, body, REMOTE_ADDR="203.0.113.9", HTTP_USER_AGENT="Navegador/1.0")
    evidence = for_query(partner, CPF, session.authorization_id)
    assert evidence == Evidence.objects.get()
    assert evidence.for_bank == {
        "client_ip": "203.0.113.9",
        "geolocation": Geolocation(Decimal("-23.55052"), Decimal("-46.633308"), None),
        "user_agent": "Navegador/1.0",
        "device_model": "SM-A156M",
        "platform": "Android",
        "accepted_at": evidence.sealed_at,
        "authorization_reference": "evidence-1",
    }


def test_what_was_not_collected_stays_out_also_after_the_72_hours(partner: Partner, accepted: Session) -> None:
    Session.objects.update(expires_at=timezone.now())
    told = for_query(partner, CPF, accepted.authorization_id).for_bank
    assert {name: value for name, value in told.items() if value is not None} == {
        "client_ip": "127.0.0.1",
        "accepted_at": accepted.evidence.sealed_at,
        "authorization_reference": "evidence-1",
    }


def test_whose_evidence_it_is_says_the_record_and_no_column(accepted: Session, holder: HolderClient) -> None:
    """Plain SQL of the application's role may still replace the ciphertext, as `reencrypt` does."""
    Session.objects.update(cpf=sealed(accepted, "cpf", OTHER_CPF), name=sealed(accepted, "name", "Outra Pessoa"))
    with pytest.raises(InvalidInput):
        for_query(accepted.partner, OTHER_CPF, accepted.authorization_id)
    assert for_query(accepted.partner, CPF, accepted.authorization_id).number == 1
    see(holder, public(accepted), "***.982.247-**", hidden=["Outra Pessoa"])
    terms = holder.get(f"{public(accepted)}/terms").json()
    assert (terms["holder_name"], terms["masked_cpf"]) == (NAME, "***.982.247-**")


def test_a_use_of_no_evidence_is_refused(db: None) -> None:
    with pytest.raises(Evidence.DoesNotExist):
        record_use(1, ["ipe"], call="query", reference="q-1")


@pytest.fixture
def evidence(accepted: Session) -> Evidence:
    evidence = Evidence.objects.get()
    record_use(evidence.number, ["ipe"], call="query", reference="q1")
    connection.check_constraints()  # deferred triggers that are still pending would refuse a TRUNCATE themselves
    return evidence


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
            execute(filled)
        assert list(model.objects.values()) == before


def test_a_session_with_evidence_stays(evidence: Evidence) -> None:
    with pytest.raises(models.ProtectedError):
        evidence.session.delete()
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    with pytest.raises(IntegrityError), transaction.atomic():
        execute("DELETE FROM authorizations_session")


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
            execute(f"UPDATE authorizations_session SET {change}")
        assert Session.objects.values().get() == before


def test_a_session_has_one_evidence_and_a_link_one_successor(evidence: Evidence) -> None:
    values = Evidence.objects.values().get() | {"number": 2, "hash": "f" * 64, "record": evidence.record}
    for change in ({"previous_hash": evidence.hash}, {"session_id": open_session(PartnerFactory()).pk}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Evidence.objects.create(**values | change)
