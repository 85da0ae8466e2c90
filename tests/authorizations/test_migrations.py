"""After `migrate`, evidence of earlier versions is still there and still verifies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.db import connection

from authorizations import chain, seal
from authorizations.models import Evidence, EvidenceUse, Session
from tests.authorizations.clients import HolderClient, open_session
from tests.authorizations.test_verification import guards_off
from tests.factories import PartnerFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def to_the_newest() -> Iterator[None]:
    """Migrates to the newest tables after the test, even if it fails."""
    yield
    call_command("migrate", "authorizations", verbosity=0)


def test_uses_noted_before_they_had_seals_are_sealed(to_the_newest: None) -> None:
    partner = PartnerFactory()
    for cpf in ("52998224725", "11144477735"):
        HolderClient().accept(open_session(partner, cpf=cpf))
    call_command("migrate", "authorizations", "0004", verbosity=0)
    with connection.cursor() as cursor:
        for number, provider, day in ((1, "ipe", 2), (2, "cedro", 1), (1, "aroeira", 1)):
            cursor.execute(
                "INSERT INTO authorizations_evidenceuse (evidence_id, provider, call, reference, used_at)"
                " VALUES (%s, %s, 'query', 'q', make_timestamptz(2026, 1, %s, 12, 0, 1.234567))",
                [number, provider, day],
            )
    call_command("migrate", "authorizations", verbosity=0)
    with guards_off() as cursor:  # migrating backwards dropped a column that a later release fills
        cursor.execute("UPDATE authorizations_evidence SET from_api_address = false")
    assert list(EvidenceUse.objects.values_list("evidence_id", "number", "provider")) == [
        (1, 1, "aroeira"),
        (1, 2, "ipe"),
        (2, 1, "cedro"),
    ]
    assert list(Session.objects.order_by("pk").values_list("use_count", flat=True)) == [2, 1]
    result = chain.verify(seal.trusted_keys())
    assert (result["problems"], result["checked"], result["uses"]) == ([], Evidence.objects.count(), 3)
