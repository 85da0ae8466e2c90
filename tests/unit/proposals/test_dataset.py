"""What is wrong with a dataset: its form, and what its bank also requires. All faults are named at once. And what an
adapter gets of a dataset without faults.

Where faults are looked for, the offer is left out of the dataset, because only the database knows offers.
"""

import json
from dataclasses import replace
from datetime import date
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from foundation.errors import InvalidInput
from foundation.json import parse_json_object
from proposals import submission
from proposals.dataset import NO_OFFER, as_submission
from providers import registry
from providers.types.proposal import BankSubmission
from tests.client import FULL_FLOW
from tests.proposals.datasets import ACCOUNT, LEFT_OUT, dataset, pix
from tests.providers.samples import a_submission, changed_submission, pix_key

OTHER_CPF = "52998224725"
PERSON = {"nome": "João Souza", "telefone": "11911112222"}
#: A partner whose contract has every bank.
PARTNER: Any = SimpleNamespace(allowed_bank=registry.get)

#: The fields that each bank requires beyond the blocks that all require. That these are the ones that the bank refuses
#: to do without: tests/providers/contract/test_submissions.py. The tests of PIX cover the account.
ALSO_REQUIRED = {
    bank.name: {each for each in bank.required if not each.startswith("recebimento")} for bank in registry.BANKS
}
OPTIONAL = (
    "titular.nome_pai",
    "titular.nacionalidade",
    "titular.estado_civil",
    "titular.naturalidade_cidade",
    "titular.naturalidade_uf",
    "titular.exposicao_politica",
    "documento",
    "endereco.complemento",
    "vinculo",
    "referencias",
)


def faults_of(body: dict[str, Any]) -> list[str]:
    """The fields that are named for `body`, in their order."""
    with pytest.raises(InvalidInput) as refusal:
        submission.validated(PARTNER, parse_json_object(json.dumps(body).encode()))
    return [str(detail.field) for detail in refusal.value.details]


def faults(changes: dict[str, Any], bank: str = "ipe") -> list[str]:
    """The fields that are named for a dataset with `changes`, without that of the offer."""
    left_out = {"offer_ref.offer_id": LEFT_OUT, **changes}
    return [
        field
        for field in faults_of(dataset({"provider": bank, "offerId": ""}, changes=left_out))
        if field != "offer_ref.offer_id" or field in changes
    ]


# --- Form ---------------------------------------------------------------------------------------------------------


#: A field, a value that it refuses, and the field inside that is named, if it is one.
WRONG: list[tuple[Any, ...]] = [
    ("offer_ref.provider", 1),
    ("offer_ref.offer_id", ""),
    ("offer_ref.offer_id", "x" * 201),
    ("titular", LEFT_OUT),
    ("titular.nome", "x" * 121),
    ("titular.cpf", "900.000.001-75"),
    ("titular.data_nascimento", "2999-01-01"),
    ("titular.sexo", "f"),
    ("titular.nome_mae", None),
    ("titular.nome_pai", 1),
    ("titular.estado_civil", "viúvo"),
    ("titular.naturalidade_uf", "XX"),
    ("titular.exposicao_politica", "false"),
    ("documento.numero", "1" * 121),
    ("documento.orgao_emissor", "x" * 121),
    ("documento.uf_emissor", "São Paulo"),
    ("documento.data_emissao", "2999-01-01"),
    ("contato", None),
    ("contato.telefone", "(11) 98765-4321"),
    ("contato.email", "maria"),
    ("endereco", LEFT_OUT),
    ("endereco.cep", "0131010"),
    ("endereco.numero", 1000),
    ("endereco.uf", "BR"),
    ("vinculo.cnpj_empregador", "11222333000180"),
    ("vinculo.salario", "4500.00"),
    ("vinculo.salario", -1),
    ("vinculo.margem", 1850.001),
    ("vinculo.data_admissao", "2999-01-01"),
    ("vinculo.matricula", "1" * 121),
    ("recebimento", None),
    ("recebimento", {}),
    ("recebimento", {"conta_bancaria": None, "pix": None}),
    ("recebimento", {"conta_bancaria": ACCOUNT, **pix("email", "maria@example.com")}),
    ("recebimento.conta_bancaria.banco", "000"),
    ("recebimento.conta_bancaria.agencia", "123456"),
    ("recebimento.conta_bancaria.conta", ""),
    ("recebimento.conta_bancaria.digito_conta", LEFT_OUT),
    ("recebimento.conta_bancaria.digito_conta", "A"),
    ("recebimento.conta_bancaria.digito_conta", "123"),
    ("recebimento.conta_bancaria.digito_conta", "²"),
    ("recebimento.conta_bancaria.digito_conta", "-"),
    ("recebimento.conta_bancaria.tipo_conta", "CC"),
    ("evidencia", LEFT_OUT),
    ("evidencia.ip", "localhost"),
    ("evidencia.tipo_envio", "email"),
    ("referencias", {}),
    ("referencias", [1], "referencias.0"),
    ("referencias", [{**PERSON, "grau": 3}], "referencias.0.grau"),
    ("referencias", [{"telefone": "11911112222"}], "referencias.0.nome"),
    ("recebimento", pix("cnpj", "11222333000181"), "recebimento.pix.tipo_chave"),
    *(
        ("recebimento", pix(kind, key), "recebimento.pix.chave")
        for kind, key in (
            ("cpf", "90000000176"),
            ("cpf", OTHER_CPF),  # valid, and not the holder's own
            ("telefone", "12345"),
            ("telefone", "+1 202 555 0100 99"),
            ("telefone", "+1 415 555 0100 99999"),
            ("email", "maria"),
            ("email", "maria@localhost"),
            ("email", "a" * 70 + "@example.com"),
            ("aleatoria", "123e4567-e89b-12d3-a456"),
            ("aleatoria", "123e4567e89b12d3a456426614174000"),
            ("aleatoria", "x" * 36),
        )
    ),
]


def test_a_wrong_field_is_named() -> None:
    """Values that show the kind of each field. What a kind refuses: tests/unit/foundation/test_fields.py."""
    for field, value, *inner in WRONG:
        assert faults({field: value}) == (inner or [field]), value


def test_every_fault_is_named_the_first_one_first() -> None:
    """Those of the form, then those of the bank. Before the fix, one bad phone hid what else the bank requires."""
    changes = {
        "titular.sexo": "X",
        "contato.email": "x",
        "recebimento": {"conta_bancaria": {**ACCOUNT, "agencia": "x"}, **pix("email", "x")},
        "referencias": [PERSON, {"nome": "", "telefone": "1"}],
        "documento": LEFT_OUT,
    }
    assert faults(changes) == [
        "titular.sexo",
        "contato.email",
        "recebimento",
        "recebimento.conta_bancaria.agencia",
        "recebimento.pix.chave",
        "referencias.1.nome",
        "referencias.1.telefone",
        "documento.numero",
        "documento.orgao_emissor",
        "documento.uf_emissor",
        "documento.data_emissao",
    ]


def test_an_empty_body_names_every_block() -> None:
    assert faults_of({}) == ["offer_ref", "titular", "contato", "endereco", "recebimento", "evidencia"]
    assert faults_of(dataset({"provider": "ipe", "offerId": ""}, changes={"offer_ref": "x"})) == ["offer_ref"]


# --- What each bank needs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bank", registry.names())
def test_what_a_bank_also_requires_is_named_all_at_once_and_alone(bank: str) -> None:
    """Null is as good as left out."""
    for nothing in (LEFT_OUT, None):
        assert {*faults(dict.fromkeys(OPTIONAL, nothing), bank)} == ALSO_REQUIRED[bank]
    for field in ALSO_REQUIRED[bank]:
        assert faults({field: LEFT_OUT}, bank) == [field]
    assert faults({}, bank) == []


@pytest.mark.parametrize(
    ("bank", "changes", "named"),
    [
        ("cedro", {"referencias": [PERSON]}, {"referencias"}),
        ("cedro", {"referencias": [PERSON] * 4}, {"referencias"}),
        ("peroba", {"recebimento": pix("cpf", FULL_FLOW)}, {"recebimento.pix", "recebimento.conta_bancaria"}),
        ("aroeira", {"titular.naturalidade_cidade": "Macondo"}, {"titular.naturalidade_cidade"}),
        # A field whose form is wrong is named once, and so are the blocks around it and the fields in it.
        ("ipe", {"documento.numero": 1, "titular.cpf": "1"}, {"documento.numero", "titular.cpf"}),
        ("ipe", {"documento": []}, {"documento"}),
        ("cedro", {"referencias": [{"nome": "João Souza", "telefone": "1"}]}, {"referencias.0.telefone"}),
        ("peroba", {"recebimento": pix("email", "x")}, {"recebimento.pix.chave", "recebimento.conta_bancaria"}),
        ("ipe", {"recebimento": pix("cpf", "1")}, {"recebimento.pix.chave"}),
        ("ipe", {"recebimento": pix("cpf", FULL_FLOW), "titular.cpf": "1"}, {"titular.cpf"}),
        ("peroba", {"recebimento": {}}, {"recebimento"}),
        ("peroba", {"recebimento.conta_bancaria.conta": "x"}, {"recebimento.conta_bancaria.conta"}),
        ("aroeira", {"titular.naturalidade_uf": "XX"}, {"titular.naturalidade_uf"}),
        # The valid fields of a block are checked even if other fields in it are wrong.
        (
            "sucupira",
            {"titular.nacionalidade": "x" * 61, "titular.sexo": "X"},
            {"titular.nacionalidade", "titular.sexo"},
        ),
        (
            "aroeira",
            {"titular.naturalidade_cidade": "Macondo", "titular.nome": ""},
            {"titular.naturalidade_cidade", "titular.nome"},
        ),
        ("jatoba", {"titular": LEFT_OUT, "vinculo": None}, {"titular", "vinculo.matricula"}),
    ],
)
def test_a_fault_is_named_once(bank: str, changes: dict[str, Any], named: set[str]) -> None:
    found = faults(changes, bank)
    assert (len(found), {*found}) == (len(named), named)


@pytest.mark.parametrize("bank", registry.names())
def test_every_field_alone_may_be_wrong_at_every_bank(bank: str) -> None:
    """A bank's rules accept a dataset without any one of its parts, and raise nothing."""
    for block, inner in dataset({"provider": bank, "offerId": ""}).items():
        for field in [block, *(f"{block}.{name}" for name in (inner if isinstance(inner, dict) else ()))]:
            if not field.startswith("offer_ref"):
                assert all(name.startswith(field) for name in faults({field: [[]]}, bank))


# --- What an adapter gets -----------------------------------------------------------------------------------------

WHOLE = a_submission(NO_OFFER, reference="", query=None)


def sent(changes: dict[str, Any]) -> BankSubmission:
    """What an adapter gets of a dataset with `changes`: the same from a body and from a row."""
    body = dataset({"provider": "ipe", "offerId": "x"}, changes=changes)
    data = submission.validated(PARTNER, parse_json_object(json.dumps(body).encode()))
    of_row = as_submission(msgspec.to_builtins(data))
    assert of_row == as_submission(data)
    return of_row


def test_a_whole_dataset() -> None:
    """Nothing else of it reaches a bank: neither unknown fields nor the partner's own name."""
    unknown = {"initialDueDate": "2031-12-25", "evidencia.initialDueDate": "2031-12-25", "titular.apelido": "surpresa"}
    told = sent({**unknown, "partner_reference": "order:7", "endereco.complemento": "apto 12"})
    assert told == changed_submission(WHOLE, endereco={"complemento": "apto 12"})


def test_masks_empty_texts_and_a_father_of_one_word_are_left_out() -> None:
    account = {"banco": "001", "agencia": "4.321", "digito_agencia": "x", "conta": "98.765-4", "digito_conta": "-0"}
    found = sent(
        {
            "recebimento": {"conta_bancaria": {**account, "tipo_conta": "salario"}},
            "endereco.cep": "01.310-100",
            "endereco.complemento": "",
            "titular.nome_pai": "Raimundo",
            "referencias": [{"nome": "Rita Lima", "telefone": "5511933334444"}],
            "evidencia.tipo_envio": "whatsapp",
        }
    )
    digits = {"agencia": "4321", "digito_agencia": "X", "conta": "987654", "digito_conta": "0"}
    assert found == changed_submission(
        replace(WHOLE, referencias=[{"nome": "Rita Lima", "telefone": "11933334444", "grau": 1}]),
        recebimento={"conta_bancaria": {"banco": "001", **digits, "tipo_conta": "salario"}},
        titular={"nome_pai": None},
        evidencia={"tipo_envio": "whatsapp"},
    )


def test_what_is_left_out_or_null_has_its_default() -> None:
    for nothing in (LEFT_OUT, None):
        found = sent(dict.fromkeys(OPTIONAL, nothing))
        holder = {
            "nome": "Maria da Silva",
            "cpf": FULL_FLOW,
            "data_nascimento": date(1985, 3, 14),
            "sexo": "F",
            "nome_mae": "Ana da Silva",
        }
        bare: dict[str, Any] = {"titular": holder, "documento": {}, "vinculo": {}, "referencias": ()}
        assert found == replace(WHOLE, **bare)


@pytest.mark.parametrize(
    ("kind", "typed", "key"),
    [
        ("cpf", "900.000.001-75", FULL_FLOW),
        ("email", "Maria@Example.COM", "maria@example.com"),
        ("aleatoria", "123E4567-E89B-42D3-A456-426614174000", "123e4567-e89b-42d3-a456-426614174000"),
        ("telefone", "(11) 98765-4321", "11987654321"),
        ("telefone", "+55 (11) 98765-4321", "11987654321"),
        ("telefone", "5511987654321", "11987654321"),
        ("telefone", "11987654321", "11987654321"),
    ],
)
def test_a_pix_key_is_normalized(kind: str, typed: str, key: str) -> None:
    assert sent({"recebimento": pix(kind, typed)}) == replace(WHOLE, recebimento=pix_key(kind, key))
