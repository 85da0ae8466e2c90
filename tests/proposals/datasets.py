"""A complete submission that every bank accepts, and changes to it by dotted names."""

from __future__ import annotations

import copy
from typing import Any

from tests.client import FULL_FLOW

ACCOUNT = {
    "banco": "001",
    "agencia": "1234",
    "conta": "567890",
    "digito_conta": "1",
    "tipo_conta": "corrente",
}
_DATASET: dict[str, Any] = {
    "offer_ref": {"provider": "", "offer_id": ""},
    "titular": {
        "nome": "Maria Teste da Silva",
        "cpf": FULL_FLOW,
        "data_nascimento": "1985-03-14",
        "sexo": "F",
        "nome_mae": "Ana Teste da Silva",
        "nome_pai": "João da Silva",
        "nacionalidade": "brasileira",
        "estado_civil": "casado",
        "naturalidade_cidade": "São Paulo",
        "naturalidade_uf": "SP",
        "exposicao_politica": False,
    },
    "documento": {"numero": "123456789", "orgao_emissor": "SSP", "uf_emissor": "SP", "data_emissao": "2005-06-01"},
    "contato": {"telefone": "11987654321", "email": "maria.teste@example.com"},
    "endereco": {
        "cep": "01310100",
        "logradouro": "Avenida Paulista",
        "numero": "1000",
        "complemento": "apto 12",
        "bairro": "Bela Vista",
        "cidade": "São Paulo",
        "uf": "SP",
    },
    "vinculo": {
        "cnpj_empregador": "11222333000181",
        "nome_empregador": "Metalúrgica Aurora Ltda",
        "cargo": "Operador de Produção",
        "salario": 4500.00,
        "margem": 1850.00,
        "data_admissao": "2019-03-11",
        "matricula": "100200",
    },
    "recebimento": {"conta_bancaria": ACCOUNT},
    "evidencia": {"ip": "203.0.113.7"},
    "referencias": [
        {"nome": "João Souza", "telefone": "11911112222", "grau": 1},
        {"nome": "Rita Lima", "telefone": "11933334444", "grau": 2},
    ],
}
#: What an answer or an event says about a new proposal of `dataset`.
JUST_SUBMITTED: dict[str, Any] = {
    "action": None,
    "stage": None,
    "stage_since": None,
    "stage_reason": None,
    "reason": None,
    "next_actions": ["formalize", "cancel"],
    "recebimento": {
        "conta_bancaria": {"banco": "001", "conta": "****90", "tipo_conta": "corrente"},
        "pix": None,
        "observacao": None,
    },
    "contract_number": None,
    "disbursed_at": None,
    "disbursed_amount": None,
    "withdrawal_until": None,
    "withdrawn_at": None,
}
LEFT_OUT: Any = object()
#: 25 December 2031 as a bank might write it. The year alone sometimes occurs in a random id.
DUE_DATE = ("2031-12", "12/2031", "1955923200")


def dataset(offer: dict[str, Any], cpf: str = FULL_FLOW, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """The submission of an offer of the aggregated query. `changes` are values by dotted names (`titular.sexo`);
    `LEFT_OUT` takes the field away."""
    body = copy.deepcopy(_DATASET)
    body["offer_ref"] = {"provider": offer["provider"], "offer_id": offer["offerId"]}
    body["titular"]["cpf"] = cpf
    for name, value in (changes or {}).items():
        *blocks, field = name.split(".")
        block = body
        for key in blocks:
            block = block[key]
        if value is LEFT_OUT:
            del block[field]
        else:
            block[field] = value
    return body


def pix(kind: str, key: str) -> dict[str, Any]:
    """A `recebimento` by PIX."""
    return {"pix": {"tipo_chave": kind, "chave": key}}
