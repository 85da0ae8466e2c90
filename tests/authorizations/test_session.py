"""GET /partners/v1/authorizations/{authorization_id} and …/dossier"""

import io
import zipfile
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from authorizations import dossier, seal
from authorizations.models import PurgedEvidence, Session
from foundation.formats import iso_utc
from foundation.models import AuditEntry, Channel
from partners.models import Partner
from tests.authorizations.clients import CPF, HolderClient, PartnerClient, public, route
from tests.client import error_body
from tests.operators import page_of


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


# --- The dossier --------------------------------------------------------------------------------------------------


def exports() -> list[tuple[str, str, str, str]]:
    entries = AuditEntry.objects.filter(action="exported").order_by("pk")
    return list(entries.values_list("who", "channel", "object_name", "detail"))


def told(reply: object) -> tuple[int, str]:
    return reply.status_code, reply.json()["code"]  # type: ignore[attr-defined]  # the test client's response


@pytest.mark.parametrize("accept", ["application/zip", "application/json", "*/*", None])
def test_it_is_the_file_that_operators_export(
    api: PartnerClient, admin_client: Client, accepted: Session, accept: str | None
) -> None:
    """None: the operator's own export."""
    if accept:
        reply, who = api.get(route(accepted, "/dossier"), HTTP_ACCEPT=accept), f"parceiro {api.partner.pk}"
    else:
        reply, who = admin_client.get(page_of(accepted, "export_dossier")), "admin"
    assert (reply.status_code, reply["Content-Type"]) == (200, "application/zip")
    assert "no-store" in reply["Cache-Control"]
    name = f"dossie-evidencia-{accepted.evidence.number}.zip"
    assert reply["Content-Disposition"] == f'attachment; filename="{name}"'
    problems, manifest = dossier.verify(reply.content, seal.trusted_keys())
    assert (problems, manifest["exported_by"]) == ([], who)
    with zipfile.ZipFile(io.BytesIO(reply.content)) as package:
        assert package.read("evidencia.json").decode() == accepted.evidence.record
    assert exports() == [
        (who, Channel.API if accept else Channel.BACK_OFFICE, f"sessão {accepted.pk}", "Dossiê da evidência exportado.")
    ]


def test_nobody_elses_and_none_where_an_operator_switched_it_off(
    stranger: PartnerClient, api: PartnerClient, accepted: Session
) -> None:
    assert told(stranger.get(route(accepted, "/dossier"))) == (404, "not_found")
    Partner.objects.update(dossier_by_api=False)
    assert told(api.get(route(accepted, "/dossier"))) == (404, "not_found")
    assert exports() == []


def test_after_its_term_it_is_gone_for_its_partner_alone(
    api: PartnerClient, stranger: PartnerClient, session: Session
) -> None:
    index = PurgedEvidence.index_of(api.partner.pk, session.authorization_id)
    link = dict.fromkeys(("record_sha256", "previous_hash", "hash", "public_key"), index)
    PurgedEvidence.objects.create(number=1, signature="", uses=0, session_index=index, **link)
    session.delete()
    assert told(api.get(route(session, "/dossier"))) == (410, "gone")
    assert told(stranger.get(route(session, "/dossier"))) == (404, "not_found")
    assert CPF not in str(PurgedEvidence.objects.values().get())
