"""As the terms promise, no query can use a revoked authorization, and its evidence stays valid."""

import io
import zipfile

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from authorizations import dossier, retention, seal, sessions
from authorizations.evidence import for_query, record_use
from authorizations.models import Evidence, Session
from foundation.errors import InvalidInput
from foundation.formats import iso_utc
from foundation.models import AuditEntry
from partners.models import Partner
from tests.authorizations.clients import CPF, OTHER_CPF, HolderClient, open_session, public
from tests.operators import operator_with, page_of

REASON = "pedido por telefone"


@pytest.fixture
def accepted(session: Session, holder: HolderClient) -> Session:
    holder.accept(session)
    record_use(1, ["ipe"], call="query", reference="q-1")
    return Session.objects.get()


@pytest.fixture
def revoked(accepted: Session) -> Session:
    accepted.revoke("maria", REASON)
    return Session.objects.get()


@pytest.mark.control("LGPD 8.5")
def test_no_further_query_can_use_it(partner: Partner, revoked: Session) -> None:
    with pytest.raises(InvalidInput) as refusal:
        for_query(partner, CPF, revoked.authorization_id)
    assert refusal.value.field == "authorization_id"
    assert refusal.value.message == "A autorização foi revogada. Peça outra ao titular."
    with pytest.raises(InvalidInput, match="inexistente"):  # a query for another CPF learns nothing about this one
        for_query(partner, OTHER_CPF, revoked.authorization_id)
    fresh = open_session(partner)
    assert (fresh.pk, fresh.status) != (revoked.pk, "expired")
    assert fresh.status_at(timezone.now()) == "pending"


def test_the_holder_sees_it_on_the_receipt(holder: HolderClient, revoked: Session) -> None:
    html = holder.page(revoked)
    assert "<h1>Autorização revogada</h1>" in html
    assert "Autorização registrada" not in html
    local = timezone.localtime(revoked.revoked_at)
    assert f"<dt>Revogada</dt><dd>{local.day} de " in html
    assert "***.982.247-**" in html
    for private in ("maria", REASON):
        assert private not in html


def test_it_can_not_be_accepted_again(holder: HolderClient, revoked: Session) -> None:
    assert holder.accept(revoked, {"accepted": True}).json()["code"] == "gone"
    assert holder.get(f"{public(revoked)}/terms").status_code == 410
    form = holder.send(revoked, accepted="true")
    assert (form.status_code, form["Location"]) == (303, public(revoked))
    assert Session.objects.get().revoked_at == revoked.revoked_at


def test_the_dossier_says_so(revoked: Session) -> None:
    evidence = Evidence.objects.get()
    assert revoked.revoked_at is not None
    html = dossier.page(evidence, evidence.sealed_at, "operadora")
    assert f"Revogada em {timezone.localtime(revoked.revoked_at):%d/%m/%Y %H:%M:%S}" in html
    assert f"por maria. Motivo: “{REASON}”. Desde então" in html
    archive = dossier.export(evidence, "operadora")
    problems, manifest = dossier.verify(archive, seal.trusted_keys())
    assert (problems, manifest["revoked_at"]) == ([], iso_utc(revoked.revoked_at))
    with zipfile.ZipFile(io.BytesIO(archive)) as package:
        assert package.read("evidencia.json").decode() == evidence.record


def test_the_first_revocation_counts_and_an_erasure_takes_its_reason_alone(revoked: Session) -> None:
    before = Session.objects.values().get()
    revoked.revoke("outra", "outro motivo")
    assert Session.objects.values().get() == before
    retention.erase(revoked.cpf_index)
    after = Session.objects.get()
    assert (after.revocation_reason, after.revoked_at, after.revoked_by) == ("***", revoked.revoked_at, "maria")


# --- In the back office ---------------------------------------------------------------------------------------


@pytest.fixture
def maria(db: None) -> Client:
    """An operator who may revoke."""
    return operator_with("view_session", "revoke_authorization", name="maria")


def test_in_the_back_office(maria: Client, accepted: Session) -> None:
    path = page_of(accepted, "revoke")
    assert "não pode ser desfeito" in maria.get(path).content.decode()
    assert maria.post(path, {"reason": " "}).status_code == 200
    assert Session.objects.get().revoked_at is None
    assert maria.post(path, {"reason": REASON}).status_code == 302
    row = Session.objects.get()
    assert (row.revoked_by, row.revocation_reason) == ("maria", REASON)
    entry = AuditEntry.objects.get(action="revoked")
    told = (entry.object_id, entry.who, entry.detail)
    assert told == (str(row.pk), "maria", "Autorização revogada.")
    html = maria.get(page_of(accepted, "change")).content.decode()
    for shown in ("revogada", REASON):
        assert shown in html
    assert path not in html
    maria.post(path, {"reason": "outro"})
    assert Session.objects.get().revocation_reason == REASON
    for chosen, listed in (("revoked", [row]), ("authorized", []), ("expired", [])):
        found = maria.get(reverse("admin:authorizations_session_changelist"), {"situacao": chosen})
        assert list(found.context["cl"].result_list) == listed


@pytest.mark.parametrize(("end", "status"), [("", 302), ("declined", 404), ("expired", 404)])
def test_an_operator_ends_a_pending_link_and_no_session_that_ended(
    maria: Client, session: Session, holder: HolderClient, end: str, status: int
) -> None:
    if end == "declined":
        sessions.decline(session.authorization_id)
    elif end == "expired":
        Session.objects.update(expires_at=timezone.now())
    html = maria.get(page_of(session, "change")).content.decode()
    assert (page_of(session, "revoke") in html) is (not end)
    assert page_of(session, "read_evidence") not in html
    assert maria.post(page_of(session, "revoke"), {"reason": REASON}).status_code == status
    assert holder.get(public(session)).status_code == 410
