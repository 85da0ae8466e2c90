"""What the query routes refuse before they call any bank, also beyond the limit of a process or of a partner's day."""

import uuid
from typing import Any

import pytest
from django.test import Client as DjangoClient

from consultas import admission, views
from consultas.models import Query
from partners.models import Partner
from tests.client import error_body, query_body
from tests.consultas.test_ending import a_running_query
from tests.factories import PartnerFactory, http_of

ROUTES = ("/partners/v1/consultas", "/partners/v1/consultas/stream", "/partners/v1/providers/ipe/consultas")


@pytest.fixture
def partner(db: None) -> Partner:
    return PartnerFactory(providers=["ipe", "jatoba"])


def post(http: DjangoClient, body: Any, route: str = ROUTES[0]) -> Any:
    return http.post(route, body, "application/json")


@pytest.mark.parametrize("route", ROUTES)
def test_a_wrong_field_is_named(http: DjangoClient, route: str) -> None:
    """Which fields: tests/unit/consultas/test_requests.py."""
    response = post(http, query_body(geolocation={"lat": 91, "lng": 0}), route)
    assert (response.status_code, response["Content-Type"]) == (422, "application/json"), "also before a stream"
    error = response.json()
    assert (error["code"], error["retryable"], error["field"]) == ("invalid_input", False, "geolocation.lat")
    assert error["details"] == [{"field": error["field"], "message": error["message"]}]


@pytest.mark.parametrize("names", [[], ["outro"], [""]])
def test_no_valid_provider_names_the_contracts_banks(http: DjangoClient, names: list[str]) -> None:
    response = post(http, query_body(providers=names))
    message = "Nenhum banco informado pertence ao contrato. Bancos disponíveis: ipe, jatoba."
    detail = {"field": "providers", "message": message, "allowed": ["ipe", "jatoba"]}
    assert response.status_code == 422
    assert response.json() == {**error_body("invalid_input", message, field="providers"), "details": [detail]}


def test_the_banks_of_the_contract_are_asked_as_far_as_they_are_named(partner: Partner) -> None:
    def chosen(names: list[str] | None) -> list[str]:
        return [bank.name for bank in views.choose_banks(partner, names)]

    assert (chosen(["ipe", "outro", "", "ipe"]), chosen(None)) == (["ipe"], ["ipe", "jatoba"])
    partner.allow_only(["jatoba"])
    assert chosen(None) == ["jatoba"]


@pytest.mark.control("V2")
def test_every_fault_is_named_the_first_one_first(http: DjangoClient) -> None:
    error = post(http, {**query_body(), "cpf": "1", "telefone": "2", "client_ip": None, "loan_value": 0}).json()
    assert [detail["field"] for detail in error["details"]] == ["cpf", "telefone", "client_ip", "loan_value"]
    assert error["field"] == "cpf"


def test_the_checks_come_in_order(http: DjangoClient, partner: Partner) -> None:
    """Path, key, method, body, contract."""
    assert DjangoClient().post("/partners/v1/nada").status_code == 404
    assert DjangoClient().get("/partners/v1/consultas").status_code == 401
    assert http.get("/partners/v1/consultas").status_code == http.options("/partners/v1/consultas").status_code == 405
    for bank in ("peroba", "desconhecido"):
        assert post(http, {}, f"/partners/v1/providers/{bank}/consultas").status_code == 422
    outside = post(http, query_body(), "/partners/v1/providers/peroba/consultas")
    unknown = post(http, query_body(), "/partners/v1/providers/desconhecido/consultas")
    assert (outside.status_code, outside.json()["code"]) == (403, "provider_not_allowed")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert "ipe" not in outside.json()["message"] + unknown.json()["message"]
    partner.allow_only(["jatoba"])
    auction = http.get("/partners/v1/auction-proposals/x")
    assert (auction.status_code, auction.json()["code"]) == (403, "provider_not_allowed"), "the own bank is not there"


def test_a_query_of_another_partner_and_an_unknown_one_are_404(http: DjangoClient) -> None:
    theirs = a_running_query(PartnerFactory()).pk
    for query_id in (theirs, uuid.uuid4(), "x", "g" * 36):
        for path in (f"/partners/v1/consultas/{query_id}", f"/partners/v1/consultas/{query_id}/stream"):
            response = http.get(path)
            assert (response.status_code, response.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("authorization_id", ["desconhecida", "x" * 120, "a/b?c#d"])
@pytest.mark.parametrize("client_ip", ["203.0.113.7", "not looked at"])
def test_an_unknown_authorization_is_named(http: DjangoClient, authorization_id: str, client_ip: str) -> None:
    error = post(http, query_body(client_ip=client_ip, authorization_id=authorization_id)).json()
    assert (error["code"], error["field"]) == ("invalid_input", "authorization_id")


def test_a_sound_request_id_is_kept_and_another_replaced(db: None) -> None:
    """Before the fix, a CPF as a request id stood in every log line of the call and in its rows."""
    http = DjangoClient()
    assert http.get("/partners/v1/x", headers={"X-Request-Id": "abc-123.X_y"}).headers["X-Request-Id"] == "abc-123.X_y"
    for bad in (
        "short",
        "x" * 129,
        "with blank in it",
        "ünïcödé-id",
        "52998224725",
        "529.982.247-25",
        "11.222.333.0001-81",
    ):
        assert http.get("/partners/v1/x", headers={"X-Request-Id": bad}).headers["X-Request-Id"] != bad


def test_a_list_of_80000_wrong_banks_costs_one_fault(http: DjangoClient) -> None:
    """Before the fix, 250 KB of wrong banks gave an answer of 7.4 MB."""
    response = post(http, query_body(providers=[1] * 80_000))
    assert response.status_code == 422
    assert response.json()["details"] == [{"field": "providers", "message": "Deve ter no máximo 64 itens."}]


@pytest.mark.control("API3", "LGPD 6.III")
def test_ignored_fields_are_named_outside_of_production(db: None, settings: Any) -> None:
    """Before the fix, a misspelt optional field was ignored in silence."""
    partner = PartnerFactory(providers=["ipe"])
    body = {
        "titular": {"nome": "X", "apelido": "Y"},
        "referencias": [{"nome": "A", "idade": 3}, {"idade": 4}],
        "bloco": {"dentro": 1},
        "ção\r\nX: y": None,
    }

    def named() -> str | None:
        reply = post(http_of(partner), body, "/partners/v1/proposals")
        assert reply.status_code == 422, "errors name them, too"
        return reply.get("X-Ignored-Fields")

    assert named() == "titular.apelido, referencias.idade, bloco, %C3%A7%C3%A3o%0D%0AX%3A%20y"
    body = {f"n{number}": number for number in range(30)}
    assert named() == ", ".join(f"n{number}" for number in range(20))
    body = {"é" * 40_000: 1, "a": 1}  # before the fix, a header of 240 KB, which proxies and clients refuse
    assert named() == "a"
    settings.PRODUCTION = True
    assert named() is None


FULL = error_body(
    "rate_limited", "O serviço está no limite da sua capacidade. Tente novamente em instantes.", retryable=True
)


@pytest.mark.control("API4")
def test_beyond_the_limit_a_query_is_refused_before_it_begins(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """How partners share the places: tests/unit/consultas/test_admission.py."""
    http, places = http_of(PartnerFactory()), admission.Admission(1)
    monkeypatch.setattr(admission, "admission", places)
    with places.enter(uuid.uuid4()):
        for route in ROUTES:
            refused = post(http, query_body(), route)
            assert (refused.status_code, refused.json(), refused["Retry-After"]) == (429, FULL, "1")
    assert not Query.objects.exists(), "a refused query has no row"
    assert post(http, query_body()).status_code == 200, "the place is free again"


def test_more_cpfs_than_a_day_has_are_refused_and_those_of_today_are_not(db: None) -> None:
    http = http_of(PartnerFactory(daily_cpf_limit=1))
    first, second = query_body(), query_body("90000000337")
    assert post(http, first).status_code == 200
    refused = post(http, second)
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert 0 < int(refused["Retry-After"]) <= 24 * 3600
    assert '"cpfs-per-day";r=0;t=' in refused["RateLimit"]
    assert post(http, {**second, "cpf": "1"}).status_code == 422, "a faulty body is told first"
    again = post(http, first)
    assert again.status_code == 200
    assert again["RateLimit-Policy"] == '"in-flight";q=128;qu="concurrent-requests", "cpfs-per-day";q=1;w=86400'
