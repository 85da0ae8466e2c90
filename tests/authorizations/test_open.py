"""POST /partners/v1/authorizations"""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from authorizations import retention
from authorizations.models import Session, Terms
from partners.models import Partner
from tests.authorizations.clients import CPF, NAME, OTHER_CPF, PHONE, HolderClient, PartnerClient, public
from tests.factories import PartnerFactory
from webhooks.models import Event

ROUTE = "/partners/v1/authorizations"
HOST = "chat.exemplo.com.br"
BODY = {"cpf": CPF, "nome": NAME, "telefone": PHONE}


def opened(api: PartnerClient, **changes: Any) -> Any:
    return api.post(ROUTE, BODY | changes, format="json")


def test_a_new_session(api: PartnerClient) -> None:
    before = timezone.now()
    reply = opened(api)
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


def test_the_country_code_of_the_phone_is_removed(api: PartnerClient) -> None:
    opened(api, telefone=f"55{PHONE}")
    assert Session.objects.get().phone == PHONE


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


def test_every_fault_is_told(api: PartnerClient) -> None:
    reply = api.post(ROUTE, {}, format="json")
    assert reply.status_code == 422
    assert [detail["field"] for detail in reply.json()["details"]] == ["cpf", "nome", "telefone"]
