"""How sessions end without an acceptance: "Não autorizo", POST …/revoke, the end of their time, and their age."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.utils import timezone

from authorizations import endings, evidence, retention, sessions
from authorizations.evidence import for_query
from authorizations.models import Evidence, Session
from foundation.errors import Gone, InvalidInput
from foundation.formats import iso_utc
from partners.models import Partner, WebhookEvent
from tests.authorizations.clients import CPF, NAME, PHONE, HolderClient, PartnerClient, open_session, public
from webhooks.models import Event


@pytest.fixture(autouse=True)
def every_event(partner: Partner) -> None:
    partner.webhook_events = WebhookEvent.values
    partner.save(update_fields=["webhook_events"])


def told() -> list[dict[str, Any]]:
    """The events so far, without what every event has."""
    bodies = [json.loads(event.body or "") for event in Event.objects.order_by("created_at")]
    return [{k: v for k, v in body.items() if k not in ("partner_id", "timestamp")} for body in bodies]


def revoke(api: PartnerClient, session: Session, body: Any = None) -> Any:
    path = f"/partners/v1/authorizations/{session.authorization_id}/revoke"
    return api.post(path, body, format="json" if body is not None else None)


def row(session: Session) -> Session:
    return Session.objects.get(pk=session.pk)


# --- "Não autorizo" ---------------------------------------------------------------------------------------------


def test_the_holder_declines(api: PartnerClient, holder: HolderClient, session: Session) -> None:
    html = holder.get(public(session)).content.decode()
    assert html.index("Li e autorizo") < html.index("Não autorizo"), "behind the accepting button, in reading order"
    reply = holder.post(f"{public(session)}/decline", "", content_type="application/x-www-form-urlencoded")
    assert (reply.status_code, reply["Location"]) == (303, public(session))
    page = holder.get(public(session))
    assert page.status_code == 410
    assert "<h1>Você não autorizou</h1>" in page.content.decode()
    declined_at = iso_utc(row(session).declined_at)  # type: ignore[arg-type]
    read = api.get(f"/partners/v1/authorizations/{session.authorization_id}").json()
    assert (read["status"], read["declined_at"]) == ("declined", declined_at)
    assert told() == [
        {
            "external_reference": session.authorization_id,
            "event": "authorization.declined",
            "authorization_id": session.authorization_id,
            "cpf": CPF,
            "status": "declined",
            "partner_reference": None,
            "declined_at": declined_at,
        }
    ]


def test_a_declined_session_is_over(partner: Partner, holder: HolderClient, session: Session) -> None:
    sessions.decline(session.authorization_id)
    before = row(session).declined_at
    assert holder.post(f"{public(session)}/decline").status_code == 303
    assert holder.accept(session, {"accepted": True}).status_code == 410
    terms = holder.get(f"{public(session)}/terms")
    assert (terms.status_code, terms.json()["message"]) == (410, "O titular respondeu que não autoriza.")
    with pytest.raises(InvalidInput):
        for_query(partner, CPF, session.authorization_id)
    assert (row(session).declined_at, Evidence.objects.count(), len(told())) == (before, 0, 1)
    assert open_session(partner).pk != session.pk


def test_a_decline_needs_no_browser(api: PartnerClient, holder: HolderClient, session: Session) -> None:
    """The guide has this command for the sandbox: `curl -X POST $URL/decline`. It sends no body and no content type."""
    url = api.get(f"/partners/v1/authorizations/{session.authorization_id}").json()["url"]
    reply = holder.generic("POST", f"{urlsplit(url).path}/decline")
    assert (reply.status_code, holder.get(public(session)).status_code) == (303, 410)
    assert [event["event"] for event in told()] == ["authorization.declined"]


def test_an_acceptance_stands_against_a_late_decline(holder: HolderClient, session: Session) -> None:
    holder.accept(session)
    assert holder.post(f"{public(session)}/decline").status_code == 303
    assert (row(session).status, row(session).declined_at) == ("authorized", None)


def test_looking_at_the_declining_address_changes_nothing(holder: HolderClient, session: Session) -> None:
    for method in ("get", "head", "put"):
        assert getattr(holder, method)(f"{public(session)}/decline").status_code == 405
    assert row(session).status == "pending"


@pytest.mark.parametrize(("state", "status"), [("unknown", 404), ("expired", 410), ("revoked", 410)])
def test_a_session_that_can_not_be_declined_is_answered_by_a_page(
    partner: Partner, holder: HolderClient, session: Session, state: str, status: int
) -> None:
    path = public(session)
    if state == "unknown":
        path = "/partners/v1/authorizations/public/" + "x" * 32
    elif state == "expired":
        Session.objects.update(expires_at=timezone.now())
    else:
        sessions.revoke(partner, session.authorization_id, None)
    reply = holder.post(f"{path}/decline")
    assert (reply.status_code, reply["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert NAME not in reply.content.decode()


@pytest.mark.django_db(transaction=True)
def test_of_an_acceptance_and_a_decline_at_once_one_counts(partner: Partner) -> None:
    for number in range(8):
        session = open_session(partner, cpf=("52998224725", "11144477735")[number % 2])
        observed = evidence.Observed("203.0.113.9", "203.0.113.9", None, None, "request-1", "form")

        def accept(session: Session = session, observed: evidence.Observed = observed) -> None:
            _alone(lambda: evidence.accept(session.authorization_id, observed, evidence.BrowserReport()))

        def decline(session: Session = session) -> None:
            _alone(lambda: sessions.decline(session.authorization_id))

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(work) for work in (accept, decline)]:
                done.result()
        ended = row(session)
        assert (ended.status_at(timezone.now()), hasattr(ended, "evidence")) in (
            ("authorized", True),
            ("declined", False),
        )
        assert sum(each["external_reference"] == session.authorization_id for each in told()) == 1


def _alone(work: Any) -> None:
    """Run `work` on a connection of its own. The later of two calls gets "gone"."""
    with contextlib.closing(connection), contextlib.suppress(Gone):
        work()


# --- Revocation by API ------------------------------------------------------------------------------------------


def test_the_partner_revokes_an_authorization(
    api: PartnerClient, partner: Partner, holder: HolderClient, session: Session
) -> None:
    holder.accept(session)
    path = f"/partners/v1/authorizations/{session.authorization_id}"
    before = api.get(path).json()
    reply = revoke(api, session, {"motivo": "Pedido no chat."})
    revoked_at = iso_utc(row(session).revoked_at)  # type: ignore[arg-type]
    assert reply.status_code == 200
    assert reply.json() == {**before, "status": "revoked", "revoked_at": revoked_at} == api.get(path).json()
    assert (row(session).revoked_by, row(session).revocation_reason) == ("parceiro", "Pedido no chat.")
    with pytest.raises(InvalidInput):
        for_query(partner, CPF, session.authorization_id)
    assert told()[1:] == [
        {
            "external_reference": session.authorization_id,
            "event": "authorization.revoked",
            "authorization_id": session.authorization_id,
            "cpf": CPF,
            "status": "revoked",
            "partner_reference": None,
            "revoked_at": revoked_at,
        }
    ]


def test_a_repeat_changes_nothing(api: PartnerClient, holder: HolderClient, session: Session) -> None:
    holder.accept(session)
    first = revoke(api, session).json()
    stored = Session.objects.values().get()
    assert revoke(api, session, {"motivo": "Outro."}).json() == first
    assert (Session.objects.values().get(), len(told())) == (stored, 2)


def test_of_a_pending_session_the_link_is_gone(api: PartnerClient, holder: HolderClient, session: Session) -> None:
    assert revoke(api, session, {}).json()["status"] == "revoked"
    page = holder.get(public(session))
    assert (page.status_code, "<h1>Este link foi cancelado</h1>" in page.content.decode()) == (410, True)
    for reply in (holder.accept(session, {"accepted": True}), holder.get(f"{public(session)}/terms")):
        error = reply.json()
        # Before the fix, a link that its partner had undone was said to have expired.
        assert (error["code"], error["message"]) == ("gone", "A autorização foi revogada: este link não vale mais.")
    assert open_session(session.partner).pk != session.pk
    assert [each["event"] for each in told()] == ["authorization.revoked"]


@pytest.mark.parametrize("end", ["declined", "expired"])
def test_what_ended_can_not_be_revoked(api: PartnerClient, session: Session, end: str) -> None:
    if end == "declined":
        sessions.decline(session.authorization_id)
    else:
        Session.objects.update(expires_at=timezone.now())
    reply = revoke(api, session)
    assert (reply.status_code, reply.json()["code"]) == (409, "invalid_state")
    assert row(session).revoked_at is None


def test_refusals(api: PartnerClient, stranger: PartnerClient, holder: HolderClient, session: Session) -> None:
    assert revoke(stranger, session).json() == api.post("/partners/v1/authorizations/x/revoke").json()
    assert revoke(stranger, session).status_code == 404
    assert revoke(holder, session).status_code == 401  # type: ignore[arg-type]
    for body in ({"motivo": 1}, {"motivo": "x" * 121}):
        reply = revoke(api, session, body)
        assert (reply.status_code, reply.json()["field"]) == (422, "motivo")
    assert row(session).revoked_at is None


# --- Expiry --------------------------------------------------------------------------------------


def test_an_expiry_is_sent_once(session: Session) -> None:
    assert endings.expire_due() == 0
    Session.objects.update(expires_at=timezone.now())
    assert (endings.expire_due(), endings.expire_due()) == (1, 0)
    assert row(session).status == "expired"
    assert told() == [
        {
            "external_reference": session.authorization_id,
            "event": "authorization.expired",
            "authorization_id": session.authorization_id,
            "cpf": CPF,
            "status": "expired",
            "partner_reference": None,
            "expired_at": iso_utc(row(session).expires_at),
        }
    ]


def test_a_new_session_in_place_of_one_whose_time_is_over_tells_its_end_too(session: Session) -> None:
    Session.objects.update(expires_at=timezone.now())
    assert open_session(session.partner).pk != session.pk
    assert endings.expire_due() == 0
    assert [each["event"] for each in told()] == ["authorization.expired"]


def test_only_registrations_that_name_them_get_these_events(partner: Partner, session: Session) -> None:
    partner.webhook_events = ["lead", "authorization_result", "authorization.completed", "proposal"]
    partner.save(update_fields=["webhook_events"])
    sessions.decline(session.authorization_id)
    sessions.revoke(partner, open_session(partner).authorization_id, None)
    assert told() == []


@pytest.mark.parametrize(("days", "serves"), [(29, True), (30, False)])
def test_an_old_authorization_serves_no_new_query(
    partner: Partner, holder: HolderClient, session: Session, monkeypatch: pytest.MonkeyPatch, days: int, serves: bool
) -> None:
    holder.accept(session)
    later = timezone.now() + timedelta(days=days, seconds=1)
    monkeypatch.setattr(timezone, "now", lambda: later)
    if serves:
        assert for_query(partner, CPF, session.authorization_id).number == 1
        return
    with pytest.raises(InvalidInput) as refusal:
        for_query(partner, CPF, session.authorization_id)
    assert refusal.value.field == "authorization_id"
    assert "mais de 30 dias" in refusal.value.message


# --- What the partner sets for a session -------------------------------------------------------------------------


def opened(api: PartnerClient, **changes: Any) -> Any:
    body = {"cpf": CPF, "nome": NAME, "telefone": PHONE, **changes}
    return api.post("/partners/v1/authorizations", body, format="json")


def test_the_partners_own_reference_comes_back_and_the_newest_counts(
    api: PartnerClient, holder: HolderClient, partner: Partner
) -> None:
    assert opened(api, partner_reference="chat:42").json()["partner_reference"] == "chat:42"
    assert opened(api).json()["partner_reference"] == "chat:42"
    last = opened(api, partner_reference="chat-43.b_2")
    assert (last.status_code, last.json()["partner_reference"]) == (200, "chat-43.b_2")
    holder.accept(Session.objects.get())
    assert told()[0]["partner_reference"] == "chat-43.b_2"


@pytest.mark.parametrize("reference", ["", "a b", "ação", "x" * 65, 7, "a\0"])
def test_an_invalid_reference_is_refused(api: PartnerClient, reference: Any) -> None:
    reply = opened(api, partner_reference=reference)
    assert (reply.status_code, reply.json()["field"]) == (422, "partner_reference")


def test_the_way_back_leads_to_registered_hosts_only(
    api: PartnerClient, holder: HolderClient, partner: Partner
) -> None:
    partner.return_hosts = ["chat.exemplo.com.br"]
    partner.save(update_fields=["return_hosts"])
    for url in (
        "http://chat.exemplo.com.br/c/1",
        "https://exemplo.com.br/",
        "https://chat.exemplo.com.br.evil.example/",
        "https://chat.exemplo.com.br@evil.example/",
        "https://chat.exemplo.com.br:8443/",
        "https://chat.exemplo.com.br/a b",
        "https://evil.example\\.chat.exemplo.com.br/",
        "javascript:alert(1)",
        "https://[",
        "",
    ):
        reply = opened(api, return_url=url)
        assert (reply.status_code, reply.json()["field"]) == (422, "return_url"), url
    assert opened(api, return_url="https://chat.exemplo.com.br/c/1?a=b&c=d").status_code == 201
    session = Session.objects.get()
    assert "Voltar à conversa" not in holder.get(public(session)).content.decode()
    holder.accept(session)
    html = holder.get(public(session)).content.decode()
    assert '<a class="button secondary" href="https://chat.exemplo.com.br/c/1?a=b&amp;c=d" rel="noreferrer">' in html


def test_the_page_names_the_banks_the_company_and_its_contact(holder: HolderClient) -> None:
    from tests.factories import PartnerFactory

    partner = PartnerFactory(
        providers=["ipe", "jatoba"], cnpj="11222333000181", privacy_contact="privacidade@exemplo.com.br"
    )
    html = holder.get(public(open_session(partner))).content.decode()
    for shown in ("(Ipê, Jatobá)", "11.222.333/0001-81", "privacidade@<wbr>exemplo.com.br"):
        assert shown in html
    plain = holder.get(public(open_session(PartnerFactory()))).content.decode()
    assert "CNPJ" not in plain


# --- Faults that a review found -----------------------------------------------------------------------------------


def test_a_session_that_can_not_be_read_stops_no_other(partner: Partner, session: Session) -> None:
    """Before the fix, one broken row kept every later session pending for good."""
    other = open_session(partner, cpf="11144477735")
    Session.objects.update(expires_at=timezone.now())
    with connection.cursor() as cursor:
        cursor.execute("UPDATE authorizations_session SET cpf = 'broken' WHERE id = %s", [session.pk])
    assert endings.expire_due() == 1
    assert [each["external_reference"] for each in told()] == [other.authorization_id]


def test_the_way_back_ends_with_its_host_and_with_an_erasure(
    api: PartnerClient, holder: HolderClient, partner: Partner
) -> None:
    """Before the fix, the accepted page linked to a host that the operator had removed, and kept erased data."""
    partner.return_hosts = ["chat.exemplo.com.br"]
    partner.save(update_fields=["return_hosts"])
    assert opened(api, return_url="https://chat.exemplo.com.br/c/1").status_code == 201
    session = Session.objects.get()
    holder.accept(session)
    assert "Voltar à conversa" in holder.get(public(session)).content.decode()
    Partner.objects.update(return_hosts=[])
    assert "Voltar à conversa" not in holder.get(public(session)).content.decode()
    retention.erase(session.cpf_index)
    assert row(session).return_link is None


def test_a_declined_and_a_revoked_session_are_stored_as_such(partner: Partner, session: Session) -> None:
    """Before the fix, both were stored as expired, which lists and figures could read as a third ending."""
    sessions.decline(session.authorization_id)
    sessions.revoke(partner, open_session(partner).authorization_id, None)
    assert set(Session.objects.values_list("status", flat=True)) == {"declined", "revoked"}
