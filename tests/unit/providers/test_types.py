"""Offers and proposals stay within the contract's and the database's limits, whatever a bank sends."""

from dataclasses import fields, replace
from decimal import Decimal
from typing import Any

import pytest

from consultas.models import Offer
from proposals.models import Proposal
from providers.errors import ProviderRejected
from providers.types.proposal import BankProposal
from providers.types.query import ActionType, BankAction, BankOffer, BankResult, Employment, QueryStatus, StepOutcome
from tests.providers.samples import OFFER

EMPLOYER = Employment("100200", "11222333000181", "Metalúrgica Aurora Ltda")


@pytest.mark.parametrize("amount", ["loan_value", "installment_value", "total_amount"])
@pytest.mark.parametrize("nothing", ["0.00", "0.004", "-5.00"])
def test_an_offer_of_nothing_is_left_out_and_the_others_stand(amount: str, nothing: str) -> None:
    empty = replace(OFFER, **{amount: Decimal(nothing)})
    assert BankResult.answer([empty, OFFER], [EMPLOYER]).offers == (OFFER,)
    alone = BankResult.answer([empty], [EMPLOYER])
    assert (alone.status, alone.offers) == (QueryStatus.NO_OFFERS, ())


def test_a_banks_remark_beside_its_offers_is_no_reason_for_having_none() -> None:
    """Before the fix, a partner read reasons for a refusal beside offers, because peroba and others use one key for
    both."""
    assert BankResult.answer([OFFER], [EMPLOYER], ["Consulta realizada."]).reasons == ()
    assert BankResult.answer([], [], ["Sem margem."]).reasons == ("Sem margem.",)


LONG = "não há margem " * 100


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (
            "Margem insuficiente: R$ 0,00 < R$ 50,00 e idade > 75",
            "Margem insuficiente: R$ 0,00 < R$ 50,00 e idade > 75",
        ),
        ("<b>Recusado</b><script>alert(1)</script>", "Recusado alert(1)"),
        ("<!DOCTYPE html>\r\n<p class='x'>Recusado\x00\x1b[31m\u202e</p>", "Recusado [31m"),
        (LONG, LONG[:299].rstrip() + "…"),
    ],
)
def test_a_banks_words_are_one_line_of_plain_text(words: str, read: str) -> None:
    assert ProviderRejected(words).message == read
    assert BankResult.answer([], [], [words]).reasons == (read,)
    assert BankResult.ended(StepOutcome.REFUSED, words).reasons == (read,)
    assert len(read) <= 300


def test_words_that_say_nothing_are_none() -> None:
    assert ProviderRejected("<br/>\n").message == "O banco recusou a solicitação."
    assert BankResult.answer([], [], ["<br/>\n", "", None]).reasons == ()


def test_amounts_come_in_cents_and_rates_with_six_decimals() -> None:
    offer = replace(OFFER, loan_value=Decimal("1000.005"), interest_rate=Decimal("1.98765432"))
    assert (str(offer.loan_value), str(offer.interest_rate)) == ("1000.01", "1.987654")
    assert Employment("1", "2", "3", margin=Decimal("10.999")).margin == Decimal("11.00")
    links = [Employment("100", cnpj, "Um") for cnpj in ("1", "2")]  # a number is one employer's own
    assert [*BankResult.answer([], links).employments] == links
    assert replace(PAID, disbursed_amount=Decimal("10.999")).disbursed_amount == Decimal("11.00")


STEP = BankAction(ActionType.CHAT_LINK, None, "", "R-1")
PAID = BankProposal("N-1", "paid", None, contract_number="x" * 200, disbursed_amount=Decimal("9999999999.99"))


@pytest.mark.parametrize(
    ("told", "change"),
    [
        (OFFER, {"loan_value": Decimal("1E400")}),
        (OFFER, {"total_amount": Decimal("NaN")}),
        (OFFER, {"installment_value": Decimal(10**12)}),
        (OFFER, {"interest_rate": Decimal(10_000)}),
        (OFFER, {"installments": 0}),
        (OFFER, {"installments": 40_000}),
        (OFFER, {"employer_name": "x" * 201}),
        (OFFER, {"employer_name": "a\0b"}),
        (OFFER, {"table_code": "x" * 61}),
        (OFFER, {"loan_value": Decimal("999999999999.995")}),
        (OFFER, {"interest_rate": Decimal("9999.9999996")}),
        *((OFFER, {"native": {"portfolio": text}}) for text in ("a\0b", ["a\0b"], {"a\0b": 1})),
        *((STEP, {"reference": text}) for text in ("x" * 201, "a\0b")),
        (EMPLOYER, {"margin": Decimal("1E400")}),
        *((PAID, {name: text}) for name in ("native_id", "contract_number") for text in ("x" * 201, "a\0b")),
        *((PAID, {"native_status": text}) for text in ("a\0b", "\0")),
        *((PAID, {"disbursed_amount": Decimal(text)}) for text in ("1e10", "-1e10", "NaN", "Infinity")),
    ],
)
def test_what_could_not_be_kept_is_the_banks_fault(told: Any, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="beyond the limits"):
        replace(told, **change)


def test_the_texts_fit_their_columns() -> None:
    texts = [(OFFER, Offer, field.name) for field in fields(BankOffer) if field.type == "str"]
    for told, model, name in (*texts, (PAID, Proposal, "native_id")):
        longest = model._meta.get_field(name).max_length
        assert len(getattr(replace(told, **{name: "x" * longest}), name)) == longest
        with pytest.raises(ValueError, match="beyond the limits"):
            replace(told, **{name: "x" * (longest + 1)})
