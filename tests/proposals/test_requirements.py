"""GET /providers, GET /providers/{name} and its options: the banks of a contract as data."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from consultas.models import Offer
from foundation.errors import InvalidInput
from foundation.json import parse_json_object
from partners.models import Partner
from proposals import dataset as datasets
from proposals import requirements
from proposals.serializers import SubmissionRequest
from providers import registry
from providers.bank import Bank
from providers.models import Provider
from tests.factories import PartnerFactory, issue_key
from tests.proposals.datasets import LEFT_OUT, dataset, pix
from tests.proposals.rows import an_offer, shown

API = "/partners/v1/providers"
FORMATS = jsonschema.FormatChecker()


@pytest.fixture
def partner(db: None) -> Partner:
    return PartnerFactory(providers=registry.names())


# --- The routes -------------------------------------------------------------------------------------------------


def test_the_contracts_banks_by_name(http: Client) -> None:
    response = http.get(API)
    assert response.status_code == 200
    rows = response.json()["providers"]
    assert [row["name"] for row in rows] == registry.names()
    for row in rows:
        assert row == http.get(f"{API}/{row['name']}").json()
        jsonschema.Draft202012Validator.check_schema(row["schema"])


def test_one_bank_whole(http: Client) -> None:
    body = http.get(f"{API}/jatoba").json()
    schema = body.pop("schema")
    assert body == {
        "name": "jatoba",
        "label": "Jatobá",
        "authorization": "evidence",
        "cancels": False,
        "channels": ["sms", "whatsapp"],
        "disbursement": {
            "account": True,
            "account_types": ["corrente", "poupanca", "salario"],
            "pix": True,
            "pix_keys": ["cpf", "telefone", "email", "aleatoria"],
            "replacements": [
                {
                    "given": "pix.telefone",
                    "paid": "pix.cpf",
                    "remark": "Este banco não aceita chave PIX de telefone: o valor é pago na chave CPF do titular.",
                }
            ],
            "portfolios_without_pix": [],
        },
        "required": [
            "offer_ref.provider",
            "offer_ref.offer_id",
            *(f"titular.{name}" for name in ("nome", "cpf", "data_nascimento", "sexo", "nome_mae")),
            "contato.telefone",
            "contato.email",
            *(f"endereco.{name}" for name in ("cep", "logradouro", "numero", "bairro", "cidade", "uf")),
            "recebimento",
            "evidencia.ip",
            "vinculo.matricula",
            "titular.estado_civil",
        ],
        "query": {"geolocation": "required", "app_authorization": "optional", "notifies_holder": False},
        "status": "available",
    }
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["properties"]["offer_ref"]["properties"]["provider"]["const"] == "jatoba"


def test_only_banks_of_the_contract_exist(db: None) -> None:
    partner = PartnerFactory(providers=["ipe"])
    http = Client(headers={"X-Partner-Api-Key": issue_key(partner)[1]})
    assert [row["name"] for row in http.get(API).json()["providers"]] == ["ipe"]
    outside, unknown = http.get(f"{API}/jatoba"), http.get(f"{API}/nenhum")
    assert (outside.status_code, outside.json()) == (404, unknown.json())
    assert http.get(f"{API}/jatoba/options/titular.naturalidade_cidade").status_code == 404
    assert Client().get(API).status_code == 401
    assert http.post(API).status_code == 405


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, "available"),
        ({"enabled": False}, "unavailable"),
        ({"circuit": "open"}, "unavailable"),
        ({"circuit": "closed"}, "available"),
    ],
)
def test_the_status_follows_the_operators_switch(http: Client, change: dict[str, Any], status: str) -> None:
    Provider.objects.filter(name="ipe").update(**change)
    assert http.get(f"{API}/ipe").json()["status"] == status
    assert http.get(f"{API}/jatoba").json()["status"] == "available"


def test_the_cities_of_a_bank_with_a_list_of_its_own(http: Client) -> None:
    path = f"{API}/aroeira/options/titular.naturalidade_cidade"
    cities = http.get(path, {"uf": "AC"}).json()
    assert cities == {
        "options": [
            {"value": "CRUZEIRO DO SUL", "label": "Cruzeiro Do Sul"},
            {"value": "RIO BRANCO", "label": "Rio Branco"},
        ]
    }
    for nowhere in ({}, {"uf": "XX"}, {"uf": "ac"}):
        assert http.get(path, nowhere).json() == {"options": []}


@pytest.mark.parametrize(
    ("bank", "field"), [("aroeira", "titular.nome"), ("ipe", "titular.naturalidade_cidade"), ("aroeira", "x%00")]
)
def test_a_field_without_a_list_of_its_own_is_unknown(http: Client, bank: str, field: str) -> None:
    response = http.get(f"{API}/{bank}/options/{field}")
    assert (response.status_code, response.json()["code"]) == (404, "not_found")


def test_the_list_costs_few_statements(http: Client, django_assert_max_num_queries: Any) -> None:
    http.get(API)
    with django_assert_max_num_queries(4):
        http.get(API)


# --- The schema and the validation say the same -------------------------------------------------------------------

#: Values to put into a dataset's fields: some are valid for some field, most are not. Values that JSON Schema
#: can't judge are left out: wrong check digits, future dates, somebody else's CPF key.
WORDS = """x M SP AC XX 1985-03-14 14/03/1985 01310-100 salario poupanca viuvo sms 11987654321 5511987654321 a@b.example
    203.0.113.9 2001:db8::1 001 999 12ABC34501DE35"""
TEXTS = [*WORDS.split(), "", "x" * 21, "x" * 61, "x" * 121, "Rio Branco", "são paulo", "Cidade Nenhuma"]
PERSON = {"nome": "João", "telefone": "11911112222"}
PERSONS = [[PERSON], [{**PERSON, "grau": 3}] * 2, [{**PERSON, "grau": 0}] * 2, [PERSON] * 11]
VALUES: list[Any] = [LEFT_OUT, None, 0, 1, -1, 1.5, 10**12, True, [], {}, *TEXTS, *PERSONS]
DISBURSEMENTS: list[Any] = [
    pix("email", "maria@example.com"),
    pix("email", "maria"),
    pix("email", "m" * 70 + "@example.com"),
    pix("telefone", "+55 (11) 98765-4321"),
    pix("telefone", "123"),
    pix("aleatoria", "123e4567-e89b-12d3-a456-426614174000"),
    pix("aleatoria", "123e4567"),
    pix("cpf", "900.000.001-75"),
    pix("cpf", "9000"),
    pix("outra", "x"),
    {},
    {"conta_bancaria": None, "pix": None},
    {"pix": {"tipo_chave": "email"}},
]
PATHS = [
    *(f"titular.{name}" for name in dataset({"provider": "", "offerId": ""})["titular"] if name != "cpf"),
    *(
        f"{block}.{name}"
        for block in ("documento", "contato", "endereco", "vinculo", "evidencia")
        for name in dataset({"provider": "", "offerId": ""})[block]
    ),
    *(f"recebimento.conta_bancaria.{name}" for name in ("banco", "agencia", "conta", "digito_conta", "tipo_conta")),
    "recebimento.conta_bancaria.digito_agencia",
    "evidencia.tipo_envio",
    "titular",
    "documento",
    "vinculo",
    "endereco",
    "referencias",
    "recebimento",
    "recebimento.pix",
]
CHANGES = st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(VALUES)), max_size=2)


def changed(body: dict[str, Any], changes: list[tuple[str, Any]], paid: Any) -> dict[str, Any]:
    """`body` with values at dotted paths, if the path still exists."""
    body = copy.deepcopy(body)
    if paid is not None:
        body["recebimento"] = copy.deepcopy(paid)
    for path, value in changes:
        *blocks, field = path.split(".")
        block: Any = body
        for key in blocks:
            block = block.get(key) if isinstance(block, dict) else None
        if not isinstance(block, dict):
            continue
        if value is LEFT_OUT:
            block.pop(field, None)
        else:
            block[field] = copy.deepcopy(value)
    return body


def service_takes(bank: type[Bank], body: dict[str, Any], offer: Offer) -> bool:
    request = SubmissionRequest(data=parse_json_object(json.dumps(body).encode()))
    if not request.is_valid():
        return False
    try:
        datasets.check(bank, request.validated_data, offer)
    except InvalidInput:
        return False
    return True


@pytest.mark.parametrize("name", registry.names())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=CHANGES, paid=st.one_of(st.none(), st.sampled_from(DISBURSEMENTS)))
def test_what_the_schema_takes_the_service_takes_and_the_other_way_round(
    offers: dict[str, Offer], name: str, changes: list[tuple[str, Any]], paid: Any
) -> None:
    offer = offers[name]
    bank = registry.get(name)
    assert bank is not None
    body = changed(dataset(shown(offer)), changes, paid)
    schema = requirements.json_schema(bank)
    faults = list(jsonschema.Draft202012Validator(schema, format_checker=FORMATS).iter_errors(body))
    told = [(each.json_path, each.message[:200]) for each in faults]
    assert service_takes(bank, body, offer) == (not faults), f"{changes} {paid}: {told}"


@pytest.fixture
def offers(partner: Partner) -> dict[str, Offer]:
    return {name: an_offer(partner, name) for name in registry.names()}


@pytest.mark.parametrize("name", registry.names())
def test_each_required_path_is_required(offers: dict[str, Offer], name: str) -> None:
    bank = registry.get(name)
    assert bank is not None
    body = dataset(shown(offers[name]))
    validator = jsonschema.Draft202012Validator(requirements.json_schema(bank), format_checker=FORMATS)
    assert validator.is_valid(body)
    for path in requirements.required(bank):
        assert not validator.is_valid(changed(body, [(path, LEFT_OUT)], None)), path
