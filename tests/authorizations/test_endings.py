"""How sessions end without an acceptance: "Não autorizo", POST …/revoke, the end of their time, and their age."""

import contextlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.utils import timezone

from authorizations import chain, endings, evidence, seal, sessions
from authorizations.evidence import for_query
from authorizations.models import Evidence, Session
from foundation.errors import Gone, InvalidInput
from foundation.formats import iso_utc
from partners.models import Partner, WebhookEvent
from tests.authorizations.clients import (
    CPF,
    NAME,
    OTHER_CPF,
    UNKNOWN,
    HolderClient,
    PartnerClient,
    open_session,
    public,
    route,
)
from webhooks.models import Event


@pytest.fixture(autouse=True)
def every_event(partner: Partner) -> None:
    partner.webhook_events = WebhookEvent.values
    partner.save(update_fields=["webhook_events"])


def told() -> list[dict[str, Any]]:
    """The events so far, without what every event has."""
    bodies = [json.loads(event.body or "") for event in Event.objects.order_by("created_at")]
    return [{k: v for k, v in body.items() if k not in ("partner_id", "timestamp")} for body in bodies]


def names() -> list[str]:
    return [event["event"] for event in told()]


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


def expire(session: Session) -> None:
    """Let the session's time pass."""
    Session.objects.filter(pk=session.pk).update(expires_at=timezone.now())


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
    page = holder.get(public(session))
    assert page.status_code == 410
    assert "<h1>Você não autorizou</h1>" in page.content.decode()
    assert told() == [end_of(session, "declined", row(session).declined_at)]
    assert row(session).status == "declined", "before the fix, lists and figures found it among the expired"
    read = api.get(route(session)).json()
    assert (read["status"], read["declined_at"]) == ("declined", told()[0]["declined_at"])


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


def test_an_acceptance_stands_against_a_late_decline(holder: HolderClient, session: Session) -> None:
    holder.accept(session)
    assert holder.post(f"{public(session)}/decline").status_code == 303
    assert (row(session).status, row(session).declined_at) == ("authorized", None)


@pytest.mark.parametrize(("state", "status"), [("unknown", 404), ("expired", 410), ("revoked", 410)])
def test_a_session_that_can_not_be_declined_is_answered_by_a_page(
    partner: Partner, holder: HolderClient, session: Session, state: str, status: int
) -> None:
    if state == "expired":
        expire(session)
    elif state == "revoked":
        sessions.revoke(partner, session.authorization_id, None)
    reply = holder.post(f"{UNKNOWN if state == 'unknown' else public(session)}/decline")
    assert (reply.status_code, reply["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert NAME not in reply.content.decode()


@pytest.mark.django_db(transaction=True)
def test_of_an_acceptance_and_a_decline_at_once_one_counts(partner: Partner) -> None:
    observed = evidence.Observed("203.0.113.9", "203.0.113.9", None, None, "request-1", "form")
    for number in range(8):
        session = open_session(partner, cpf=(CPF, OTHER_CPF)[number % 2])
        acts = (
            partial(evidence.accept, session.authorization_id, observed, evidence.BrowserReport()),
            partial(sessions.decline, session.authorization_id),
        )
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(_alone, acts))
        ended = row(session)
        seen = ended.status_at(timezone.now()), hasattr(ended, "evidence")
        assert seen in (("authorized", True), ("declined", False))
        assert sum(each["external_reference"] == session.authorization_id for each in told()) == 1


def _alone(work: Callable[[], Any]) -> None:
    """Run `work` on a connection of its own. The later of two calls gets "gone"."""
    with contextlib.closing(connection), contextlib.suppress(Gone):
        work()


# --- Revocation by API ------------------------------------------------------------------------------------------


def test_the_partner_revokes_an_authorization(
    api: PartnerClient, partner: Partner, holder: HolderClient, session: Session
) -> None:
    holder.accept(session)
    kept, before = Evidence.objects.values().get(), api.get(route(session)).json()
    assert "revoked_at" not in before
    reply = revoke(api, session, {"motivo": "Pedido no chat."})
    assert told()[1:] == [end_of(session, "revoked", row(session).revoked_at)]
    assert reply.status_code == 200
    revoked = {"status": "revoked", "revoked_at": told()[1]["revoked_at"]}
    assert reply.json() == {**before, **revoked} == api.get(route(session)).json()
    assert (row(session).revoked_by, row(session).revocation_reason) == ("parceiro", "Pedido no chat.")
    with pytest.raises(InvalidInput):
        for_query(partner, CPF, session.authorization_id)
    stored = Session.objects.values().get()
    assert revoke(api, session, {"motivo": "Outro."}).json() == reply.json(), "a repeat changes nothing"
    assert (Session.objects.values().get(), len(told())) == (stored, 2)
    assert (Evidence.objects.values().get(), chain.verify(seal.trusted_keys())["problems"]) == (kept, [])


def test_of_a_pending_session_the_link_is_gone(api: PartnerClient, holder: HolderClient, session: Session) -> None:
    assert revoke(api, session, {}).json()["status"] == row(session).status == "revoked"
    page = holder.get(public(session))
    assert page.status_code == 410
    assert "<h1>Este link foi cancelado</h1>" in page.content.decode()
    for reply in (holder.accept(session, {"accepted": True}), holder.get(f"{public(session)}/terms")):
        error = reply.json()
        # Before the fix, a link that its partner had undone was said to have expired.
        assert (error["code"], error["message"]) == ("gone", "A autorização foi revogada: este link não vale mais.")
    assert open_session(session.partner).pk != session.pk
    assert names() == ["authorization.revoked"]


@pytest.mark.parametrize("declined", [True, False])
def test_what_ended_can_not_be_revoked(api: PartnerClient, session: Session, declined: bool) -> None:
    sessions.decline(session.authorization_id) if declined else expire(session)
    reply = revoke(api, session)
    assert (reply.status_code, reply.json()["code"]) == (409, "invalid_state")
    assert row(session).revoked_at is None


def test_refusals(api: PartnerClient, stranger: PartnerClient, holder: HolderClient, session: Session) -> None:
    assert revoke(stranger, session).json() == api.post("/partners/v1/authorizations/x/revoke").json()
    assert revoke(stranger, session).status_code == 404
    assert revoke(holder, session).status_code == 401
    for body in ({"motivo": 1}, {"motivo": "x" * 121}):
        reply = revoke(api, session, body)
        assert (reply.status_code, reply.json()["field"]) == (422, "motivo")
    assert row(session).revoked_at is None


# --- Expiry --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sweep", [True, False])
def test_an_expiry_is_sent_once(session: Session, sweep: bool) -> None:
    """By the sweep, or by a new session in its place."""
    assert endings.expire_due() == 0
    expire(session)
    if sweep:
        assert endings.expire_due() == 1
    else:
        assert open_session(session.partner).pk != session.pk
    assert endings.expire_due() == 0
    assert row(session).status == "expired"
    assert told() == [end_of(session, "expired", row(session).expires_at)]


def test_only_registrations_that_name_them_get_these_events(partner: Partner, session: Session) -> None:
    partner.webhook_events = ["lead", "authorization_result", "authorization.completed", "proposal"]
    partner.save(update_fields=["webhook_events"])
    sessions.decline(session.authorization_id)
    sessions.revoke(partner, open_session(partner).authorization_id, None)
    assert told() == []


def test_an_old_authorization_serves_no_new_query(
    partner: Partner, holder: HolderClient, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder.accept(session)
    accepted = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: accepted + timedelta(days=29))
    assert for_query(partner, CPF, session.authorization_id).number == 1
    monkeypatch.setattr(timezone, "now", lambda: accepted + timedelta(days=30, seconds=1))
    with pytest.raises(InvalidInput, match="mais de 30 dias") as refusal:
        for_query(partner, CPF, session.authorization_id)
    assert refusal.value.field == "authorization_id"


# --- Faults that a review found -----------------------------------------------------------------------------------


def test_a_session_that_can_not_be_read_stops_no_other(partner: Partner, session: Session) -> None:
    """Before the fix, one broken row kept every later session pending for good."""
    other = open_session(partner, cpf=OTHER_CPF)
    Session.objects.update(expires_at=timezone.now())
    with connection.cursor() as cursor:
        cursor.execute("UPDATE authorizations_session SET cpf = 'broken' WHERE id = %s", [session.pk])
    assert endings.expire_due() == 1
    assert [each["external_reference"] for each in told()] == [other.authorization_id]
