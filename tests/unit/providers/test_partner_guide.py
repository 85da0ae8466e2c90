"""The partner guide names each bank where partners look up how banks differ."""

import re
from pathlib import Path

import pytest

from providers import registry
from providers.bank import Bank

PAGES = Path(__file__).resolve().parents[3] / "docs" / "guia"
GUIDE = "\n".join(page.read_text("utf-8") for page in sorted(PAGES.glob("*.md")))


def table(header: str) -> dict[str, str]:
    """The rows below the line `header`, by the bank in their first column."""
    rows = GUIDE.partition(f"\n{header}\n")[2].partition("\n\n")[0].splitlines()[1:]
    return {re.findall(r"`(\w+)`", row)[0]: row for row in rows}


def banks_in(text: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", text)) & set(registry.names())


def line_with(words: str) -> str:
    [line] = [line for line in GUIDE.splitlines() if words in line]
    return line


def names(*banks: type[Bank]) -> set[str]:
    return {bank.name for bank in banks}


def test_each_bank_that_wants_a_step_of_the_holder_is_told() -> None:
    told = table("| banco | passo | você recebe |")
    assert told.keys() == names(*(bank for bank in registry.BANKS if bank.check is not Bank.check))


@pytest.mark.parametrize("bank", [bank for bank in registry.BANKS if bank.required], ids=lambda bank: bank.name)
def test_each_field_that_a_bank_needs_is_told(bank: type[Bank]) -> None:
    row = table("| banco | também |")[bank.name]
    fields = [field for field in bank.required if not ("`documento` inteiro" in row and field.startswith("documento."))]
    untold = [field for field in fields if not re.search(rf"[`.]{field.rpartition('.')[2]}`", row)]
    assert untold == []


def test_each_bank_that_makes_no_offer_without_a_location_is_told() -> None:
    told = banks_in(line_with("não faz oferta sem `geolocation`"))
    assert told == names(*(bank for bank in registry.BANKS if "geolocation" in bank.needed_evidence))


def test_each_bank_that_may_pay_otherwise_than_requested_is_told() -> None:
    told = table("| banco | pedido | pago |")
    assert told.keys() == names(*(bank for bank in registry.BANKS if "disbursement" in vars(bank)))


def test_each_bank_that_cancels_is_told() -> None:
    told = banks_in(line_with("cancela uma proposta"))
    assert told == names(*(bank for bank in registry.BANKS if bank.cancels()))


def test_each_bank_that_would_make_a_second_contract_is_told() -> None:
    told = banks_in(line_with("fariam um segundo contrato"))
    assert told == names(*(bank for bank in registry.BANKS if not bank.deduplicates))
