"""Submissions that a bank or its rules refuse, and how the partner reads it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from decimal import Decimal
from html import unescape

import pytest

from foundation.errors import ApiError, InvalidInput, InvalidState
from foundation.fields import TEXT_LENGTH
from proposals.serializers import SubmissionRequest
from providers import rules
from providers.errors import BankFailure, OfferExpired, ProviderError, ProviderRejected
from providers.operation import BankClient
from providers.types import given
from providers.types.proposal import BankProposal, BankSubmission
from providers.types.query import BankOffer, QueryStatus, StepOutcome
from tests.processes import Simulator
from tests.providers.conftest import at, between, lenient
from tests.providers.manuals import manual_of
from tests.providers.samples import FULL_FLOW, OWING, SIMULATED, a_query, a_submission, changed_submission
from tests.receiver import Received, Reply
from tests.unit.providers.test_rules import TEXTS


def refused(simulator: Simulator, name: str, call: Callable[[BankClient], object]) -> tuple[ApiError, Reply]:
    """The error of a `call` that the bank refuses, and the answer by which it does so."""
    told: list[Reply] = []

    def keep(request: Received, reply: Reply) -> Reply:
        told.append(reply)
        return reply

    with between(simulator, name, keep) as url, pytest.raises(ApiError) as caught:
        call(at(name, url))
    return caught.value, told[-1]


def answered(simulator: Simulator, name: str, operation: str, reply: Reply) -> AbstractContextManager[str]:
    """The address of the bank that gives this answer to its newest call if that is this operation."""
    return between(
        simulator, name, lambda _, own: reply if simulator.calls(name)[-1]["operation"] == operation else own
    )


def test_what_forbids_a_call_on_a_proposal_refuses_a_submission_in_the_banks_own_words(
    bank: BankClient, offer: BankOffer, approved: BankProposal, simulator: Simulator
) -> None:
    bank.formalize(approved.native_id, None)
    simulator.complete(FULL_FLOW, bank.name, "signature", "refused")
    error, conflict = refused(simulator, bank.name, lambda asked: asked.formalize(approved.native_id, None))
    assert isinstance(error, InvalidState | ProviderRejected), "a manual may lack a word for such a state"
    assert not isinstance(error, InvalidState) or error.message == InvalidState.default_message
    with answered(simulator, bank.name, "submit", conflict) as url, pytest.raises(ProviderRejected) as caught:
        at(bank.name, url).submit(a_submission(offer, reference="reference-2"))
    assert caught.value.message != ProviderRejected.default_message
    assert caught.value.message in unescape(conflict.body.decode())


@pytest.mark.parametrize("name", OWING)
def test_a_step_that_is_owed_is_a_matter_of_the_offer_at_submit_only_and_not_refused(
    name: str, bank: BankClient, offer: BankOffer, submitted: BankProposal, simulator: Simulator
) -> None:
    query = a_query(OWING[name])
    action = given(bank.query(query).action)
    submission = a_submission(offer, OWING[name], reference="reference-2")
    error, owed = refused(simulator, name, lambda asked: asked.submit(submission))
    assert (type(error), error.field) == (InvalidInput, "offer_ref.offer_id")
    assert given(manual_of(name).step).unauthorized in error.message
    assert len(simulator.contracts(name)) == 1
    with answered(simulator, name, "formalize", owed) as url, pytest.raises((InvalidInput, ProviderError)) as caught:
        at(name, url).formalize(submitted.native_id, None)
    assert caught.value.field is None
    with answered(simulator, name, "poll", owed) as url:
        try:
            step = at(name, url).check(query, action.reference).step
        except (InvalidInput, BankFailure):  # then nothing is known about the step: it is checked again
            step = StepOutcome.OPEN
    assert step is StepOutcome.OPEN


def test_the_bank_refuses_a_submission_without_a_field_that_it_requires(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    for field in bank.adapter.required:
        whole, (block, _, part) = a_submission(offer), field.partition(".")
        without = changed_submission(whole, **{block: {part: None}}) if part else replace(whole, **{block: ()})
        with pytest.raises((ProviderRejected, ProviderError)):
            lenient(bank).submit(without)
    assert simulator.contracts(bank.name) == []


def test_the_bank_takes_a_submission_without_what_it_does_not_require(bank: BankClient, offer: BankOffer) -> None:
    required = bank.adapter.required
    bare = a_submission(offer)
    for block in ("titular", "documento", "endereco", "vinculo"):
        fields = SubmissionRequest().fields[block].fields.values()
        absent = [
            each.field_name for each in fields if not each.required and f"{block}.{each.field_name}" not in required
        ]
        bare = changed_submission(bare, **{block: dict.fromkeys(absent)})
    assert bank.submit(bare if "referencias" in required else replace(bare, referencias=())).native_id


def test_an_offer_that_expired_stays_expired_after_a_newer_query(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    """Before the fix, a newer query made the simulated aroeira accept the old offer's terms again."""
    [old, _] = bank.query(a_query(loan_value=Decimal(5000), installments=24)).offers
    simulator.lab(FULL_FLOW, "faults", provider=bank.name, fault="expired_offer")
    [new, _] = bank.query(a_query(loan_value=Decimal(4000), installments=24)).offers
    for expired in (offer, old):
        with pytest.raises(OfferExpired):
            bank.submit(a_submission(expired))
    assert bank.submit(a_submission(new)).native_id
    assert len(simulator.contracts(bank.name)) == 1


def test_a_submission_is_refused_for_the_reason_that_the_laboratory_ordered(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    ordered = {"invalid_account", "data_mismatch", "existing_contract"} & SIMULATED[bank.name].refusals.keys()
    assert "existing_contract" in ordered
    for code in sorted(ordered):
        simulator.lab(FULL_FLOW, "faults", provider=bank.name, fault="reject_submit", reason=code)
        with pytest.raises(ProviderRejected) as refused:
            bank.submit(a_submission(offer))
        assert str(refused.value) == SIMULATED[bank.name].refusals[code], "the bank's own words"
        assert bank.adapter.reason(str(refused.value)).code == code
    assert simulator.contracts(bank.name) == []
    assert bank.submit(a_submission(offer)).native_id


def test_a_text_is_taken_up_to_the_banks_length_and_beyond_it_named_and_refused(
    bank: BankClient, offer: BankOffer
) -> None:
    whole, limits = a_submission(offer), bank.adapter.limits.texts

    def with_text(submission: BankSubmission, field: str, length: int) -> BankSubmission:
        block, _, name = field.partition(".")
        text = f"Maria {'x' * TEXT_LENGTH}"[:length]  # two words, because a father's name needs two
        return changed_submission(submission, **{block: {name: text}})

    def faults(submission: BankSubmission) -> list[str | None]:
        return [fault.field for fault in rules.submission_faults(bank.adapter, submission)]

    longest = whole
    for field in TEXTS:
        length = limits.get(field, TEXT_LENGTH)
        named = faults(with_text(whole, field, length))
        assert named == [] or (named == [field] and field not in limits), "a list of its own has no such text"
        if not named:
            longest = with_text(longest, field, length)
        if length < TEXT_LENGTH:
            beyond = with_text(whole, field, length + 1)
            assert faults(beyond) == [field]
            with pytest.raises((ProviderRejected, ProviderError)):
                lenient(bank).submit(beyond)
    assert bank.submit(longest).native_id


def test_texts_of_a_query_may_be_as_long_as_the_contract_lets_them_be(bank: BankClient) -> None:
    text = f"Maria {'x' * TEXT_LENGTH}"[:TEXT_LENGTH]
    query = a_query(**dict.fromkeys(("name", "portfolio", "user_agent", "device_model", "platform"), text))
    assert bank.query(query).status is QueryStatus.OK
