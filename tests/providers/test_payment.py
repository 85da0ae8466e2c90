"""Banks that tell what follows the signature: averbation, the payment, and the holder's withdrawal."""

from datetime import UTC, datetime, timedelta

import pytest

from providers import registry
from providers.types import given
from providers.types.proposal import BankProposal, ProposalStatus, Stage, StageReport
from simulator.ledger import AVERBATION_PAUSE_S, FIRST_FAILURE_S
from tests.processes import Simulator
from tests.providers.conftest import Connect
from tests.providers.samples import FULL_FLOW, HOLDERS, a_query, a_submission


@pytest.mark.parametrize("name", ["ipe", "jatoba", "sucupira"])
def test_a_paid_proposal_tells_number_moment_and_amount(connect: Connect, simulator: Simulator, name: str) -> None:
    bank = connect(name)
    offer = bank.query(a_query()).offers[0]
    submitted = bank.submit(a_submission(offer))
    assert submitted.contract_number is None
    native_id = submitted.native_id
    number = bank.formalize(native_id, None).contract_number
    assert number
    simulator.complete(FULL_FLOW, name, "signature")
    signed = bank.status(native_id)
    assert (signed.contract_number, signed.disbursed_at, signed.disbursed_amount) == (number, None, None)
    simulator.advance(6)
    paid = bank.status(native_id)
    assert (paid.contract_number, paid.disbursed_amount) == (number, offer.loan_value)
    assert abs(given(paid.disbursed_at) - datetime.now(UTC)) < timedelta(minutes=1)


def signed(connect: Connect, simulator: Simulator, name: str, cpf: str = FULL_FLOW) -> BankProposal:
    """A proposal at the bank that its holder has just signed."""
    bank = connect(name)
    submitted = bank.submit(a_submission(bank.query(a_query(cpf)).offers[0], cpf=cpf))
    simulator.lab(cpf, "proposals/advance", status="signed", provider=name)
    return bank.status(submitted.native_id)


def test_averbation_that_fails_is_told_with_the_banks_words(connect: Connect, simulator: Simulator) -> None:
    proposal = signed(connect, simulator, "canela", HOLDERS["averbation_retried"])
    bank, since = connect("canela"), given(proposal.stage).since
    for after, words in (
        (FIRST_FAILURE_S + 1, "averbacao nao processada pela dataprev"),
        (AVERBATION_PAUSE_S, "margem em atualizacao na dataprev"),
    ):
        simulator.advance(after)
        told = bank.status(proposal.native_id).stage
        assert told == StageReport(Stage.AVERBATION, since, words, is_retried=True)
        assert bank.adapter.reason(words).code == "averbation_refused"
    simulator.advance(AVERBATION_PAUSE_S)
    succeeded = given(bank.status(proposal.native_id).stage)
    assert (succeeded.stage, succeeded.reason, given(succeeded.since) > given(since)) == (
        Stage.DISBURSEMENT,
        None,
        True,
    )
    simulator.advance(6)
    paid = bank.status(proposal.native_id)
    assert (paid.status, paid.stage) == (ProposalStatus.DISBURSED, None)


@pytest.mark.parametrize("name", registry.names())
def test_a_bank_that_says_so_tells_averbation_and_until_when_it_takes_withdrawals_and_that_one_happened(
    connect: Connect, simulator: Simulator, name: str
) -> None:
    proposal, bank = signed(connect, simulator, name), connect(name)
    assert (proposal.stage is not None) == (name in ("canela", "peroba"))
    if told := proposal.stage:
        assert told == StageReport(Stage.AVERBATION, told.since)
        assert abs(given(told.since) - datetime.now(UTC)) < timedelta(minutes=1)
    assert (proposal.withdrawal_until, proposal.withdrawn_at) == (None, None)
    simulator.advance(6)
    paid = bank.status(proposal.native_id)
    assert bank.adapter.tells_withdrawals == (name in ("ipe", "canela")) == (paid.withdrawal_until is not None)
    if not bank.adapter.tells_withdrawals:
        with pytest.raises(AssertionError, match="409"):
            simulator.lab(FULL_FLOW, "proposals/advance", status="withdrawn", provider=name)
        return
    today = datetime.now(UTC).date()
    assert given(paid.withdrawal_until) in (today + timedelta(days=7), today + timedelta(days=8))
    for _ in range(2):  # the second changes nothing
        simulator.lab(FULL_FLOW, "proposals/advance", status="withdrawn", provider=name)
    found = bank.status(proposal.native_id)
    assert (found.status, found.withdrawal_until) == (ProposalStatus.DISBURSED, paid.withdrawal_until)
    assert abs(given(found.withdrawn_at) - datetime.now(UTC)) < timedelta(minutes=1)
