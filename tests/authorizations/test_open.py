"""POST /partners/v1/authorizations"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from authorizations.models import Session, Terms
from tests.authorizations.clients import HolderClient, PartnerClient
from tests.factories import PartnerFactory

ROUTE = "/partners/v1/authorizations"
BODY = {"cpf": "52998224725", "nome": "Maria Aparecida da Silva", "telefone": "11987654321"}


def test_a_new_session(api: PartnerClient) -> None:
    before = timezone.now()
    reply = api.post(ROUTE, BODY, format="json")
    assert reply.status_code == 201
    session = Session.objects.get()
    assert reply.json() == {
        "authorization_id": session.authorization_id,
        "url": f"{settings.PUBLIC_BASE_URL}/partners/v1/authorizations/public/{session.authorization_id}",
        "expires_at": reply.json()["expires_at"],
        "partner_reference": None,
    }
    assert reply.json()["expires_at"].endswith("Z")
    lifetime = datetime.fromisoformat(reply.json()["expires_at"]) - before
    assert timedelta(hours=72) - timedelta(seconds=1) < lifetime < timedelta(hours=72, seconds=30)
    assert len(session.authorization_id) == 32
    assert session.authorization_id.isalnum()
    assert (session.partner, session.cpf, session.name, session.phone) == (
        api.partner,
        "52998224725",
        "Maria Aparecida da Silva",
        "11987654321",
    )
    assert session.terms == Terms.current()


def test_a_repeat_returns_the_same_session_unchanged(api: PartnerClient) -> None:
    first = api.post(ROUTE, BODY, format="json")
    repeat = api.post(ROUTE, BODY | {"nome": "Outra Pessoa", "telefone": "2133334444"}, format="json")
    assert repeat.status_code == 200
    assert repeat.json() == first.json()
    assert Session.objects.get().name == "Maria Aparecida da Silva"


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
    refused = api.post(ROUTE, BODY, format="json")
    assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (409, "invalid_state", field)
    assert missing in refused.json()["message"]
    assert not Session.objects.exists()
    api.partner.cnpj, api.partner.privacy_contact = "11222333000181", "privacidade@exemplo.com.br"
    api.partner.save()
    assert api.post(ROUTE, BODY, format="json").status_code == 201


def test_each_partner_has_its_own(api: PartnerClient, stranger: PartnerClient) -> None:
    assert api.post(ROUTE, BODY, format="json").status_code == 201
    assert stranger.post(ROUTE, BODY, format="json").status_code == 201


def test_each_cpf_has_its_own(api: PartnerClient) -> None:
    api.post(ROUTE, BODY, format="json")
    assert api.post(ROUTE, BODY | {"cpf": "11144477735"}, format="json").status_code == 201


def test_an_expired_session_gives_way_to_a_new_one(api: PartnerClient) -> None:
    first = api.post(ROUTE, BODY, format="json").json()
    Session.objects.update(expires_at=timezone.now())
    second = api.post(ROUTE, BODY, format="json")
    assert second.status_code == 201
    assert second.json()["authorization_id"] != first["authorization_id"]
    assert api.get(f"{ROUTE}/{first['authorization_id']}").json()["status"] == "expired"


def test_after_the_acceptance_a_new_one_is_opened(api: PartnerClient) -> None:
    first = api.post(ROUTE, BODY, format="json").json()
    api.post(f"{ROUTE}/public/{first['authorization_id']}/accept")
    second = api.post(ROUTE, BODY, format="json")
    assert second.status_code == 201
    assert second.json()["authorization_id"] != first["authorization_id"]


def test_the_country_code_of_the_phone_is_removed(api: PartnerClient) -> None:
    api.post(ROUTE, BODY | {"telefone": "5511987654321"}, format="json")
    assert Session.objects.get().phone == "11987654321"


def test_a_session_keeps_the_terms_that_it_was_opened_with(api: PartnerClient) -> None:
    old = Terms.current()
    opened = api.post(ROUTE, BODY, format="json").json()
    Terms.objects.create(version="2", text="Novo texto").publish()
    shown = api.get(f"{ROUTE}/public/{opened['authorization_id']}/terms").json()["terms"]
    assert shown == {"version": old.version, "sha256": old.sha256, "text": old.text}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cpf": "52998224726"}, "cpf"),
        ({"cpf": None}, "cpf"),
        ({"nome": ""}, "nome"),
        ({"nome": "x" * 121}, "nome"),
        ({"nome": ["Maria"]}, "nome"),
        ({"telefone": "+5511987654321"}, "telefone"),
    ],
)
def test_a_faulty_field(api: PartnerClient, change: dict[str, object], field: str) -> None:
    reply = api.post(ROUTE, json.dumps(BODY | change), content_type="application/json")
    assert reply.status_code == 422
    body = reply.json()
    assert (body["code"], body["field"], body["retryable"]) == ("invalid_input", field, False)
    assert [detail["field"] for detail in body["details"]] == [field]
    assert not Session.objects.exists()


def test_every_fault_is_told(api: PartnerClient) -> None:
    reply = api.post(ROUTE, {}, format="json")
    assert reply.status_code == 422
    assert [detail["field"] for detail in reply.json()["details"]] == ["cpf", "nome", "telefone"]


def test_refusals_before_the_body(api: PartnerClient, holder: HolderClient) -> None:
    assert holder.post(ROUTE, BODY, format="json").status_code == 401
    assert api.get(ROUTE).status_code == 405
    assert api.post(ROUTE, "cpf=1", content_type="application/x-www-form-urlencoded").status_code == 415
    assert api.post(ROUTE, "{", content_type="application/json").status_code == 422


def test_personal_data_is_not_readable_in_the_database(api: PartnerClient) -> None:
    api.post(ROUTE, BODY, format="json")
    with connection.cursor() as cursor:
        cursor.execute("SELECT s::text FROM authorizations_session s")
        [(row,)] = cursor.fetchall()
    for secret in BODY.values():
        assert secret not in row
