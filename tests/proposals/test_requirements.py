"""GET /providers, GET /providers/{name} and its options: the banks of a contract as data."""

from typing import Any

import jsonschema
import pytest
from django.test import Client

from providers import registry
from providers.models import Provider
from tests.factories import PartnerFactory, http_of

API = "/partners/v1/providers"


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
    http = http_of(PartnerFactory(providers=["ipe"]))
    assert [row["name"] for row in http.get(API).json()["providers"]] == ["ipe"]
    outside, unknown = http.get(f"{API}/jatoba"), http.get(f"{API}/nenhum")
    assert (outside.status_code, outside.json()) == (404, unknown.json())
    assert http.get(f"{API}/jatoba/options/titular.naturalidade_cidade").status_code == 404


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


@pytest.mark.parametrize("filters", [{}, {"uf": ""}, {"uf": "XX"}, {"uf": "ac"}])
def test_a_list_of_cities_needs_one_of_the_states(http: Client, filters: dict[str, str]) -> None:
    """Before the fix, these were answered by an empty list, as if the bank took no city."""
    response = http.get(f"{API}/aroeira/options/titular.naturalidade_cidade", filters)
    assert (response.status_code, response.json()["code"], response.json()["field"]) == (422, "invalid_input", "uf")


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
