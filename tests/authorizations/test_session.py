"""POST /partners/v1/authorizations, GET /partners/v1/authorizations/{authorization_id} and …/dossier"""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from authorizations import dossier, retention, seal
from authorizations.models import PurgedEvidence, Session, Terms
from foundation.formats import iso_utc
from foundation.models import AuditEntry, Channel
from partners.models import Partner
from tests.authorizations.clients import CPF, NAME, OTHER_CPF, PHONE, HolderClient, PartnerClient, public, route
from tests.authorizations.test_verification import files_of
from tests.client import error_body
from tests.factories import PartnerFactory
from tests.operators import page_of
from webhooks.models import Event

ROUTE = "/partners/v1/authorizations"
HOST = "chat.exemplo.com.br"
BODY = {"cpf": CPF, "nome": NAME, "telefone": PHONE}


def opened(api: PartnerClient, **changes: Any) -> Any:
    return api.post(ROUTE, BODY | changes, format="json")


def test_a_new_session(api: PartnerClient) -> None:
    """The phone is kept without its country code."""
    before = timezone.now()
    reply = opened(api, telefone=f"55{PHONE}")
    assert reply.status_code == 201
    session = Session.objects.get()
    assert reply.json() == {
        "authorization_id": session.authorization_id,
        "url": settings.PUBLIC_BASE_URL + public(session),
        "expires_at": reply.json()["expires_at"],
        "partner_reference": None,
    }
    assert reply.json()["expires_at"].endswith("Z")
    lifetime = datetime.fromisoformat(reply.json()["expires_at"]) - before
    assert timedelta(hours=72) - timedelta(seconds=1) < lifetime < timedelta(hours=72, seconds=30)
    assert len(session.authorization_id) == 32
    assert session.authorization_id.isalnum()
    assert (session.partner, session.cpf, session.name, session.phone) == (api.partner, CPF, NAME, PHONE)
    assert session.terms == Terms.current()


def test_a_repeat_returns_the_same_session_unchanged(api: PartnerClient) -> None:
    first = opened(api)
    repeat = opened(api, nome="Outra Pessoa", telefone="2133334444")
    assert (repeat.status_code, repeat.json()) == (200, first.json())
    assert Session.objects.get().name == NAME


def test_another_partner_and_another_cpf_open_another_session(api: PartnerClient, stranger: PartnerClient) -> None:
    """What follows an expired or an accepted session: test_races.py and test_states.py."""
    ids = {opened(api).json()["authorization_id"]}
    for reply in (opened(stranger), opened(api, cpf=OTHER_CPF)):
        assert reply.status_code == 201
        ids.add(reply.json()["authorization_id"])
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("registered", "field", "missing"),
    [
        ({}, "cnpj", "não tem CNPJ nem contato de privacidade,"),
        ({"cnpj": "11222333000181"}, "privacy_contact", "não tem contato de privacidade,"),
        ({"privacy_contact": "privacidade@exemplo.com.br"}, "cnpj", "não tem CNPJ,"),
    ],
)
def test_in_production_the_page_has_to_say_who_asks(
    db: None, settings: Any, registered: dict[str, str], field: str, missing: str
) -> None:
    """Before the fix, holders were asked by a company without a CNPJ, and without an address for their questions."""
    settings.PRODUCTION = True
    api = PartnerClient(PartnerFactory(**registered))
    refused = opened(api)
    assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (409, "invalid_state", field)
    assert missing in refused.json()["message"]
    assert not Session.objects.exists()
    api.partner.cnpj, api.partner.privacy_contact = "11222333000181", "privacidade@exemplo.com.br"
    api.partner.save()
    assert opened(api).status_code == 201


def test_a_session_keeps_the_terms_that_it_was_opened_with(session: Session, holder: HolderClient) -> None:
    old = Terms.current()
    Terms.objects.create(version="2", text="Novo texto").publish()
    shown = holder.get(f"{public(session)}/terms").json()["terms"]
    assert shown == {"version": old.version, "sha256": old.sha256, "text": old.text}


@pytest.fixture
def chat(partner: Partner) -> None:
    """Register the host of the way back."""
    partner.return_hosts = [HOST]
    partner.save(update_fields=["return_hosts"])


def test_the_partners_own_reference_comes_back_and_the_newest_counts(api: PartnerClient, holder: HolderClient) -> None:
    assert opened(api, partner_reference="chat:42").json()["partner_reference"] == "chat:42"
    assert opened(api).json()["partner_reference"] == "chat:42"
    last = opened(api, partner_reference="chat-43.b_2")
    assert (last.status_code, last.json()["partner_reference"]) == (200, "chat-43.b_2")
    holder.accept(Session.objects.get())
    assert json.loads(Event.objects.get().body or "")["partner_reference"] == "chat-43.b_2"


def test_the_way_back_ends_with_its_host_and_with_an_erasure(
    api: PartnerClient, holder: HolderClient, chat: None
) -> None:
    """Before the fix, the accepted page linked to a host that the operator had removed, and kept erased data."""
    assert opened(api, return_url=f"https://{HOST}/c/1?a=b&c=d").status_code == 201
    session = Session.objects.get()
    assert "Voltar à conversa" not in holder.page(session)
    holder.accept(session)
    link = f'<a class="button secondary" href="https://{HOST}/c/1?a=b&amp;c=d" rel="noreferrer">'
    assert link in holder.page(session)
    Partner.objects.update(return_hosts=[])
    assert "Voltar à conversa" not in holder.page(session)
    retention.erase(session.cpf_index)
    assert Session.objects.get().return_link is None


#: What leads to no host that is registered.
NO_WAYS_BACK = (
    f"http://{HOST}/c/1",
    "https://exemplo.com.br/",
    f"https://{HOST}.evil.example/",
    f"https://{HOST}@evil.example/",
    f"https://{HOST}:8443/",
    f"https://{HOST}/a b",
    f"https://evil.example\\.{HOST}/",
    "javascript:alert(1)",
    "https://[",
    "",
)


FAULTY: list[tuple[Any, ...]] = [
    ({"cpf": "52998224726"}, "cpf"),
    ({"cpf": None}, "cpf"),
    ({"nome": ""}, "nome"),
    ({"nome": "x" * 121}, "nome"),
    ({"nome": ["Maria"]}, "nome"),
    ({"telefone": "+5511987654321"}, "telefone"),
    *(({"partner_reference": wrong}, "partner_reference") for wrong in ("", "a b", "ação", "x" * 65, 7, "a\0")),
    *(({"return_url": wrong}, "return_url") for wrong in NO_WAYS_BACK),
]


def test_a_faulty_field(api: PartnerClient, chat: None) -> None:
    for change, field in FAULTY:
        reply = api.post(ROUTE, json.dumps(BODY | change), content_type="application/json")
        assert reply.status_code == 422, change
        body = reply.json()
        assert (body["code"], body["field"], body["retryable"]) == ("invalid_input", field, False), change
        assert [detail["field"] for detail in body["details"]] == [field], change
        assert not Session.objects.exists()
    reply = api.post(ROUTE, {}, format="json")
    assert reply.status_code == 422
    assert [detail["field"] for detail in reply.json()["details"]] == ["cpf", "nome", "telefone"], "every fault"


# --- An open session, and an authorized one -------------------------------------------------------------------------


def facts_of(session: Session) -> dict[str, Any]:
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
    assert reply.json() == {**facts_of(session), "status": "pending"}
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
        **facts_of(session),
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
    assert files_of(reply.content)["evidencia.json"].decode() == accepted.evidence.record
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
