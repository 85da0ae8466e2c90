"""How sessions end: by "Não autorizo", a revocation, the end of their time, or their age. As the terms promise, no
query can use a revoked authorization, and its evidence stays valid."""

import json
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from authorizations import chain, dossier, retention, seal, sessions
from authorizations.evidence import for_query
from authorizations.models import Evidence, Session
from foundation.errors import InvalidInput
from foundation.formats import iso_utc
from foundation.models import AuditEntry
from partners.models import Partner, WebhookEvent
from tests.authorizations.clients import CPF, OTHER_CPF, HolderClient, PartnerClient, open_session, public, route
from tests.operators import NOT_NOW, operator_with, page_of, says, see
from tests.plans import assert_indexed, execute, executed
from webhooks.models import Event


@pytest.fixture(autouse=True)
def every_event(partner: Partner) -> None:
    partner.webhook_events = WebhookEvent.values
    partner.save(update_fields=["webhook_events"])


def told() -> list[dict[str, Any]]:
    """The events so far, without what every event has."""
    bodies = [json.loads(event.body or "") for event in Event.objects.order_by("created_at")]
    return [{k: v for k, v in body.items() if k not in ("partner_id", "timestamp")} for body in bodies]


def end_of(session: Session, status: str, at: datetime | None) -> dict[str, Any]:
    """The event about the session's end."""
    assert at is not None
    return {
        "external_reference": session.authorization_id,
        "event": f"authorization.{status}",
        "authorization_id": session.authorization_id,
        "cpf": CPF,
        "status": status,
        "partner_reference": None,
        f"{status}_at": iso_utc(at),
    }


def revoke(api: PartnerClient | HolderClient, session: Session, body: Any = None) -> Any:
    return api.post(route(session, "/revoke"), body, format="json" if body is not None else None)


def row(session: Session) -> Session:
    return Session.objects.get(pk=session.pk)


# --- "Não autorizo" ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [True, False])
def test_the_holder_declines(api: PartnerClient, holder: HolderClient, session: Session, form: bool) -> None:
    """By the page's form, and by the guide's command for the sandbox, `curl -X POST $URL/decline`, which sends neither
    a body nor a content type."""
    html = holder.page(session)
    assert html.index("Li e autorizo") < html.index("Não autorizo"), "behind the accepting button, in reading order"
    path = f"{urlsplit(api.get(route(session)).json()['url']).path}/decline"
    reply = holder.send(session, "decline") if form else holder.generic("POST", path)
    assert (reply.status_code, reply["Location"]) == (303, public(session))
    neither_yes_nor_no = '<path d="M6 12h12"/>'
    says(holder.get(public(session)), "<h1>Você não autorizou</h1>", neither_yes_nor_no, status=410)
    assert told() == [end_of(session, "declined", row(session).declined_at)]
    assert row(session).status == "declined", "before the fix, lists and figures found it among the expired"
    read = api.get(route(session)).json()
    assert (read["status"], read["declined_at"]) == ("declined", told()[0]["declined_at"])


# --- Revocation on the receipt; with a code: test_phone_code.py -----------------------------------------------------


REVOKE = "Revogar esta autorização"


def test_the_holder_revokes_the_authorization(accepted: Session, holder: HolderClient) -> None:
    """Before the fix, the holder had to write to the partner."""
    see(holder, public(accepted), REVOKE)
    reply = holder.answer(accepted, "revoke")
    assert (reply.status_code, reply["Location"]) == (303, public(accepted))
    assert (row(accepted).status_at(timezone.now()), row(accepted).revoked_by) == ("revoked", "titular")
    see(holder, public(accepted), "<h1>Autorização revogada</h1>", hidden=[REVOKE])
    before = Session.objects.values().get()
    assert holder.post(f"{public(accepted)}/revoke").status_code == 303
    assert Session.objects.values().get() == before
    assert told()[-1]["status"] == "revoked"
    read = dossier.page(Evidence.objects.select_related("session").get(), timezone.now(), "operadora")
    assert "por titular. Motivo: “pedido do titular na página da autorização”" in read
    call_command("verify_evidence")


@pytest.mark.parametrize("end", ["expired link", "erased"])
def test_the_holders_own_revocation_ends_with_the_link(accepted: Session, holder: HolderClient, end: str) -> None:
    if end == "erased":
        retention.erase(accepted.cpf_index)
    else:
        Session.objects.update(expires_at=timezone.now())
    see(holder, public(accepted), "Para revogar a autorização ou pedir seus dados, fale com", hidden=[REVOKE])
    assert holder.post(f"{public(accepted)}/revoke").status_code == 303
    assert row(accepted).status_at(timezone.now()) == "authorized"


# --- Revocation by API ------------------------------------------------------------------------------------------


def test_the_partner_revokes_an_authorization(api: PartnerClient, accepted: Session) -> None:
    session = accepted
    kept, before = Evidence.objects.values().get(), api.get(route(session)).json()
    assert "revoked_at" not in before
    reply = revoke(api, session, {"motivo": "Pedido no chat."})
    assert told()[1:] == [end_of(session, "revoked", row(session).revoked_at)]
    assert reply.status_code == 200
    revoked = {"status": "revoked", "revoked_at": told()[1]["revoked_at"]}
    assert reply.json() == {**before, **revoked} == api.get(route(session)).json()
    assert (row(session).revoked_by, row(session).revocation_reason) == ("parceiro", "Pedido no chat.")
    stored = Session.objects.values().get()
    assert revoke(api, session, {"motivo": "Outro."}).json() == reply.json(), "a repeat changes nothing"
    assert (Session.objects.values().get(), len(told())) == (stored, 2)
    assert (Evidence.objects.values().get(), chain.verify(seal.trusted_keys())["problems"]) == (kept, [])


def test_refusals(api: PartnerClient, stranger: PartnerClient, session: Session) -> None:
    assert revoke(stranger, session).json() == api.post("/partners/v1/authorizations/x/revoke").json()
    assert revoke(stranger, session).status_code == 404
    for body in ({"motivo": 1}, {"motivo": "x" * 121}):
        reply = revoke(api, session, body)
        assert (reply.status_code, reply.json()["field"]) == (422, "motivo")
    assert row(session).revoked_at is None


# --- Expiry --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sweep", [True, False])
def test_an_expiry_is_sent_once(session: Session, sweep: bool) -> None:
    """By the sweep, or by a new session in its place."""
    assert sessions.expire_due() == 0
    Session.objects.filter(pk=session.pk).update(expires_at=timezone.now())
    if sweep:
        assert sessions.expire_due() == 1
    else:
        assert open_session(session.partner).pk != session.pk
    assert sessions.expire_due() == 0
    assert row(session).status == "expired"
    assert told() == [end_of(session, "expired", row(session).expires_at)]


def test_only_registrations_that_name_them_get_these_events(partner: Partner, session: Session) -> None:
    partner.webhook_events = ["lead", "authorization_result", "authorization.completed", "proposal"]
    partner.save(update_fields=["webhook_events"])
    sessions.decline(session.authorization_id)
    sessions.revoke(partner, open_session(partner).authorization_id, None)
    assert told() == []


def test_an_old_authorization_serves_no_new_query(accepted: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now + timedelta(days=29))
    assert for_query(accepted.partner, CPF, accepted.authorization_id).number == 1
    monkeypatch.setattr(timezone, "now", lambda: now + timedelta(days=30, seconds=1))
    with pytest.raises(InvalidInput, match="mais de 30 dias") as refusal:
        for_query(accepted.partner, CPF, accepted.authorization_id)
    assert refusal.value.field == "authorization_id"


# --- Faults that a review found -----------------------------------------------------------------------------------


def test_a_session_that_can_not_be_read_stops_no_other(partner: Partner, session: Session) -> None:
    """Before the fix, one broken row kept every later session pending for good."""
    other = open_session(partner, cpf=OTHER_CPF)
    Session.objects.update(expires_at=timezone.now())
    execute("UPDATE authorizations_session SET cpf = 'broken' WHERE id = %s", [session.pk])
    assert sessions.expire_due() == 1
    assert [each["external_reference"] for each in told()] == [other.authorization_id]


# --- Revocation in the back office --------------------------------------------------------------------------------

REASON = "pedido por telefone"


def test_the_dossier_tells_the_first_revocation_and_an_erasure_takes_its_reason_alone(accepted: Session) -> None:
    accepted.revoke("maria", REASON)
    before, revoked = Session.objects.values().get(), Session.objects.get()
    revoked.revoke("outra", "outro motivo")
    assert Session.objects.values().get() == before
    evidence = Evidence.objects.get()
    assert revoked.revoked_at is not None
    html = dossier.page(evidence, evidence.sealed_at, "operadora")
    assert f"Revogada em {timezone.localtime(revoked.revoked_at):%d/%m/%Y %H:%M:%S}" in html
    assert f"por maria. Motivo: “{REASON}”. Desde então" in html
    problems, manifest = dossier.verify(dossier.export(evidence, "operadora"), seal.trusted_keys())
    assert (problems, manifest["revoked_at"]) == ([], iso_utc(revoked.revoked_at))
    retention.erase(revoked.cpf_index)
    after = Session.objects.get()
    assert (after.revocation_reason, after.revoked_at, after.revoked_by) == ("***", revoked.revoked_at, "maria")


@pytest.fixture
def maria(db: None) -> Client:
    """An operator who may revoke."""
    return operator_with("view_session", "revoke_authorization", name="maria")


def test_in_the_back_office(maria: Client, holder: HolderClient, accepted: Session) -> None:
    path = page_of(accepted, "revoke")
    see(maria, path, "não pode ser desfeito")
    assert maria.post(path, {"reason": " "}).status_code == 200
    assert Session.objects.get().revoked_at is None
    assert maria.post(path, {"reason": REASON}).status_code == 302
    row = Session.objects.get()
    assert (row.revoked_by, row.revocation_reason) == ("maria", REASON)
    entry = AuditEntry.objects.get(action="revoked")
    told = (entry.object_id, entry.who, entry.detail)
    assert told == (str(row.pk), "maria", "Autorização revogada.")
    see(maria, accepted, "revogada", REASON, hidden=[path])
    maria.post(path, {"reason": "outro"})
    assert Session.objects.get().revocation_reason == REASON
    day = f"<dt>Revogada</dt><dd>{timezone.localtime(row.revoked_at).day} de "
    shown = ("<h1>Autorização revogada</h1>", day, "***.982.247-**")
    see(holder, public(accepted), *shown, hidden=["Autorização registrada", "maria", REASON])


@pytest.mark.parametrize("end", ["", "declined", "expired"])
def test_an_operator_ends_a_pending_link_and_no_session_that_ended(
    maria: Client, session: Session, holder: HolderClient, end: str
) -> None:
    if end == "declined":
        sessions.decline(session.authorization_id)
    elif end == "expired":
        Session.objects.update(expires_at=timezone.now())
    html = see(maria, session, hidden=[page_of(session, "read_evidence")])
    assert (page_of(session, "revoke") in html) is (not end)
    answer = maria.post(page_of(session, "revoke"), {"reason": REASON}, follow=True)
    assert (NOT_NOW in answer.text) is bool(end)
    assert (row(session).revoked_at is None) is bool(end)
    assert holder.get(public(session)).status_code == 410


# --- Sessions that nobody accepted go ------------------------------------------------------------------------------


def end(session: Session, days: int) -> None:
    """Set the session's end back by so many days."""
    Session.objects.filter(pk=session.pk).update(expires_at=timezone.now() - timedelta(days=days))


@pytest.mark.parametrize("status", ["pending", "expired"])
@pytest.mark.control("LGPD 15")
def test_a_session_that_nobody_accepted_goes_30_days_after_its_end(
    holder: HolderClient, session: Session, status: str
) -> None:
    Session.objects.update(status=status)
    for days, stays in ((-1, True), (29, True), (31, False)):
        end(session, days)
        retention.purge()
        assert Session.objects.exists() is stays, days
    assert holder.accept(session).status_code == 404


def test_an_authorized_session_stays_with_its_evidence(api: PartnerClient, accepted: Session) -> None:
    end(accepted, 4000)
    other = open_session(accepted.partner, cpf=OTHER_CPF)
    end(other, 31)
    retention.purge()
    retention.purge()
    assert Session.objects.get().pk == accepted.pk
    shown = api.get(route(accepted)).json()
    assert (shown["status"], shown["evidence"]["ip"]) == ("authorized", "127.0.0.1")
    assert Evidence.objects.get().content["declared_by_partner"]["cpf"] == accepted.cpf


def test_every_statement_is_served_by_an_index(session: Session) -> None:
    end(session, 31)
    with executed() as statements:
        retention.purge()
    asked = [sql for sql in statements if sql.startswith(("SELECT", "DELETE"))]
    assert any("FOR UPDATE" in sql for sql in asked)
    assert_indexed(asked)
