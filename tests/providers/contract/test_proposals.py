"""Proposals at every bank, from the submission to the payment."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest
from structlog.testing import capture_logs

from foundation.errors import InvalidInput, InvalidState, NotFound, NotSupported
from providers.errors import ProviderError, ProviderRejected
from providers.operation import BankClient
from providers.types import given
from providers.types.proposal import BankProposal, ProposalStatus, Stage, StageReport
from providers.types.query import BankOffer
from tests.processes import Simulator
from tests.providers.conftest import at, between
from tests.providers.manuals import banks_with
from tests.providers.samples import FULL_FLOW, SIMULATED, a_submission, changed_submission
from tests.receiver import Received, Reply

MESSAGE = re.compile(r'<li class="message (\w+)" data-bank="(\w+)"')


def test_a_proposal_from_submission_to_disbursement(
    bank: BankClient, offer: BankOffer, submitted: BankProposal, simulator: Simulator
) -> None:
    """With number, moment and amount of the payment, at the banks that tell them."""
    tells = bank.name in banks_with("payment")
    assert submitted.status in (ProposalStatus.CREATED, ProposalStatus.IN_ANALYSIS, ProposalStatus.AWAITING_SIGNATURE)
    assert given(bank.find("reference-1")).native_id == submitted.native_id
    assert submitted.contract_number is None
    if submitted.status is ProposalStatus.IN_ANALYSIS:
        simulator.complete(FULL_FLOW, bank.name, "desk")
    formalized = bank.formalize(submitted.native_id, None)
    assert formalized.status is ProposalStatus.AWAITING_SIGNATURE
    assert str(formalized.signature_url).startswith(simulator.url)
    assert bank.formalize(submitted.native_id, None).signature_url == formalized.signature_url
    assert bank.status(submitted.native_id).status is ProposalStatus.AWAITING_SIGNATURE
    number = formalized.contract_number
    assert bool(number) is tells
    simulator.complete(FULL_FLOW, bank.name, "signature")
    signed = bank.status(submitted.native_id)
    assert signed.status is ProposalStatus.SIGNED
    assert (signed.contract_number, signed.disbursed_at, signed.disbursed_amount) == (number, None, None)
    simulator.advance(6)
    paid = bank.status(submitted.native_id)
    assert paid.status is ProposalStatus.DISBURSED
    assert (paid.contract_number, paid.disbursed_amount) == (number, offer.loan_value if tells else None)
    assert (paid.disbursed_at is not None) is tells
    assert paid.disbursed_at is None or abs(paid.disbursed_at - datetime.now(UTC)) < timedelta(minutes=1)
    with pytest.raises((InvalidState, ProviderRejected)):  # a manual may lack a word for a state that forbids a call
        bank.formalize(submitted.native_id, None)


def test_a_bank_that_says_so_tells_averbation_and_until_when_it_takes_withdrawals_and_that_one_happened(
    bank: BankClient, submitted: BankProposal, simulator: Simulator
) -> None:
    simulator.lab(FULL_FLOW, "proposals/advance", status="signed", provider=bank.name)
    signed = bank.status(submitted.native_id)
    assert (signed.stage is not None) is (bank.name in banks_with("averbation"))
    if told := signed.stage:
        assert told == StageReport(Stage.AVERBATION, told.since)
        assert abs(given(told.since) - datetime.now(UTC)) < timedelta(minutes=1)
    assert (signed.withdrawal_until, signed.withdrawn_at) == (None, None)
    simulator.advance(6)
    paid = bank.status(submitted.native_id)
    tells_withdrawals = bank.name in banks_with("withdrawal")
    assert bank.adapter.tells_withdrawals is tells_withdrawals is (paid.withdrawal_until is not None)
    if not tells_withdrawals:
        with pytest.raises(AssertionError, match="409"):
            simulator.lab(FULL_FLOW, "proposals/advance", status="withdrawn", provider=bank.name)
        return
    today = datetime.now(UTC).date()
    assert given(paid.withdrawal_until) in (today + timedelta(days=7), today + timedelta(days=8))
    for _ in range(2):  # the second changes nothing
        simulator.lab(FULL_FLOW, "proposals/advance", status="withdrawn", provider=bank.name)
    found = bank.status(submitted.native_id)
    assert (found.status, found.withdrawal_until) == (ProposalStatus.DISBURSED, paid.withdrawal_until)
    assert abs(given(found.withdrawn_at) - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_bank_that_refuses_after_the_submission_says_why_in_its_own_words(
    bank: BankClient, submitted: BankProposal, simulator: Simulator
) -> None:
    """The laboratory makes it refuse. The state in which a proposal waited says less."""
    assert submitted.reason is None
    code, words = next(iter(SIMULATED[bank.name].refusals.items()))
    simulator.lab(FULL_FLOW, "proposals/advance", status="rejected", provider=bank.name, reason=code)
    found = bank.status(submitted.native_id)
    assert (found.status, found.reason) == (ProposalStatus.REJECTED, words)
    assert bank.adapter.reason(words).code == code


@pytest.mark.parametrize(("channel", "told_by"), [("sms", "sms"), ("whatsapp", "chat")])
def test_the_signature_link_is_delivered_to_the_phone_once(
    bank: BankClient, approved: BankProposal, simulator: Simulator, channel: str, told_by: str
) -> None:
    if channel not in bank.adapter.words.channels:
        with pytest.raises(InvalidInput, match="não entrega o link"):
            bank.formalize(approved.native_id, channel)
        return
    url = bank.formalize(approved.native_id, channel).signature_url
    bank.formalize(approved.native_id, channel)
    phone = simulator.phone(FULL_FLOW)
    assert MESSAGE.findall(phone) == [(told_by, bank.name)]
    assert phone.count(f'href="{url}"') == 2  # in the message and beside the button


def test_the_channel_of_a_submission_is_kept_in_the_contracts_word(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    for channel in bank.adapter.words.channels:
        told = a_submission(offer, reference=f"reference-{channel}")
        bank.submit(changed_submission(told, evidencia={"tipo_envio": channel}))
    kept = {contract["channel"] for contract in simulator.contracts(bank.name)}
    assert kept in (set(bank.adapter.words.channels), {None})  # a manual may ask for the channel at formalize only


def test_a_submission_answered_with_what_can_not_be_kept_has_an_unknown_outcome(
    bank: BankClient, offer: BankOffer, submitted: BankProposal, simulator: Simulator
) -> None:
    def unkeepable(request: Received, reply: Reply) -> Reply:
        """Replaces the proposal's status word by NUL, which the database refuses. XML can't contain NUL: there the id
        gets too long."""
        if reply.body.startswith((b"{", b"[")):
            word = submitted.native_status.encode()
            return replace(reply, body=reply.body.replace(b'"' + word + b'"', b'"\\u0000"'))
        [*_, contract] = simulator.contracts(bank.name)
        return replace(reply, body=reply.body.replace(contract["contract"].encode(), b"9" * 201))

    with between(simulator, bank.name, unkeepable) as url, pytest.raises(ProviderError) as caught:
        at(bank.name, url).submit(a_submission(offer, reference="reference-2"))
    assert caught.value.sent is True
    with between(simulator, bank.name, unkeepable) as url, pytest.raises(ProviderError):
        at(bank.name, url).find("reference-2")


def test_a_repeated_reference_is_one_proposal_where_the_bank_sees_to_it(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    first, again = bank.submit(a_submission(offer)), bank.submit(a_submission(offer))
    number = len(simulator.contracts(bank.name))
    assert number == (1 if bank.adapter.deduplicates else 2)
    assert (first.native_id == again.native_id) is bank.adapter.deduplicates
    with capture_logs() as lines:
        found = bank.find("reference-1")
    assert found.native_id == first.native_id
    doubled = [line["count"] for line in lines if line["event"] == "bank_submission_doubled"]
    assert doubled == ([] if number == 1 else [2])


def test_the_signature_link_tells_its_end_and_is_then_replaced(
    bank: BankClient, approved: BankProposal, simulator: Simulator
) -> None:
    words = import_module(f"simulator.banks.{bank.name}").STATUS_WORDS
    first = bank.formalize(approved.native_id, None)
    assert first.native_status == words["awaiting_signature"]
    assert given(first.signature_expires_at).utcoffset() == timedelta(0)
    assert timedelta(days=29) < first.signature_expires_at - datetime.now(UTC) <= timedelta(days=30)
    assert bank.status(approved.native_id).signature_url == first.signature_url
    simulator.advance(31 * 24 * 3600)
    assert bank.status(approved.native_id).signature_url is None
    assert bank.formalize(approved.native_id, None).signature_url not in (None, first.signature_url)


@pytest.mark.parametrize("name", banks_with("issues_itself"))
def test_a_status_read_shows_the_contract_that_the_bank_issued_by_itself(
    bank: BankClient, submitted: BankProposal, simulator: Simulator
) -> None:
    words = import_module(f"simulator.banks.{bank.name}").STATUS_WORDS
    assert (submitted.status, submitted.native_status) == (ProposalStatus.CREATED, words["created"])
    simulator.advance(2)
    seen = bank.status(submitted.native_id)
    assert (seen.status, seen.native_status) == (ProposalStatus.AWAITING_SIGNATURE, words["awaiting_signature"])
    assert str(seen.signature_url).startswith(f"{simulator.url}/links/")
    assert timedelta(days=29) < given(seen.signature_expires_at) - datetime.now(UTC) <= timedelta(days=30, seconds=2)


def test_an_unknown_reference_is_none_and_an_unknown_proposal_not_found(bank: BankClient) -> None:
    assert bank.find("no-such/reference?x=1&y=ç") is None
    for call in (lambda: bank.status("no-such"), lambda: bank.formalize("no-such", None)):
        with pytest.raises(NotFound):
            call()


def test_cancel_works_where_it_is_supported(bank: BankClient, submitted: BankProposal) -> None:
    if not bank.adapter.cancels():
        with pytest.raises(NotSupported):
            bank.cancel(submitted.native_id, None)
    else:
        assert bank.cancel(submitted.native_id, "Desistiu.").status is ProposalStatus.CANCELLED
