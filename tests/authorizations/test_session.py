"""GET /partners/v1/authorizations/{authorization_id}"""

from typing import Any

import pytest
from django.conf import settings

from authorizations.models import Session
from foundation.formats import iso_utc
from tests.authorizations.clients import HolderClient, PartnerClient, public, route
from tests.client import error_body


def opened(session: Session) -> dict[str, Any]:
    """The fields that every answer about a session has."""
    return {
        "authorization_id": session.authorization_id,
        "url": settings.PUBLIC_BASE_URL + public(session),
        "expires_at": iso_utc(session.expires_at),
        "partner_reference": None,
    }


def test_a_pending_session(api: PartnerClient, session: Session) -> None:
    reply = api.get(route(session))
    assert reply.status_code == 200
    assert reply.json() == {**opened(session), "status": "pending"}
    assert reply["Cache-Control"] == "no-store"


def test_an_authorized_session(api: PartnerClient, session: Session, holder: HolderClient) -> None:
    device = {"userAgent": "Navegador/1.0", "platform": "Android", "deviceModel": "Pixel 8"}
    accepted = holder.accept(
        session,
        {"geolocation": {"lat": -23.55052, "lng": -46.633308, "accuracy": 35}, "device": device},
        REMOTE_ADDR="2001:db8::7",
        HTTP_USER_AGENT="Navegador/1.0 (Android)",
    ).json()
    reply = api.get(route(session))
    assert reply.status_code == 200
    assert reply.json() == {
        **opened(session),
        "status": "authorized",
        "evidence": {
            "ip": "2001:db8::7",
            "geolocation": {"lat": -23.55052, "lng": -46.633308, "accuracy": 35},
            "geolocation_status": "collected",
            "device": device,
            "user_agent": "Navegador/1.0 (Android)",
            "terms_version": session.terms.version,
            "terms_sha256": session.terms.sha256,
            "terms_layout": None,
            "terms_unfolded": None,
            "phone_confirmation": None,
            "accepted_at": accepted["authorized_at"],
        },
    }


def test_what_was_not_collected_is_not_invented(api: PartnerClient, session: Session, holder: HolderClient) -> None:
    holder.accept(session, {"geolocation": None, "geolocation_status": "denied"})
    evidence = api.get(route(session)).json()["evidence"]
    assert (evidence["geolocation"], evidence["geolocation_status"]) == (None, "not_collected")
    assert (evidence["device"], evidence["user_agent"]) == ({}, None)


def test_another_partner_gets_the_404_of_an_unknown_id(
    api: PartnerClient, stranger: PartnerClient, session: Session
) -> None:
    for reply in (stranger.get(route(session)), api.get("/partners/v1/authorizations/" + "x" * 32)):
        assert (reply.status_code, reply.json()) == (404, error_body("not_found", "Autorização não encontrada."))


@pytest.mark.parametrize("authorization_id", ["%00", "public", "x", "é" * 32, "1" * 5000])
def test_an_id_that_can_be_none(api: PartnerClient, authorization_id: str) -> None:
    for place in ("", "public/"):
        assert api.get(f"/partners/v1/authorizations/{place}{authorization_id}").status_code == 404
