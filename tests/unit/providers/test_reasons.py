"""Reasons as data: the codes, each bank's words, failures, and the guide's table."""

import re
from pathlib import Path

import pytest

from foundation.shapes import described
from partners import schema
from proposals import reasons
from providers import registry
from providers.bank import Bank
from providers.errors import OfferExpired, ProviderRejected
from providers.reasons import MEANINGS, Reason, ReasonCode, ReasonSource, folded
from providers.types import given
from providers.types.proposal import BankProposal, ProposalStatus
from providers.types.query import BankResult, QueryStatus, StepOutcome
from providers.words import data_of
from simulator.bank import Bank as SimulatedBank
from simulator.banks import BANKS as SIMULATED_BANKS
from simulator.catalogue import NO_OFFERS
from simulator.lab import REASONS

DOCS = Path(__file__).resolve().parents[3] / "docs"
GUIDE = (DOCS / "guia" / "erros.md").read_text("utf-8").partition("## Motivos\n")[2]
#: The sentences by which every simulated bank refuses holders of the catalogue, and each CPF that it does not have.
#: A manual may have no sentence for the other codes.
CATALOGUE = {
    "margem consignavel insuficiente": ReasonCode.NO_MARGIN,
    "ja existe contrato em andamento para este cliente": ReasonCode.EXISTING_CONTRACT,
    NO_OFFERS.reason: ReasonCode.CREDIT_POLICY,
}
SOURCES = {"bank": "banco", "holder": "titular", "partner": "parceiro", "service": "serviço"}


def test_the_guides_table_is_the_enumeration() -> None:
    lines = GUIDE.splitlines()
    table = lines[lines.index(next(line for line in lines if line.startswith("| ---"))) + 1 :]
    rows = [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in table if line.startswith("|")]
    assert rows == [
        (f"`{code}`", SOURCES[told.source], told.meaning, told.advice, "sim" if told.retryable else "não")
        for code, told in MEANINGS.items()
    ]
    assert set(MEANINGS) == set(ReasonCode)


def test_partners_are_told_that_codes_may_come() -> None:
    """Before the fix, the guide called the list closed, and clients refused a code that they did not know."""
    for told in (GUIDE, str(described(schema.Reason)().fields["code"].help_text)):
        assert "códigos podem surgir: trate um que você não conhece como `other`" in told
        assert "fechada" not in told


@pytest.mark.parametrize("name", registry.names())
def test_a_banks_words_are_those_of_its_manual(name: str) -> None:
    bank = given(registry.get(name))
    manual = (DOCS / "banks" / f"{name}.md").read_text("utf-8").partition("## Words of refusal")[2]
    documented = re.findall(r"^\| `([^`]+)` \|", manual, re.MULTILINE)
    assert data_of(name).reasons.items() <= bank.reasons.items()
    assert sorted(data_of(name).reasons) == sorted(folded(words) for words in documented)
    assert bank.reasons.items() >= CATALOGUE.items()


@pytest.mark.parametrize("simulated", SIMULATED_BANKS, ids=lambda bank: bank.name)
def test_what_the_laboratory_has_a_bank_say_is_known_by_its_adapter(simulated: type[SimulatedBank]) -> None:
    bank = given(registry.get(simulated.name))
    assert set(REASONS) >= {"no_margin", "existing_contract", "credit_policy", "invalid_account"}
    told = {code: bank.reason(words).code for code, words in simulated.refusals.items()}
    assert told == {code: ReasonCode(code) for code in told}
    assert {folded(words) for words in simulated.refusals.values()} <= set(data_of(bank.name).reasons)
    assert set(told) == set(data_of(bank.name).reasons.values()), "one sentence for each code of the adapter"


@pytest.mark.parametrize("name", registry.names())
def test_words_are_known_in_any_case_and_unknown_ones_are_shown(name: str) -> None:
    bank = given(registry.get(name))
    known = bank.reason("Margem  consignável insuficiente.")
    assert known == Reason(ReasonCode.NO_MARGIN, ReasonSource.BANK, "Margem consignável insuficiente.", False)
    unknown = bank.reason("Chuva em Marte.")
    assert (unknown.code, unknown.message) == (ReasonCode.OTHER, "Chuva em Marte.")


@pytest.mark.parametrize(
    ("result", "codes"),
    [
        (BankResult(QueryStatus.OK), []),
        (BankResult(QueryStatus.PENDING, step=StepOutcome.OPEN), []),
        (BankResult(QueryStatus.NO_OFFERS), ["other"]),
        (BankResult(QueryStatus.NO_OFFERS, reasons=("Um.", "Dois.")), ["other", "other"]),
        (BankResult.ended(StepOutcome.REFUSED, "O titular disse não."), ["authorization_refused"]),
        (BankResult.ended(StepOutcome.EXPIRED, None), ["authorization_expired"]),
    ],
)
def test_why_there_is_no_offer(result: BankResult, codes: list[str]) -> None:
    assert [reason.code for reason in Bank.reasons_for(result)] == codes


@pytest.mark.parametrize(
    ("before", "after", "by_partner", "code", "source"),
    [
        ("awaiting_signature", "rejected", False, "signature_refused", "holder"),
        ("signed", "rejected", False, "averbation_refused", "bank"),
        ("in_analysis", "rejected", False, "credit_policy", "bank"),
        ("created", "rejected", False, "other", "bank"),
        ("awaiting_signature", "expired", False, "signature_expired", "holder"),
        ("created", "cancelled", True, "cancelled", "partner"),
        ("created", "cancelled", False, "cancelled", "bank"),
        ("signed", "disbursed", False, None, None),
    ],
)
def test_why_a_proposal_ended(before: str, after: str, by_partner: bool, code: str | None, source: str | None) -> None:
    reason = reasons.of_move(before, ProposalStatus(after), by_partner=by_partner, word="NEGADA")
    assert (reason and reason.code, reason and reason.source) == (code, source)
    assert (reason is not None and "NEGADA" in reason.message) is (code == "other")


@pytest.mark.parametrize(
    ("status", "words", "code"),
    [
        (ProposalStatus.REJECTED, "Margem consignavel insuficiente.", "no_margin"),
        (ProposalStatus.REJECTED, "Chuva em Marte.", "other"),
        (ProposalStatus.REJECTED, "\0", None),
        (ProposalStatus.REJECTED, None, None),
        (ProposalStatus.CANCELLED, "Margem consignavel insuficiente.", None),
        (None, "Margem consignavel insuficiente.", None),
    ],
)
def test_why_a_bank_refused_what_it_had_taken(
    status: ProposalStatus | None, words: str | None, code: str | None
) -> None:
    found = reasons.of_refused("ipe", BankProposal("1", "refused", status, reason=words))
    assert (found and found.code) == code


def test_why_a_submission_was_refused() -> None:
    name = registry.names()[0]
    refused = ProviderRejected("Ja existe contrato em andamento para este cliente.").as_dict()
    known = reasons.of_refusal(name, {**refused, "native_code": None})
    assert (known.code, known.source) == ("existing_contract", "bank")
    assert reasons.of_refusal(name, OfferExpired().as_dict()).code == "offer_expired"


# --- a bank that documents codes


class Coded(Bank):
    reasons = {"c-07": ReasonCode.NO_MARGIN, "idade": ReasonCode.AGE_LIMIT}


@pytest.mark.parametrize(
    ("words", "native", "code"),
    [
        ("Saldo curto.", "C-07", "no_margin"),
        ("Idade.", "C-07", "no_margin"),
        ("Idade.", "C-99", "age_limit"),
        ("Idade.", None, "age_limit"),
        ("Saldo curto.", "C-99", "other"),
    ],
)
def test_a_code_of_the_bank_goes_before_its_sentence(words: str, native: str | None, code: str) -> None:
    """Before the fix, only sentences were known, and a bank that documents codes had to have sentences invented."""
    reason = Coded.reason(words, native)
    assert (reason.code, reason.message) == (code, words)


def test_the_codes_of_a_result_stay_with_their_sentences() -> None:
    result = BankResult.answer((), (), [("C-07", " <b>Saldo</b> curto. "), "Idade.", None])
    assert [(reason.code, reason.message) for reason in Coded.reasons_for(result)] == [
        ("no_margin", "Saldo curto."),
        ("age_limit", "Idade."),
    ]


def test_a_refused_proposal_and_a_refused_submission_keep_the_banks_code() -> None:
    reported = BankProposal("1", "NEGADA", ProposalStatus.REJECTED, reason="Campo.", reason_code="REQ-003")
    refused = reasons.of_refused("imbuia", reported)
    submitted = reasons.of_refusal(
        "imbuia", {"code": "provider_rejected", "message": "Campo.", "native_code": "REQ-003"}
    )
    assert refused == submitted == Reason.of(ReasonCode.DATA_MISMATCH, "Campo.")
