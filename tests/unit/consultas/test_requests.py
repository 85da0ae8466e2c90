"""Which fields of a query's body are named as wrong. What each kind of field refuses:
tests/unit/foundation/test_fields.py."""

import json
from typing import Any

import pytest

from consultas.serializers import AggregatedQueryRequest, IndividualQueryRequest, QueryRequest
from foundation.errors import InvalidInput
from foundation.json import parse_json_object
from foundation.validation import validated
from tests.client import query_body


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cpf", "90000000176"),
        ("nome", ""),
        ("nome", "x" * 121),
        ("data_nascimento", "2999-01-01"),
        ("telefone", "+5511987654321"),
        ("email", "maria"),
        ("email", "a" * 250 + "@x.br"),
        ("client_ip", "300.1.1.1"),
        ("geolocation", {"lat": 91, "lng": 0}),
        ("geolocation", "-23,-46"),
        ("providers", "ipe"),
        ("providers", ["x"] * 65),
        ("providers", [1]),
        ("max_wait_ms", 499),
        ("max_wait_ms", 30001),
        ("max_wait_ms", "1000"),
        ("sexo", 3),
        ("app_authorization", []),
        ("app_authorization", {"evidence": {"userAgent": "x" * 513}}),
        ("originador", 7),
        ("loan_value", 0),
        ("loan_value", 1.001),
        ("loan_value", "5000"),
        ("prazo", 0),
        ("prazo", 421),
        ("valor_parcela", 0),
        ("with_insurance", "true"),
        *((name, None) for name in ("cpf", "nome", "data_nascimento", "telefone", "email", "client_ip")),
        *((name, ...) for name in ("cpf", "nome", "data_nascimento", "telefone", "email", "client_ip")),
    ],
)
@pytest.mark.parametrize("block", [AggregatedQueryRequest, QueryRequest, IndividualQueryRequest])
def test_a_wrong_null_or_absent_field_is_named(block: type[QueryRequest], field: str, value: Any) -> None:
    told = {name: each for name, each in {**query_body(), field: value}.items() if each is not ...}
    body = parse_json_object(json.dumps(told).encode())
    if field not in block().fields:  # the individual route ignores the banks; only the aggregated one waits
        assert validated(block, body)
        return
    with pytest.raises(InvalidInput) as refusal:
        validated(block, body)
    assert str(refusal.value.field).split(".")[0] == field


def test_null_is_absence_for_what_may_be_absent() -> None:
    body = parse_json_object(json.dumps(query_body()).encode())
    optional = [name for name, field in QueryRequest().fields.items() if not field.required and name != "client_ip"]
    bare, nulls = (
        validated(QueryRequest, {**{name: body[name] for name in body if name not in optional}, **extra})
        for extra in ({}, dict.fromkeys(optional))
    )
    assert {"sexo", "with_insurance", "prazo"} <= set(optional)
    assert {name: value for name, value in nulls.items() if value is not None} == bare
    assert not {"sex", "with_insurance"} & set(nulls)  # null would stand for their defaults
