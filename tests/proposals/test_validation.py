"""What POST /partners/v1/proposals refuses before it calls any bank."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client as DjangoClient
from django.utils import timezone

from consultas.models import Offer, Step
from partners.models import Partner
from proposals.models import BankCall, Proposal
from providers import registry
from tests.client import FULL_FLOW, error_body
from tests.factories import PartnerFactory, issue_key
from tests.proposals.datasets import ACCOUNT, LEFT_OUT, dataset, pix
from tests.proposals.rows import an_offer, shown

ROUTE = "/partners/v1/proposals"
OTHER_CPF = "52998224725"

DOCUMENT = {"documento.numero", "documento.orgao_emissor", "documento.uf_emissor", "documento.data_emissao"}
# The fields that each bank requires beyond the blocks that all require.
ALSO_REQUIRED = {
    "ipe": {*DOCUMENT, "titular.estado_civil", "titular.exposicao_politica"},
    "jatoba": {"vinculo.matricula", "titular.estado_civil"},
    "aroeira": {
        *DOCUMENT,
        "titular.estado_civil",
        "titular.nacionalidade",
        "titular.naturalidade_cidade",
        "titular.naturalidade_uf",
    },
    "cedro": {"referencias", "titular.estado_civil", "titular.exposicao_politica"},
    "imbuia": {"titular.naturalidade_cidade", "titular.naturalidade_uf"},
    "peroba": set(),  # the account is left out, because the tests of PIX cover it
    "canela": {"vinculo.cargo", "vinculo.nome_empregador"},
    "sucupira": {"documento.numero", "titular.nacionalidade"},
}
# A bank outside the contract requires what its adapter says. The tests of PIX cover the account.
for _bank in registry.BANKS:
    ALSO_REQUIRED.setdefault(_bank.name, {each for each in _bank.required if not each.startswith("recebimento")})
OPTIONAL = {
    "titular.nome_pai": LEFT_OUT,
    "titular.nacionalidade": LEFT_OUT,
    "titular.estado_civil": LEFT_OUT,
    "titular.naturalidade_cidade": LEFT_OUT,
    "titular.naturalidade_uf": LEFT_OUT,
    "titular.exposicao_politica": LEFT_OUT,
    "documento": LEFT_OUT,
    "endereco.complemento": LEFT_OUT,
    "vinculo": LEFT_OUT,
    "referencias": LEFT_OUT,
}


@pytest.fixture
def partner(db: None) -> Partner:
    return PartnerFactory(providers=registry.names())


@pytest.fixture
def key(partner: Partner) -> str:
    return issue_key(partner)[1]


@pytest.fixture
def offer(partner: Partner) -> Offer:
    return an_offer(partner, "ipe")


def post(key: str, body: Any) -> Any:
    http = DjangoClient(headers={"X-Partner-Api-Key": key})
    return http.post(ROUTE, json.dumps(body), content_type="application/json")


def refused(key: str, body: Any) -> dict[str, Any]:
    """The 422's error; nothing was written, so nothing was sent."""
    response = post(key, body)
    assert response.status_code == 422, response.content
    error = response.json()
    assert (error["code"], error["retryable"]) == ("invalid_input", False)
    assert error["details"][0] == {"field": error["field"], "message": error["message"]}
    assert not Proposal.objects.exists()
    assert not BankCall.objects.exists()
    return error  # type: ignore[no-any-return]


def fields(error: dict[str, Any]) -> set[str]:
    return {detail["field"] for detail in error["details"]}


# --- shape ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("offer_ref", "x"),
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
        ("referencias", [1]),
        ("referencias", [{"nome": "João Souza", "telefone": "11911112222", "grau": 3}]),
        ("referencias", [{"telefone": "11911112222"}]),
    ],
)
def test_a_wrong_field_is_named(key: str, offer: Offer, field: str, value: Any) -> None:
    """Values that show the kind of each field. What a kind refuses: tests/unit/foundation/test_fields.py."""
    error = refused(key, dataset(shown(offer), changes={field: value}))
    assert error["field"].startswith(field)


@pytest.mark.parametrize(
    ("kind", "chave"),
    [
        ("cpf", "90000000176"),
        ("telefone", "12345"),
        ("telefone", "+1 415 555 0100 99999"),
        ("email", "maria"),
        ("email", "maria@localhost"),
        ("email", "a" * 70 + "@example.com"),
        ("aleatoria", "123e4567-e89b-12d3-a456"),
        ("aleatoria", "123e4567e89b12d3a456426614174000"),
    ],
)
def test_a_wrong_pix_key_is_named(key: str, offer: Offer, kind: str, chave: str) -> None:
    error = refused(key, dataset(shown(offer), changes={"recebimento": pix(kind, chave)}))
    assert error["field"] == "recebimento.pix.chave"


def test_a_pix_key_of_an_unknown_kind_is_named(key: str, offer: Offer) -> None:
    error = refused(key, dataset(shown(offer), changes={"recebimento": pix("cnpj", "11222333000181")}))
    assert error["field"] == "recebimento.pix.tipo_chave"


def test_a_cpf_key_must_be_the_holders_own(key: str, offer: Offer) -> None:
    error = refused(key, dataset(shown(offer), changes={"recebimento": pix("cpf", OTHER_CPF)}))
    assert fields(error) == {"recebimento.pix.chave"}


@pytest.mark.parametrize(
    "recebimento",
    [{}, {"conta_bancaria": None, "pix": None}, {"conta_bancaria": ACCOUNT, **pix("email", "maria@example.com")}],
)
def test_both_or_neither_of_account_and_pix(key: str, offer: Offer, recebimento: dict[str, Any]) -> None:
    error = refused(key, dataset(shown(offer), changes={"recebimento": recebimento}))
    assert fields(error) == {"recebimento"}


def test_every_fault_is_named_the_first_one_first(key: str, offer: Offer) -> None:
    account = {**ACCOUNT, "agencia": "x"}
    changes = {
        "titular.sexo": "X",
        "contato.email": "x",
        "recebimento": {"conta_bancaria": account, **pix("email", "x")},
        "referencias": [{"nome": "João Souza", "telefone": "11911112222"}, {"nome": "", "telefone": "1"}],
    }
    error = refused(key, dataset(shown(offer), changes=changes))
    assert [detail["field"] for detail in error["details"]] == [
        "titular.sexo",
        "contato.email",
        "recebimento",
        "recebimento.conta_bancaria.agencia",
        "recebimento.pix.chave",
        "referencias.1.nome",
        "referencias.1.telefone",
    ]


def test_an_empty_body_names_every_block(key: str) -> None:
    error = refused(key, {})
    assert fields(error) == {"offer_ref", "titular", "contato", "endereco", "recebimento", "evidencia"}


# --- what each bank needs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("bank", registry.names())
def test_what_a_bank_also_requires_is_named_all_at_once(key: str, partner: Partner, bank: str) -> None:
    offer = an_offer(partner, bank)
    if ALSO_REQUIRED[bank]:
        error = refused(key, dataset(shown(offer), changes=OPTIONAL))
        assert fields(error) == ALSO_REQUIRED[bank]
    else:
        error = refused(key, dataset(shown(offer), OTHER_CPF, changes=OPTIONAL))
        assert fields(error) == {"titular.cpf"}


@pytest.mark.parametrize("bank", registry.names())
def test_null_is_as_good_as_left_out(key: str, partner: Partner, bank: str) -> None:
    offer = an_offer(partner, bank)
    error = refused(key, dataset(shown(offer), OTHER_CPF, changes=dict.fromkeys(OPTIONAL)))
    assert fields(error) == ALSO_REQUIRED[bank] | {"titular.cpf"}


@pytest.mark.parametrize(
    ("bank", "field"), [(bank, field) for bank, needed in ALSO_REQUIRED.items() for field in sorted(needed)]
)
def test_each_field_that_a_bank_also_requires_is_named_by_itself(
    key: str, partner: Partner, bank: str, field: str
) -> None:
    error = refused(key, dataset(shown(an_offer(partner, bank)), changes={field: LEFT_OUT}))
    assert fields(error) == {field}


def test_cedro_needs_two_references(key: str, partner: Partner) -> None:
    offer = an_offer(partner, "cedro")
    one = [{"nome": "João Souza", "telefone": "11911112222"}]
    error = refused(key, dataset(shown(offer), changes={"referencias": one}))
    assert fields(error) == {"referencias"}


def test_peroba_takes_an_account_only(key: str, partner: Partner) -> None:
    offer = an_offer(partner, "peroba")
    error = refused(key, dataset(shown(offer), changes={"recebimento": pix("cpf", FULL_FLOW)}))
    assert error["field"] == "recebimento.pix"
    assert fields(error) == {"recebimento.pix", "recebimento.conta_bancaria"}


def test_sucupira_refuses_pix_for_its_special_portfolio(key: str, partner: Partner) -> None:
    offer = an_offer(partner, "sucupira", native={"portfolio": "CLT-ESPECIAL"})
    error = refused(key, dataset(shown(offer), changes={"recebimento": pix("email", "maria@example.com")}))
    assert fields(error) == {"recebimento.pix"}


def test_aroeira_names_a_city_that_it_does_not_list(key: str, partner: Partner) -> None:
    offer = an_offer(partner, "aroeira")
    error = refused(key, dataset(shown(offer), changes={"titular.naturalidade_cidade": "Macondo"}))
    assert fields(error) == {"titular.naturalidade_cidade"}


@pytest.mark.parametrize(
    ("bank", "field", "longest"),
    [
        ("ipe", "documento.numero", 20),
        ("ipe", "documento.orgao_emissor", 20),
        ("aroeira", "documento.numero", 20),
        ("aroeira", "documento.orgao_emissor", 20),
        ("sucupira", "documento.numero", 20),
        ("sucupira", "documento.orgao_emissor", 20),
        ("sucupira", "titular.nacionalidade", 60),
        ("peroba", "titular.nacionalidade", 60),
    ],
)
def test_a_text_longer_than_the_bank_takes_it_is_named(
    key: str, partner: Partner, bank: str, field: str, longest: int
) -> None:
    offer = an_offer(partner, bank)
    assert fields(refused(key, dataset(shown(offer), changes={field: "x" * (longest + 1)}))) == {field}
    # Only other faults are named.
    error = refused(key, dataset(shown(offer), OTHER_CPF, changes={field: "x" * longest}))
    assert fields(error) == {"titular.cpf"}


@pytest.mark.parametrize("field", ["documento.numero", "documento.orgao_emissor", "vinculo.matricula"])
def test_a_text_may_be_as_long_as_any_other_where_the_bank_has_no_rule(key: str, partner: Partner, field: str) -> None:
    offer = an_offer(partner, "jatoba")
    error = refused(key, dataset(shown(offer), OTHER_CPF, changes={field: "x" * 120}))
    assert fields(error) == {"titular.cpf"}


# --- the offer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bank", ["outro", "peroba"])
def test_a_bank_unknown_or_outside_the_contract_is_a_404(key: str, partner: Partner, bank: str) -> None:
    offer = an_offer(partner, "peroba")
    partner.allow_only(["ipe"])
    response = post(key, dataset({**shown(offer), "provider": bank}))
    assert response.status_code == 404
    assert response.json() == error_body("not_found", "Recurso não encontrado.")


@pytest.mark.parametrize("offer_id", ["x", "1f0c9f0e-7f0a-4c0e-9a53-0a4f3a3f9b11", "z" * 36])
def test_an_unknown_offer_is_named(key: str, offer: Offer, offer_id: str) -> None:
    error = refused(key, dataset({**shown(offer), "offerId": offer_id}))
    assert fields(error) == {"offer_ref.offer_id"}


def test_another_partners_offer_does_not_resolve(offer: Offer) -> None:
    _, theirs = issue_key(PartnerFactory(providers=["ipe"]))
    for named in (str(offer.pk), offer.native_offer_id):
        error = refused(theirs, dataset({**shown(offer), "offerId": named}))
        assert fields(error) == {"offer_ref.offer_id"}


def test_another_banks_offer_does_not_resolve(key: str, partner: Partner, offer: Offer) -> None:
    error = refused(key, dataset({**shown(offer), "provider": "jatoba"}))
    assert fields(error) == {"offer_ref.offer_id"}


def test_a_native_id_that_names_two_offers_does_not_resolve(key: str, partner: Partner, offer: Offer) -> None:
    an_offer(partner, "ipe", native_offer_id=offer.native_offer_id)
    error = refused(key, dataset({**shown(offer), "offerId": offer.native_offer_id}))
    assert fields(error) == {"offer_ref.offer_id"}


def test_an_earlier_native_id_that_names_two_offers_does_not_resolve(key: str, partner: Partner, offer: Offer) -> None:
    """Neither if it is another offer's newest identifier, nor if it is an earlier identifier of both."""
    for names in ({"native_offer_id": "N-1"}, {"earlier_native_ids": ["N-1"]}):
        Offer.objects.filter(pk=offer.pk).update(earlier_native_ids=["N-0", "N-1"])
        other = an_offer(partner, "ipe", **names)
        error = refused(key, dataset({**shown(offer), "offerId": "N-1"}, changes={"documento": LEFT_OUT}))
        assert fields(error) == {"offer_ref.offer_id", *DOCUMENT}
        other.delete()
        error = refused(key, dataset({**shown(offer), "offerId": "N-1"}, changes={"documento": LEFT_OUT}))
        assert fields(error) == DOCUMENT


def test_an_earlier_native_id_is_of_one_partner_at_one_bank(key: str, partner: Partner, offer: Offer) -> None:
    Offer.objects.filter(pk=offer.pk).update(earlier_native_ids=["N-1"])
    _, theirs = issue_key(PartnerFactory(providers=["ipe"]))
    for caller, provider in ((theirs, "ipe"), (key, "jatoba")):
        error = refused(caller, dataset({"provider": provider, "offerId": "N-1"}))
        assert fields(error) == {"offer_ref.offer_id"}


def test_another_holders_cpf_is_named(key: str, offer: Offer) -> None:
    assert fields(refused(key, dataset(shown(offer), OTHER_CPF))) == {"titular.cpf"}


def test_everything_about_bank_and_offer_is_named_at_once(key: str, offer: Offer) -> None:
    changes = {"documento": LEFT_OUT, "recebimento": pix("cpf", FULL_FLOW)}
    error = refused(key, dataset(shown(offer), OTHER_CPF, changes=changes))
    assert fields(error) == {"titular.cpf", "recebimento.pix.chave", *DOCUMENT}


def test_faults_of_form_offer_and_bank_are_named_in_one_round(key: str, offer: Offer) -> None:
    """Before the fix, one bad phone hid what else the bank requires: each request reported only the next fault."""
    changes = {"contato.telefone": "1", "documento": LEFT_OUT}
    error = refused(key, dataset(shown(offer), OTHER_CPF, changes=changes))
    assert [detail["field"] for detail in error["details"]] == [
        "contato.telefone",
        "titular.cpf",
        "documento.numero",
        "documento.orgao_emissor",
        "documento.uf_emissor",
        "documento.data_emissao",
    ]


@pytest.mark.parametrize(
    ("bank", "changes", "named"),
    [
        # A field whose form is wrong is named once, and so are the blocks around it and the fields in it.
        ("ipe", {"documento.numero": 1, "titular.cpf": "1"}, {"documento.numero", "titular.cpf"}),
        ("ipe", {"documento": []}, {"documento"}),
        ("cedro", {"referencias": [{"nome": "João Souza", "telefone": "1"}]}, {"referencias.0.telefone"}),
        ("peroba", {"recebimento": pix("email", "x")}, {"recebimento.pix.chave", "recebimento.conta_bancaria"}),
        ("ipe", {"recebimento": pix("cpf", "1")}, {"recebimento.pix.chave"}),
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
def test_a_fault_is_named_once(key: str, partner: Partner, bank: str, changes: dict[str, Any], named: set[str]) -> None:
    assert fields(refused(key, dataset(shown(an_offer(partner, bank)), changes=changes))) == named


@pytest.mark.parametrize("bank", registry.names())
def test_every_field_alone_may_be_wrong_at_every_bank(key: str, partner: Partner, bank: str) -> None:
    """A bank's rules accept a dataset without any one of its parts, and raise nothing."""
    offer = shown(an_offer(partner, bank))
    for block, inner in dataset(offer).items():
        for field in [block, *(f"{block}.{name}" for name in (inner if isinstance(inner, dict) else ()))]:
            if not field.startswith("offer_ref"):
                error = refused(key, dataset(offer, changes={field: [[]]}))
                assert all(name.startswith(field) for name in fields(error)), error


def test_of_a_bank_outside_the_contract_only_the_form_is_checked(key: str, partner: Partner) -> None:
    offer = an_offer(partner, "ipe")
    partner.allow_only(["jatoba"])
    error = refused(key, dataset(shown(offer), OTHER_CPF, changes={"documento": LEFT_OUT, "contato.telefone": "1"}))
    assert fields(error) == {"contato.telefone"}
    assert post(key, dataset(shown(offer), changes={"documento": LEFT_OUT})).status_code == 404


@pytest.mark.parametrize(
    ("bank", "field", "value"),
    [
        ("ipe", "documento.numero", "1" * 21),
        ("aroeira", "titular.naturalidade_cidade", "Macondo"),
        ("cedro", "referencias", [{"nome": "João Souza", "telefone": "11911112222"}]),
        ("peroba", "recebimento", pix("email", "maria@example.com")),
        ("sucupira", "titular.nacionalidade", "x" * 61),
    ],
)
def test_the_banks_rules_are_applied_where_the_offer_is_unknown(
    key: str, partner: Partner, bank: str, field: str, value: Any
) -> None:
    error = refused(key, dataset({"provider": bank, "offerId": "unknown"}, changes={field: value}))
    named = {"recebimento.pix", "recebimento.conta_bancaria"} if field == "recebimento" else {field}
    assert (error["field"], fields(error)) == ("offer_ref.offer_id", {"offer_ref.offer_id", *named})


def test_before_the_holder_authorized_it_is_the_offer_that_is_at_fault(key: str, partner: Partner) -> None:
    offer = an_offer(partner, "peroba")
    Step.objects.create(
        partner=partner,
        query=offer.query,
        provider="peroba",
        cpf_index=offer.cpf_index,
        type="whatsapp_link",
        detail="",
        reference="step-1",
        opened_at=timezone.now() + timedelta(seconds=1),
        expires_at=timezone.now() + timedelta(hours=1),
    )
    error = refused(key, dataset(shown(offer)))
    assert fields(error) == {"offer_ref.offer_id"}


# --- the route's own --------------------------------------------------------------------------------------------


def test_without_a_key_it_is_a_401(db: None) -> None:
    response = DjangoClient().post(ROUTE, "{}", content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (401, "unauthorized")


def test_put_is_a_405(key: str) -> None:
    response = DjangoClient(headers={"X-Partner-Api-Key": key}).put(ROUTE, "{}", content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")


def test_a_form_is_a_415(key: str) -> None:
    response = DjangoClient(headers={"X-Partner-Api-Key": key}).post(ROUTE, {"titular": "x"})
    assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")
