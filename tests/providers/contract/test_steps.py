"""What a holder has to do before a bank makes offers, at each bank that requires it."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from providers.errors import ProviderRejected
from providers.operation import BankClient
from providers.types import given
from providers.types.query import BankAction, QueryStatus, StepOutcome
from tests.processes import Simulator
from tests.providers.conftest import answering
from tests.providers.manuals import StepFacts, manual_of
from tests.providers.samples import OWING, a_query, a_submission
from tests.receiver import Reply

pytestmark = pytest.mark.parametrize("name", OWING)


@pytest.fixture
def facts(name: str) -> StepFacts:
    return given(manual_of(name).step)


def opened(bank: BankClient) -> BankAction:
    """The step that a first query opens."""
    return given(bank.query(a_query(OWING[bank.name])).action)


def messages(simulator: Simulator, bank: BankClient) -> int:
    """How many messages the bank sent to the holder's phone."""
    return len(re.findall(rf'class="message \w+" data-bank="{bank.name}"', simulator.phone(OWING[bank.name])))


def test_a_step_is_an_action_and_looking_at_it_sends_nothing(
    bank: BankClient, simulator: Simulator, facts: StepFacts
) -> None:
    query = a_query(OWING[bank.name])
    result = bank.query(query)
    assert (result.status, result.step, result.offers) == (facts.status, StepOutcome.OPEN, ())
    action = given(result.action)
    assert (action.type, action.url is not None) == (facts.action, facts.has_link)
    assert action.url is None or action.url.startswith(f"{simulator.url}/links/")
    hours = timedelta(hours=facts.hours)
    assert hours - timedelta(hours=1) < given(action.expires_at) - datetime.now(UTC) <= hours
    for _ in range(2):
        again = bank.check(query, action.reference)
        assert (again.status, again.step, again.action) == (result.status, result.step, action)
    assert len(simulator.calls(bank.name, "query")) == 1
    assert len(simulator.calls(bank.name, "poll")) >= 2
    asked_again = given(bank.query(query).action)
    assert asked_again == (action if facts.has_one_reference else replace(action, reference=asked_again.reference))
    assert messages(simulator, bank) == facts.messages


def test_a_look_is_repeated_where_the_connection_broke(bank: BankClient, simulator: Simulator) -> None:
    action = opened(bank)
    simulator.bank(bank.name, fault="reset", times=1)
    assert bank.check(a_query(OWING[bank.name]), action.reference).step is StepOutcome.OPEN


def test_an_approved_step_gives_offers_for_the_query_that_asks(
    bank: BankClient, simulator: Simulator, facts: StepFacts
) -> None:
    cpf, action = OWING[bank.name], opened(bank)
    simulator.complete(cpf, bank.name, facts.kind)
    wish = a_query(cpf, loan_value=Decimal("3000.00"), installments=12, with_insurance=False)
    result = bank.check(wish, action.reference)
    assert (result.status, result.step, result.action) == (QueryStatus.OK, StepOutcome.APPROVED, None)
    assert [(offer.loan_value, offer.installments) for offer in result.offers] == [(Decimal("3000.00"), 12)]
    assert len(result.employments) == 1
    assert bank.submit(a_submission(result.offers[0], cpf)).native_id
    assert len(simulator.calls(bank.name, "query")) == 1
    simulator.advance(365 * 24 * 3600)
    assert bank.query(a_query(cpf)).status is QueryStatus.OK, "approved for ever"
    assert messages(simulator, bank) == facts.messages


def test_a_refused_step_has_no_offers_and_the_next_query_opens_another(
    bank: BankClient, simulator: Simulator, facts: StepFacts
) -> None:
    query, action = a_query(OWING[bank.name]), opened(bank)
    simulator.complete(OWING[bank.name], bank.name, facts.kind, "refused")
    result = bank.check(query, action.reference)
    assert (result.status, result.step) == (QueryStatus.NO_OFFERS, StepOutcome.REFUSED)
    assert result.reasons == (facts.refused,)
    assert messages(simulator, bank) == facts.messages
    assert opened(bank).reference != action.reference
    assert messages(simulator, bank) == 2 * facts.messages


def test_a_no_after_the_step_is_the_banks_refusal(name: str, facts: StepFacts) -> None:
    """A refusal ends the step: tests/consultas/test_steps.py."""
    answers = [Reply(status, json.dumps(body).encode()) for status, body in facts.no]
    with answering(name, *answers) as bank, pytest.raises(ProviderRejected, match="política"):
        bank.check(a_query(OWING[name]), "s1")


def test_an_expired_step_has_no_offers_and_says_why_and_one_that_the_bank_forgot_counts_as_such(
    bank: BankClient, simulator: Simulator, facts: StepFacts
) -> None:
    forgotten = bank.check(a_query(OWING[bank.name]), "no-such/step?x=ç")
    assert (forgotten.status, forgotten.step) == (QueryStatus.NO_OFFERS, StepOutcome.EXPIRED)
    if facts.expired is None:  # the sandbox ends this step by itself, long before
        return
    action = opened(bank)
    simulator.advance(facts.hours * 3600 + 1)
    result = bank.check(a_query(OWING[bank.name]), action.reference)
    assert (result.status, result.step) == (QueryStatus.NO_OFFERS, StepOutcome.EXPIRED)
    assert result.reasons == (facts.expired,)
    assert opened(bank).reference != action.reference
