"""A bank's JSON Schema and the validation of a submission say the same."""

import copy
import json
from contextlib import suppress
from functools import cache
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import InvalidInput
from foundation.json import parse_json_object
from foundation.validation import validated
from proposals import requirements
from proposals.dataset import check
from proposals.serializers import SubmissionRequest
from providers import registry
from tests.proposals.datasets import LEFT_OUT, dataset, pix
from tests.providers import manuals

ADAPTERS = {bank.name: bank for bank in registry.BANKS}
OFFER_ID = "1f0c9f0e-7f0a-4c0e-9a53-0a4f3a3f9b11"
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


def changed(body: dict[str, Any], changes: list[tuple[str, Any]]) -> dict[str, Any]:
    """`body` with values at dotted paths, as far as each path still exists."""
    for path, value in changes:
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            body = manuals.changed(body, {path: copy.deepcopy(value)})
    return body


@cache
def validator(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(requirements.json_schema(name), validate_formats=True)


def service_takes(name: str, body: dict[str, Any]) -> bool:
    """True if nothing is wrong but the offer, which only the database knows."""
    try:
        data = validated(SubmissionRequest, parse_json_object(json.dumps(body).encode()))
        check(ADAPTERS[name], data, None)
    except InvalidInput as refusal:
        return [detail.field for detail in refusal.details] == ["offer_ref.offer_id"]
    raise AssertionError("the missing offer was not noticed")


@pytest.mark.parametrize("name", registry.names())
@settings(max_examples=150)
@given(changes=CHANGES, paid=st.one_of(st.none(), st.sampled_from(DISBURSEMENTS)))
def test_what_the_schema_takes_the_service_takes_and_the_other_way_round(
    name: str, changes: list[tuple[str, Any]], paid: Any
) -> None:
    paid_so = [("recebimento", paid)] if paid is not None else []
    body = changed(dataset({"provider": name, "offerId": OFFER_ID}), paid_so + changes)
    faults = list(validator(name).iter_errors(body))
    told = [(each.instance_path, each.message[:200]) for each in faults]
    assert service_takes(name, body) == (not faults), f"{changes} {paid}: {told}"


@pytest.mark.parametrize("name", registry.names())
def test_each_required_path_is_required(name: str) -> None:
    body = dataset({"provider": name, "offerId": OFFER_ID})
    assert validator(name).is_valid(body)
    for path in requirements.required(ADAPTERS[name]):
        assert not validator(name).is_valid(changed(body, [(path, LEFT_OUT)])), path
