"""What each route says of a session in each state, which calls change it, and whether a query may rely on it."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from authorizations import retention, sessions
from authorizations.evidence import for_query
from authorizations.models import Evidence, Session
from foundation.errors import InvalidInput
from partners.models import Partner, WebhookEvent
from tests.authorizations.clients import CPF, NAME, OTHER_CPF, HolderClient, PartnerClient, open_session, public, route
from tests.factories import PartnerFactory
from tests.operators import rows_at
from webhooks.models import Event

#: Of each state the answers to `test_each_call`'s calls, those calls that change something, the session's status, the
#: heading of its page, and why no query may rely on it.
ASKED, GIVEN = "Crédito Fácil &amp; Cia pede a sua autorização", "Autorização registrada"
NOT_DONE = "Autorização inexistente ou ainda não concluída para este CPF."
NO_MORE = "A autorização foi revogada. Peça outra ao titular."
STATES = {
    "pending": ("200 200 200 303 303 303 200 409 200", "json form decline revoke", "pending", ASKED, NOT_DONE),
    "accepted": ("200 200 200 303 303 303 200 200 200", "revoke-on-page revoke", "authorized", GIVEN, ""),
    "erased": ("200 200 200 303 303 303 200 410 200", "revoke", "authorized", GIVEN, NOT_DONE),
    "revoked": ("200 410 410 303 410 303 200 200 200", "", "revoked", "Autorização revogada", NO_MORE),
    "undone": ("410 410 410 410 410 303 200 409 200", "", "revoked", "Este link foi cancelado", NO_MORE),
    "declined": ("410 410 410 410 303 303 200 409 409", "", "declined", "Você não autorizou", NOT_DONE),
    "expired": ("410 410 410 410 410 303 200 409 409", "", "expired", "Este link expirou", NOT_DONE),
    "unknown": ("404 404 404 404 404 404 404 404 404", "", "", "Não encontramos este link", NOT_DONE),
}
#: What JSON callers read behind the link.
WHY = {
    "declined": "O titular respondeu que não autoriza.",
    "expired": "Este link expirou.",
    "revoked": "A autorização foi revogada: este link não vale mais.",
    "": "Autorização não encontrada.",
}


@pytest.fixture(params=STATES)
def state(request: pytest.FixtureRequest, session: Session) -> Any:
    """The name of a state. The session is in it."""
    name = request.param
    if name in ("accepted", "erased", "revoked"):
        HolderClient().accept(session)
    match name:
        case "erased":
            retention.erase(session.cpf_index)
        case "revoked" | "undone":
            sessions.revoke(session.partner, session.authorization_id, None)
        case "declined":
            sessions.decline(session.authorization_id)
        case "expired":
            Session.objects.update(expires_at=timezone.now())
        case "unknown":
            session.authorization_id = "x" * 32
    return name


def rows() -> list[Any]:
    return [list(model._default_manager.order_by("pk").values()) for model in (Session, Evidence, Event)]


def test_each_call(api: PartnerClient, holder: HolderClient, session: Session, partner: Partner, state: str) -> None:
    """Before the fix, a link that its partner had undone was said to have expired."""
    Partner.objects.update(webhook_events=WebhookEvent.values)
    answers, changing, status, heading, _ = STATES[state]
    before, told, changed = rows(), [], []
    for name, call in {
        "page": lambda: holder.get(public(session)),
        "terms": lambda: holder.get(f"{public(session)}/terms"),
        "json": lambda: holder.accept(session, {"accepted": True}),
        "form": lambda: holder.send(session),  # an empty one, like an empty body
        "decline": lambda: holder.post(f"{public(session)}/decline"),
        "revoke-on-page": lambda: holder.post(f"{public(session)}/revoke"),
        "read": lambda: api.get(route(session)),
        "dossier": lambda: api.get(route(session, "/dossier")),
        "revoke": lambda: api.post(route(session, "/revoke")),
    }.items():
        with transaction.atomic():
            reply = call()
            told.append(str(reply.status_code))
            changed += [name] if rows() != before else []
            transaction.set_rollback(True)
        if name in ("page", "form", "decline", "revoke-on-page") and reply.status_code >= 400:
            assert reply["Content-Type"] == "text/html; charset=utf-8"
            assert "frame-ancestors 'none'" in reply["Content-Security-Policy"]
            personal = (NAME, "982.247", partner.name if state != "declined" else NAME)
            assert [each for each in personal if each in reply.text] == []
            assert f"<h1>{heading}</h1>" in reply.text, "before the fix, that the link had expired"
        elif name in ("terms", "json") and reply.status_code >= 400:
            assert (reply.json()["code"], reply.json()["message"]) == ("gone" if status else "not_found", WHY[status])
        elif name in ("terms", "read") and status:
            assert reply.json()["status"] == status
            assert ("evidence" in reply.json()) is (name == "read" and state in ("accepted", "revoked"))
    assert (" ".join(told), " ".join(changed)) == (answers, changing)
    assert f"<h1>{heading}</h1>" in holder.page(session)
    assert (open_session(partner) == session) is (state in ("pending", "unknown"))


def test_looking_changes_nothing(holder: HolderClient, session: Session, state: str) -> None:
    """Link-preview robots send GET and HEAD; some send them to every address on a page."""
    before = rows()
    assert holder.head(public(session)).status_code == holder.get(public(session)).status_code
    for button in ("accept", "decline", "code", "revoke"):
        for look in (holder.get, holder.head, holder.put):
            refused = look(f"{public(session)}/{button}")
            assert (refused.status_code, refused["Content-Type"]) == (405, "application/json")
    for page in ("", "/terms"):
        refused = holder.post(public(session) + page)
        assert (refused.status_code, refused.json()["code"]) == (405, "method_not_allowed")
    assert rows() == before


@pytest.mark.control("LGPD 8.5")
def test_a_query_relies_on_an_accepted_session_alone(partner: Partner, session: Session, state: str) -> None:
    """And a query for another CPF, or of another partner, learns nothing about this one."""
    theirs = ((partner, OTHER_CPF, NOT_DONE), (PartnerFactory(), CPF, NOT_DONE))
    for caller, cpf, refused in ((partner, CPF, STATES[state][-1]), *theirs):
        if not refused:
            assert for_query(caller, cpf, session.authorization_id).number == 1
            continue
        with pytest.raises(InvalidInput) as refusal:
            for_query(caller, cpf, session.authorization_id)
        assert (refusal.value.field, refusal.value.message) == ("authorization_id", refused)


def test_the_list_is_narrowed_to_a_live_status(admin_user: User, session: Session, state: str) -> None:
    path = "/admin/authorizations/session/?situacao="
    found = [status for status in Session.Status.values if rows_at(admin_user, path + status)]
    assert found == [STATES[state][2] or "pending"]
