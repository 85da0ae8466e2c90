"""An acceptance has to come from our own page, in the browser that opened it."""

from __future__ import annotations

import html
import re
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

FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def production(settings: Any) -> Any:
    settings.PRODUCTION = True
    return settings


def token_of(holder: HolderClient, session: Session) -> str:
    found = re.search(r'name="page" value="([^"]*)"', holder.get(public(session)).content.decode())
    assert found
    return html.unescape(found[1])


def accept(holder: HolderClient, session: Session, page: str) -> Any:
    return holder.post(f"{public(session)}/accept", f"accepted=true&page={page}", content_type=FORM)


def expect_refused(reply: Any) -> None:
    assert reply.status_code == 422
    assert "<h1>Abra o pedido de novo</h1>" in reply.content.decode()
    assert not Evidence.objects.exists()


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


def test_in_production_the_page_is_answered(session: Session, holder: HolderClient, production: Any) -> None:
    token = token_of(holder, session)
    cookie: Morsel[str] = holder.cookies["__Host-holder"]
    flags = {name: cookie[name] for name in ("path", "secure", "httponly", "samesite", "domain", "max-age")}
    assert flags == {"path": "/", "secure": True, "httponly": True, "samesite": "Lax", "domain": "", "max-age": ""}
    assert accept(holder, session, token).status_code == 303
    shown = Evidence.objects.get().content["shown_by_session"]
    assert (shown["declaration"], shown["page_rendered_at"] is None) == (session.declaration, False)


@pytest.mark.parametrize("token", ["", "forged", "eyJhdCI6IjIwMDAifQ:1abc:xyz"])
@pytest.mark.control("API6")
def test_in_production_a_form_without_our_token_is_refused(
    session: Session, holder: HolderClient, production: Any, token: str
) -> None:
    token_of(holder, session)
    expect_refused(accept(holder, session, token))


def test_the_token_of_another_browser_is_refused(session: Session, holder: HolderClient, production: Any) -> None:
    token = token_of(holder, session)
    other = HolderClient()
    expect_refused(accept(other, session, token))
    token_of(other, session)
    expect_refused(accept(other, session, token))


def test_the_token_of_another_session_is_refused(session: Session, holder: HolderClient, production: Any) -> None:
    other = open_session(PartnerFactory())
    expect_refused(accept(holder, session, token_of(holder, other)))


def test_an_old_token_is_refused(
    session: Session, holder: HolderClient, production: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_ago = (timezone.now() - marks.VALIDITY - timedelta(minutes=1)).timestamp()
    with monkeypatch.context() as clock:
        clock.setattr(signing.time, "time", lambda: long_ago)
        token = token_of(holder, session)
    expect_refused(accept(holder, session, token))


def test_a_token_serves_once(session: Session, holder: HolderClient, production: Any) -> None:
    """A repeat, for example by a double tap, redirects to the page and changes nothing."""
    token = token_of(holder, session)
    assert accept(holder, session, token).status_code == 303
    before = Evidence.objects.values().get()
    assert accept(holder, session, token).status_code == 303
    assert Evidence.objects.values().get() == before


def test_the_browsers_mark_stays_and_tells_nothing(session: Session, holder: HolderClient) -> None:
    token_of(holder, session)
    first = holder.cookies["holder"].value
    token_of(holder, session)
    assert holder.cookies["holder"].value == first
    assert session.authorization_id not in first
    assert HolderClient().get(public(session)).cookies["holder"].value != first


def test_outside_production_another_browsers_token_only_proves_nothing(session: Session, holder: HolderClient) -> None:
    token = token_of(holder, session)
    assert accept(HolderClient(), session, token).status_code == 303
    assert Evidence.objects.get().content["shown_by_session"]["page_rendered_at"] is None
