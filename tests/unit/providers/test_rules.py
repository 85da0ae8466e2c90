"""Rules from a bank's facts: words that it lacks, texts that are too long for it, declined insurance."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from foundation.fields import TextField
from proposals.serializers import SubmissionRequest
from providers import rules
from providers.bank import Limits
from providers.banks.ipe import Ipe
from providers.types.proposal import BankSubmission
from providers.types.query import BankResult, Employment, QueryStatus
from providers.words import Words
from tests.providers.samples import BANK_ACCOUNT, OFFER, a_query, a_submission, changed_submission, pix_key

#: The texts of a submission that may have a length.
TEXTS = [
    f"{name}.{text}"
    for name, block in SubmissionRequest().fields.items()
    if name in ("titular", "documento", "endereco", "vinculo")
    for text, field in block.fields.items()
    if type(field) is TextField
]


class Narrow(Ipe):
    """A bank without salary accounts, random PIX keys, separated holders and chat messages, with short fields."""

    words = Words(
        account_types={"corrente": "checking_account", "poupanca": "savings_account"},
        pix_keys={"cpf": "document_number"},
        marital_statuses={"casado": "married"},
        channels={"sms": "sms"},
    )
    limits = Limits(texts={"titular.nome": 20, "endereco.cidade": 5})


def narrow(**changes: dict[str, Any]) -> BankSubmission:
    return changed_submission(a_submission(OFFER), endereco={"cidade": "Bauru"}, **changes)


def by_pix(kind: str, key: str) -> dict[str, Any]:
    return {"recebimento": {"conta_bancaria": None, **pix_key(kind, key)}}


SEPARATED = {"titular": {"estado_civil": "separado"}}
SALARY = {"recebimento": {"conta_bancaria": {**BANK_ACCOUNT, "tipo_conta": "salario"}}}


@pytest.mark.parametrize(
    ("words", "told", "named"),
    [
        ({}, {"evidencia": {"tipo_envio": "sms"}}, []),
        ({}, by_pix("cpf", "90000000175"), []),
        (
            {},
            {**SALARY, **SEPARATED, "evidencia": {"tipo_envio": "whatsapp"}},
            ["recebimento.conta_bancaria.tipo_conta", "titular.estado_civil", "evidencia.tipo_envio"],
        ),
        ({}, by_pix("aleatoria", "0"), ["recebimento.pix.tipo_chave"]),
        # A bank that pays only one way, and one that asks no marital status.
        ({"pix_keys": {}}, by_pix("cpf", "0"), ["recebimento.pix"]),
        ({"account_types": {}}, {}, ["recebimento.conta_bancaria"]),
        ({"marital_statuses": {}}, SEPARATED, []),
    ],
)
def test_words_that_the_bank_has_not_are_named_by_their_fields(
    words: dict[str, Any], told: dict[str, Any], named: list[str]
) -> None:
    bank = type("Other", (Narrow,), {"words": structs.replace(Narrow.words, **words)})
    assert [fault.field for fault in rules.submission_faults(bank, narrow(**told))] == named


def test_a_text_that_is_too_long_is_named_with_the_banks_length() -> None:
    long = narrow(titular={"nome": "Maria da Silva dos Santos"})
    [fault] = rules.submission_faults(Narrow, long)
    assert (fault.field, fault.message) == ("titular.nome", "Este banco aceita no máximo 20 caracteres neste campo.")


def test_every_text_of_a_submission_can_have_a_length() -> None:
    every = type("Every", (Narrow,), {"limits": Limits(texts=dict.fromkeys([*TEXTS, "contato.email"], 0))})
    told = {fault.field for fault in rules.submission_faults(every, a_submission(OFFER))}
    # The sample submission has no complement.
    assert told == {*TEXTS, "contato.email"} - {"endereco.complemento"}


@pytest.mark.parametrize(
    ("insured", "status", "shown", "reasons"),
    [
        ([True], QueryStatus.NO_OFFERS, 0, (rules.ONLY_INSURED,)),
        ([True, False], QueryStatus.OK, 1, ()),
        ([False], QueryStatus.OK, 1, ()),
    ],
)
def test_declined_insurance_is_in_no_offer(
    insured: list[bool], status: QueryStatus, shown: int, reasons: tuple[str, ...]
) -> None:
    employer = Employment(OFFER.registration, "11222333000181", "Aurora")
    told = BankResult.answer([replace(OFFER, with_insurance=each) for each in insured], [employer])
    result = rules.without_declined_insurance(a_query(with_insurance=False), told)
    assert (result.status, len(result.offers), result.reasons) == (status, shown, reasons)
    assert rules.without_declined_insurance(a_query(with_insurance=True), told) == told
