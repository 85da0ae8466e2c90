"""What a bank receives for a dataset: its own words, and nothing that is not its business."""

from __future__ import annotations

import json
from typing import Any

import pytest

from providers import registry
from tests.client import FULL_FLOW, Client
from tests.processes import Simulator
from tests.proposals.datasets import DUE_DATE, LEFT_OUT, dataset, pix

# By dotted name in the body of ipe; the first value for a man in a civil union, born 1985-03-14, paid into a savings
# account, the link by WhatsApp; the second for a married woman paid by PIX to her phone. Ellipsis: the field is not
# there. The words of every bank: tests/providers/contract/test_words.py.
MAN_AND_WOMAN: dict[str, tuple[Any, Any]] = {
    "borrower.gender": ("male", "female"),
    "borrower.marital_status": ("stable_union", "married"),
    "borrower.birth_date": ("1985-03-14T00:00:00.000000Z", "1985-03-14T00:00:00.000000Z"),
    "disbursement.method": ("bank_account", "pix"),
    "disbursement.bank_account.account_type": ("savings_account", ...),
    "disbursement.pix.key_type": (..., "phone_number"),
    "disbursement.pix.key": (..., "+5511987654321"),
    "signature_delivery": ("whatsapp", ...),
}
MAN = {
    "titular.sexo": "M",
    "titular.estado_civil": "uniao_estavel",
    "recebimento.conta_bancaria.tipo_conta": "poupanca",
    "evidencia.tipo_envio": "whatsapp",
}
WOMAN = {"recebimento": pix("telefone", "+55 (11) 98765-4321")}


def value(body: Any, name: str) -> Any:
    """The value under a dotted name, or Ellipsis."""
    for key in name.split("."):
        body = body.get(key, ...)
        if body is ...:
            break
    return body


def test_what_the_partner_sends_becomes_the_banks_own_words(client: Client, simulator: Simulator) -> None:
    for offer, changes in zip(client.query(providers=["ipe"])["proposals"], (MAN, WOMAN), strict=True):
        response = client.post("/proposals", dataset(offer, changes=changes))
        assert response.status_code == 201, response.text
    calls = simulator.calls("ipe", "submit")
    for index, call in enumerate(calls):
        body = json.loads(call["body"])
        expected = {name: values[index] for name, values in MAN_AND_WOMAN.items()}
        assert {name: value(body, name) for name in expected} == expected
    assert len(calls) == 2


def test_masks_and_what_is_not_the_banks_business_are_left_out(client: Client, simulator: Simulator) -> None:
    """Masks, a father's name of one word, unknown fields, and the references for all but cedro."""
    account = {
        "banco": "001",
        "agencia": "4.321",
        "digito_agencia": "x",
        "conta": "98.765-4",
        "digito_conta": "-0",
        "tipo_conta": "salario",
    }
    changes = {
        "recebimento": {"conta_bancaria": account},
        "endereco.cep": "01.310-100",
        "endereco.complemento": "",
        "titular.nome_pai": "Raimundo",
        "titular.apelido": "surpresa",
    }
    offers = {offer["provider"]: offer for offer in client.query()["proposals"]}
    assert sorted(offers) == registry.names()
    for bank, offer in offers.items():
        adapter = registry.get(bank)
        assert adapter is not None
        account["tipo_conta"] = "salario" if "salario" in adapter.words.account_types else "corrente"
        body = dataset(offer, changes=changes)
        body["initialDueDate"] = body["evidencia"]["initialDueDate"] = "2031-12-25"
        response = client.post("/proposals", body)
        assert response.status_code == 201, response.text
        [call] = simulator.calls(bank, "submit")
        for bare in ("4321", "987654", "01310100"):
            assert bare in call["body"] or bare in call["body"].replace("-", ""), bank  # the bank's own mask
        for gone in ("4.321", "98.765", "01.310", "Raimundo", "surpresa", *DUE_DATE):
            assert gone not in call["body"], bank
        assert ("Rita" in call["body"]) is ("referencias" in adapter.required)


@pytest.mark.parametrize(
    ("key", "kind", "wanted"),
    [
        ("900.000.001-75", "cpf", ("document_number", FULL_FLOW)),
        ("Maria.Teste@Example.COM", "email", ("email", "maria.teste@example.com")),
        (
            "123E4567-E89B-42D3-A456-426614174000",
            "aleatoria",
            ("random_key", "123e4567-e89b-42d3-a456-426614174000"),
        ),
        ("(11) 98765-4321", "telefone", ("phone_number", "+5511987654321")),
        ("5511987654321", "telefone", ("phone_number", "+5511987654321")),
    ],
)
def test_a_pix_key_is_normalized(
    client: Client, simulator: Simulator, key: str, kind: str, wanted: tuple[str, str]
) -> None:
    offer = client.query(providers=["ipe"])["proposals"][0]
    changes = {"recebimento": pix(kind, key), "titular.nome_pai": LEFT_OUT}
    response = client.post("/proposals", dataset(offer, changes=changes))
    assert response.status_code == 201, response.text
    [call] = simulator.calls("ipe", "submit")
    sent = json.loads(call["body"])["disbursement"]["pix"]
    assert (sent["key_type"], sent["key"]) == wanted
