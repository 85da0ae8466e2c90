"""Which two datasets of one offer are the same submission, and which field tells two submissions apart."""

import json
from decimal import Decimal
from typing import Any

import msgspec

from foundation.validation import validated
from proposals.dataset import first_difference
from proposals.serializers import SubmissionRequest
from tests.proposals.datasets import ACCOUNT, LEFT_OUT, dataset, pix

JOAO = {"nome": "João Souza", "telefone": "11911112222", "grau": 1}
RITA = {"nome": "Rita Lima", "telefone": "11933334444"}
ACCOUNT_NUMBER = "recebimento.conta_bancaria.conta"


def kept(changes: dict[str, Any]) -> dict[str, Any]:
    """A dataset with `changes`, as a row stores it."""
    body = dataset({"provider": "ipe", "offerId": "1f0c9f0e-7f0a-4c0e-9a53-0a4f3a3f9b11"}, changes=changes)
    data = validated(SubmissionRequest, json.loads(json.dumps(body), parse_float=Decimal))
    return msgspec.to_builtins(data)  # type: ignore[no-any-return]


PAIRS: list[tuple[Any, ...]] = [
    # The same after normalization.
    ({}, {"offer_ref.offer_id": "the bank's own name of it"}, None),
    ({}, {"evidencia": {"ip": "2001:db8::1", "tipo_envio": "whatsapp"}}, None),
    ({}, {"contato.telefone": "5511987654321"}, None),
    ({}, {"endereco.cep": "01310-100"}, None),
    ({}, {"recebimento.conta_bancaria.agencia": "12-34", ACCOUNT_NUMBER: "567.890"}, None),
    ({}, {"recebimento.conta_bancaria.digito_agencia": ""}, None),
    ({}, {"recebimento.pix": None}, None),
    ({}, {"titular.nome": "  Maria da Silva "}, None),
    ({}, {"vinculo.salario": 4500, "vinculo.cnpj_empregador": "11.222.333/0001-81"}, None),
    ({}, {"unknown": 1, "titular.unknown": 1}, None),
    (
        {"recebimento": pix("telefone", "+55 (11) 98765-4321")},
        {"recebimento": pix("telefone", "11987654321")},
        None,
    ),
    ({"recebimento": pix("email", "Maria@Example.com")}, {"recebimento": pix("email", "maria@example.com")}, None),
    # Null, empty and left out are the same.
    ({"documento": LEFT_OUT}, {"documento": None}, None),
    ({"documento": LEFT_OUT}, {"documento": {"numero": None}}, None),
    ({"referencias": None}, {"referencias": []}, None),
    ({"titular.nome_pai": ""}, {"titular.nome_pai": LEFT_OUT}, None),
    ({"titular.nome_pai": "João"}, {"titular.nome_pai": None}, None),
    ({"endereco.complemento": ""}, {"endereco.complemento": None}, None),
    ({"referencias": [RITA]}, {"referencias": [{**RITA, "grau": 1}]}, None),
    # Other data.
    ({}, {"titular.nome_mae": "Outra Mãe"}, "titular.nome_mae"),
    ({}, {"titular.nome_pai": LEFT_OUT}, "titular.nome_pai"),
    ({}, {"titular.exposicao_politica": True}, "titular.exposicao_politica"),
    ({}, {"titular.exposicao_politica": None}, "titular.exposicao_politica"),
    ({}, {"documento": LEFT_OUT}, "documento"),
    ({}, {"documento.data_emissao": "2005-06-02"}, "documento.data_emissao"),
    ({"vinculo": {"salario": 0}}, {"vinculo": None}, "vinculo"),
    ({}, {"vinculo.salario": 4500.01, "vinculo.margem": 1}, "vinculo.salario"),
    ({}, {"vinculo.salario": 0}, "vinculo.salario"),
    ({}, {ACCOUNT_NUMBER: "567891"}, ACCOUNT_NUMBER),
    ({}, {"recebimento": pix("email", "maria@example.com")}, "recebimento.conta_bancaria"),
    ({}, {"referencias": [JOAO]}, "referencias"),
    ({}, {"referencias": [JOAO, {**RITA, "grau": 0}]}, "referencias.1.grau"),
    # The order of the dataset, not of the body.
    (
        {},
        {"recebimento": {"conta_bancaria": {**ACCOUNT, "conta": "1"}}, "contato.email": "b@example.com"},
        "contato.email",
    ),
    ({}, {"endereco.bairro": "x", "endereco.complemento": "x"}, "endereco.complemento"),
]


def test_the_first_field_that_differs_is_named() -> None:
    for one, other, field in PAIRS:
        form, first, second = SubmissionRequest(), kept(one), kept(other)
        assert first_difference(form, first, second) == first_difference(form, second, first) == field
