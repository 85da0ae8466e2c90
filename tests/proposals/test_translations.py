"""What each bank receives for one and the same dataset: its own codes, as its manual (docs/banks) writes them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

import pytest

from providers import registry
from tests.client import FULL_FLOW, Client
from tests.processes import Simulator
from tests.proposals.datasets import DUE_DATE, LEFT_OUT, dataset, pix

# By bank and dotted name in the bank's own body; the first value for a man in a civil union, born 1985-03-14, paid
# into a savings account, the link by WhatsApp; the second for a married woman paid by PIX to her phone.
# Ellipsis: the field is not there.
MAN_AND_WOMAN: dict[str, dict[str, tuple[Any, Any]]] = {
    "aroeira": {
        "sexo": ("M", "F"),
        "estado_civil": ("6", "3"),
        "naturalidade_cidade": ("3648", "3648"),
        "data_nascimento": ("14/03/1985", "14/03/1985"),
        "rg_emissao": ("01/06/2005", "01/06/2005"),
        "celular": ("(11) 98765-4321", "(11) 98765-4321"),
        "forma_credito": ("C", "X"),
        "tipo_conta": ("2", ...),
        "tipo_chave_pix": (..., "2"),
        "chave_pix": (..., "(11) 98765-4321"),
        "envio": ("W", "N"),
    },
    "canela": {
        "tomador.sexo": ("Masculino", "Feminino"),
        "tomador.estadoCivil": ("União estável", "Casado(a)"),
        "tomador.dataNascimento": ("1985-03-14T00:00:00-03:00", "1985-03-14T00:00:00-03:00"),
        "tomador.dadosBancarios.formaCredito": (1, 3),
        "tomador.dadosBancarios.codigoBanco": ("001", ...),
        "tomador.dadosBancarios.tipoChavePixId": (..., 4),
        "tomador.dadosBancarios.chavePix": (..., "+5511987654321"),
        "envioLink": ("WHATSAPP", None),
    },
    "cedro": {
        "borrower.gender": ("male", "female"),
        "borrower.marital_status": ("civil_union", "married"),
        "borrower.birth_date": ("1985-03-14", "1985-03-14"),
        "bank.transfer_method": ("ted", "pix"),
        "bank.account_type": ("savings", ...),
        "bank.pix_key_type": (..., "phone"),
        "bank.pix_key": (..., "5511987654321"),
        "references.0.relationship": ("relative", "relative"),
        "references.1.relationship": ("friend", "friend"),
        "formalization_channel": ("whatsapp", ...),
    },
    "imbuia": {
        "titular.sexo": ("MASC", "FEM"),
        "titular.estado_civil": ("UNE", "CAS"),
        "titular.data_nascimento": ("1985-03-14", "1985-03-14"),
        "dados_bancarios.tipo_conta": ("ContaPoupancaIndividual", ...),
        "chave_pix.tipo": (..., "CELULAR"),
        "chave_pix.chave": (..., "11987654321"),
        "envio_link": ("WHATSAPP", None),
    },
    "ipe": {
        "borrower.gender": ("male", "female"),
        "borrower.marital_status": ("stable_union", "married"),
        "borrower.birth_date": ("1985-03-14T00:00:00.000000Z", "1985-03-14T00:00:00.000000Z"),
        "disbursement.method": ("bank_account", "pix"),
        "disbursement.bank_account.account_type": ("savings_account", ...),
        "disbursement.pix.key_type": (..., "phone_number"),
        "disbursement.pix.key": (..., "+5511987654321"),
        "signature_delivery": ("whatsapp", ...),
    },
    "jatoba": {
        "proponente.sexo": ("1", "2"),
        "proponente.estadoCivil": ("60", "20"),
        "proponente.dataNascimento": ("14/03/1985", "14/03/1985"),
        "vinculo.salario": (450000, 450000),
        "vinculo.dataAdmissao": ("11/03/2019", "11/03/2019"),
        "credito.forma": ("CONTA", "PIX"),
        "credito.tipoConta": ("CP", ...),
        # It refuses phone keys: the holder's CPF key is sent instead.
        "credito.tipoChave": (..., "CPF"),
        "credito.chave": (..., FULL_FLOW),
        "envioLink": ("WHATSAPP", None),
    },
    "peroba": {
        "Cliente.Genero": ("H", ...),
        "Cliente.EstadoCivil": ("U", ...),
        "Cliente.DataNascimento": ("1985-03-14", ...),
        "Pagamento.TipoConta": ("ContaPoupanca", ...),
        "EnvioAssinatura": ("WhatsApp", ...),
    },
    "sucupira": {
        "cliente.genero": (1, 2),
        "cliente.estado-civil": ("uniao-estavel", "casado-a"),
        "cliente.data-nascimento": (479606400000, 479606400000),
        "cliente.documento.data-emissao": (1117584000000, 1117584000000),
        "cliente.telefone": ("+5511987654321", "+5511987654321"),
        "liquidacao.forma": ("conta", "pix"),
        "liquidacao.conta.tipo": ("SVGS", ...),
        "liquidacao.pix.tipo-chave": (..., "PHONE"),
        "liquidacao.pix.chave": (..., "+5511987654321"),
        "aviso-assinatura": ("whatsapp", None),
    },
}
MAN = {
    "titular.sexo": "M",
    "titular.estado_civil": "uniao_estavel",
    "recebimento.conta_bancaria.tipo_conta": "poupanca",
    "evidencia.tipo_envio": "whatsapp",
}
WOMAN = {"recebimento": pix("telefone", "+55 (11) 98765-4321")}


def received(call: dict[str, Any]) -> Any:
    """The body of a recorded call, read: JSON, or form data."""
    text = call["body"]
    return json.loads(text) if text.startswith("{") else dict(parse_qsl(text))


def value(body: Any, name: str) -> Any:
    """The value under a dotted name, or Ellipsis."""
    for key in name.split("."):
        if isinstance(body, list):
            body = body[int(key)]
        elif isinstance(body, dict) and key in body:
            body = body[key]
        else:
            return ...
    return body


@pytest.mark.parametrize("bank", sorted(MAN_AND_WOMAN))
def test_a_bank_receives_its_own_codes(client: Client, simulator: Simulator, bank: str) -> None:
    offers = client.query(providers=[bank])["proposals"]
    adapter = registry.get(bank)
    assert adapter is not None
    people = [MAN, WOMAN] if adapter.pix_keys else [MAN]
    for offer, changes in zip(offers, people, strict=False):
        response = client.post("/proposals", dataset(offer, changes=changes))
        assert response.status_code == 201, response.text
    calls = simulator.calls(bank, "submit")
    assert len(calls) == len(people)
    for index, call in enumerate(calls):
        body = received(call)
        expected = {name: values[index] for name, values in MAN_AND_WOMAN[bank].items()}
        assert {name: value(body, name) for name in expected} == expected


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
        account["tipo_conta"] = "salario" if "salario" in adapter.account_types else "corrente"
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


def test_canela_is_told_neither_income_nor_admission(client: Client, simulator: Simulator) -> None:
    offer = client.query(providers=["canela"])["proposals"][0]
    assert client.post("/proposals", dataset(offer)).status_code == 201
    [call] = simulator.calls("canela", "submit")
    assert received(call)["tomador"]["vinculoEmpregaticio"] == {
        "cargo": "Operador de Produção",
        "nomeEmpregador": "Metalúrgica Aurora Ltda",
    }


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
    sent = received(call)["disbursement"]["pix"]
    assert (sent["key_type"], sent["key"]) == wanted
