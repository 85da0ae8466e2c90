"""An acceptance has to come from our own page, in the browser that opened it."""

import json
from datetime import timedelta
from http.cookies import Morsel
from typing import Any

import pytest
from django.core import signing
from django.utils import timezone

from authorizations import marks
from authorizations.models import Evidence, Session
from tests.authorizations.clients import HolderClient, open_session, public
from tests.factories import PartnerFactory


@pytest.fixture
def production(settings: Any) -> Any:
    settings.PRODUCTION = True
    return settings


def answer(session: Session, holder: HolderClient, case: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The reply to a form whose token is not that of this page in this browser, for the reason that `case` names."""
    own = holder.hidden(session)["page"]
    match case:
        case "another browser":
            return HolderClient().send(session, accepted="true", page=own)
        case "a page of another browser":
            other = HolderClient()
            other.page(session)
            return other.send(session, accepted="true", page=own)
        case "another session":
            token = holder.hidden(open_session(PartnerFactory()))["page"]
        case "too old":
            with monkeypatch.context() as clock:
                long_ago = (timezone.now() - marks.VALIDITY - timedelta(minutes=1)).timestamp()
                clock.setattr(signing.time, "time", lambda: long_ago)
                token = holder.hidden(session)["page"]
        case "told by the script":
            return holder.send(session, accepted="true", browser=json.dumps({"page": own}))
        case forged:
            token = forged
    return holder.send(session, accepted="true", page=token)


NOT_OURS = ["", "forged", "eyJhdCI6IjIwMDAifQ:1abc:xyz"]
NOT_THIS = ["another browser", "a page of another browser", "another session", "too old", "told by the script"]


@pytest.mark.parametrize("case", [*NOT_OURS, *NOT_THIS])
@pytest.mark.control("API6")
def test_in_production_a_form_without_our_token_is_refused(
    session: Session, holder: HolderClient, settings: Any, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """And one with the token of another page. Outside production such a form only proves nothing."""
    settings.PRODUCTION = True
    refused = answer(session, holder, case, monkeypatch)
    assert (refused.status_code, "<h1>Abra o pedido de novo</h1>" in refused.content.decode()) == (422, True)
    assert not Evidence.objects.exists()
    settings.PRODUCTION = False
    assert answer(session, holder, case, monkeypatch).status_code == 303
    shown = Evidence.objects.get().content["shown_by_session"]
    assert (shown["page_rendered_at"], shown["declaration"]) == (None, None)


@pytest.mark.parametrize("body", [None, {}, {"accepted": False}, {"geolocation": 1}])
def test_in_production_json_finds_no_route(session: Session, holder: HolderClient, production: Any, body: Any) -> None:
    """Before the fix, the partner, who has the link too, could accept for the holder."""
    unknown = holder.post(f"{public(session)}/acept", body, format="json")
    reply = holder.accept(session, body)
    assert (reply.status_code, reply.json()) == (404, unknown.json())
    assert Session.objects.get().status == "pending"


def test_in_production_json_is_taken_where_the_registration_allows_it(
    session: Session, holder: HolderClient, production: Any
) -> None:
    session.partner.json_acceptance = True
    session.partner.save()
    assert holder.accept(session, {}).status_code == 200
    assert Evidence.objects.get().content["shown_by_session"]["page_rendered_at"] is None


def test_in_production_the_page_is_answered_once(session: Session, holder: HolderClient, production: Any) -> None:
    """A repeat, for example by a double tap, redirects to the page and changes nothing."""
    fields = holder.hidden(session)
    cookie: Morsel[str] = holder.cookies["__Host-holder"]
    flags = {name: cookie[name] for name in ("path", "secure", "httponly", "samesite", "domain", "max-age")}
    assert flags == {"path": "/", "secure": True, "httponly": True, "samesite": "Lax", "domain": "", "max-age": ""}
    assert holder.send(session, **fields).status_code == 303
    shown = Evidence.objects.get().content["shown_by_session"]
    assert (shown["declaration"], shown["page_rendered_at"] is None) == (session.declaration, False)
    before = Evidence.objects.values().get()
    assert holder.send(session, **fields).status_code == 303
    assert Evidence.objects.values().get() == before


def test_the_browsers_mark_stays_and_tells_nothing(session: Session, holder: HolderClient) -> None:
    holder.page(session)
    first = holder.cookies["holder"].value
    holder.page(session)
    assert holder.cookies["holder"].value == first
    assert session.authorization_id not in first
    assert HolderClient().get(public(session)).cookies["holder"].value != first
