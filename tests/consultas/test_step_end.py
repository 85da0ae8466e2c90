"""How a step ends if the bank refuses, fails, is disabled or left the contract; without the service's processes. What
each bank's answers are to the service: tests/providers/contract/test_steps.py."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from consultas import pending
from consultas.models import Step
from partners.models import Partner
from providers.errors import ProviderRejected, ProviderUnavailable
from providers.models import Provider
from providers.types.query import ActionType, BankAction, BankResult, Employment, QueryStatus, StepOutcome
from tests.consultas.test_ending import a_running_query
from tests.factories import PartnerFactory
from tests.processes import Simulator
from tests.providers.conftest import at
from tests.providers.samples import OFFER
from tests.webhooks.deliveries import told

CHAT = "90000000337"
ACTION = BankAction(ActionType.CHAT_LINK, "https://bank.example/chat", "Confirme.", "step-1")
OWED = BankResult(QueryStatus.REQUIRES_ACTION, action=ACTION, step=StepOutcome.OPEN)
WITHOUT_LINK = replace(OWED, action=replace(ACTION, type=ActionType.PAYROLL_DATA, url=None))
EMPLOYMENT = Employment(OFFER.registration, OFFER.employer_cnpj, OFFER.employer_name)


class ScriptedBank:
    """A bank that answers a query with `answer`, and a look at its step with `seen`. An error is raised."""

    name = "peroba"

    def __init__(self, answer: BankResult = OWED) -> None:
        self.answer: BankResult = answer
        self.seen: BankResult | Exception = answer

    def query(self, *_: Any, **__: Any) -> BankResult:
        return self.answer

    def check(self, *_: Any) -> BankResult:
        if isinstance(self.seen, Exception):
            raise self.seen
        return self.seen


def opened(partner: Partner, bank: Any) -> Step:
    """The step that a query of the holder opens."""
    query = a_running_query(partner, cpf=CHAT, banks=[bank.name])
    assert pending.ask(bank, query, query.for_bank(bank.name), None).action is not None
    return Step.objects.get(partner=partner, state="open")


def again(bank: Any, step: Step) -> BankResult:
    """A re-query while the step is open."""
    query = a_running_query(step.partner, cpf=CHAT, banks=[bank.name])
    return pending.ask(bank, query, query.for_bank(bank.name), step)


def over() -> None:
    """Let every step expire."""
    Step.objects.update(expires_at=timezone.now() - timedelta(minutes=1))


def due() -> None:
    Step.objects.filter(state="open").update(due_at=timezone.now())


def results() -> list[tuple[str, list[Any]]]:
    return [(event["status"], event["offers"]) for event in told("authorization_result")]


@pytest.fixture
def bank(db: None) -> Any:
    return ScriptedBank()


@pytest.fixture
def step(bank: Any) -> Step:
    return opened(PartnerFactory(), bank)


each_end = pytest.mark.parametrize(
    ("seen", "state"),
    [
        (ProviderRejected("Recusado por política."), "refused"),
        (BankResult.ended(StepOutcome.REFUSED, "O cliente recusou."), "refused"),
        (BankResult.ended(StepOutcome.EXPIRED, None), "expired"),
    ],
    ids=["rejected", "refused", "expired"],
)


@each_end
def test_a_step_ends_once(bank: Any, step: Step, seen: BankResult | Exception, state: str) -> None:
    """Before the fix, a step whose bank said no afterwards was polled for ever: no partner got an event, and the holder
    could not use that bank."""
    bank.seen = seen
    for _ in range(2):
        pending.check(bank, step)
    step.refresh_from_db()
    assert (step.state, step.due_at) == (state, None)
    assert results() == [(state, [])]


@each_end
def test_a_requery_that_hears_of_the_end_first_ends_it_and_asks_anew(
    bank: Any, step: Step, seen: BankResult | Exception, state: str
) -> None:
    """Before the fix, the holder saw a dead link for three days."""
    bank.seen, bank.answer = seen, replace(OWED, action=replace(ACTION, reference="step-2"))
    assert again(bank, step).action is not None
    pending.check(bank, step)
    assert set(Step.objects.values_list("reference", "state")) == {("step-1", state), ("step-2", "open")}
    assert results() == [(state, [])]


def test_two_partners_that_wait_for_one_holder_are_told_each(bank: Any) -> None:
    steps = [opened(PartnerFactory(), bank) for _ in range(2)]
    bank.seen = replace(BankResult.answer([OFFER], [EMPLOYMENT]), step=StepOutcome.APPROVED)
    for step in steps:
        pending.check(bank, step)
    mine, theirs = told("authorization_result")
    assert [each["partner_id"] for each in (mine, theirs)] == [str(step.partner_id) for step in steps]
    assert not {o["offerId"] for o in mine["offers"]} & {o["offerId"] for o in theirs["offers"]}


def test_a_step_is_looked_at_soon_though_its_callback_came_before_its_row(step: Step) -> None:
    assert step.due_at is not None
    assert step.due_at <= step.opened_at + timedelta(seconds=10)


def test_a_link_that_the_bank_tells_only_later_is_shown_from_then_on(db: None) -> None:
    """Before the fix, a new query said that the holder has to act, but showed no link."""
    bank: Any = ScriptedBank(WITHOUT_LINK)
    step = opened(PartnerFactory(), bank)
    assert (step.type, step.url) == ("dataprev", None)
    bank.seen = OWED
    told_now = again(bank, step)
    assert told_now.status is QueryStatus.REQUIRES_ACTION
    assert told_now.action is not None
    assert (told_now.action.type, told_now.action.url) == (ActionType.CHAT_LINK, ACTION.url)
    bank.seen = WITHOUT_LINK
    step.refresh_from_db()
    assert again(bank, step) == told_now


@pytest.mark.parametrize(
    ("answer", "status"), [(WITHOUT_LINK, QueryStatus.PENDING), (OWED, QueryStatus.REQUIRES_ACTION)]
)
def test_while_the_bank_fails_the_step_stays_and_a_requery_shows_the_known_link(
    db: None, answer: BankResult, status: QueryStatus
) -> None:
    bank: Any = ScriptedBank(answer)
    step = opened(PartnerFactory(), bank)
    bank.seen = ProviderUnavailable()
    pending.check(bank, step)
    shown = again(bank, step)
    assert (shown.status, shown.action) == (status, step.action())
    step.refresh_from_db()
    assert (step.state, results()) == ("open", [])


@pytest.mark.parametrize("look", [pending.check, again])
def test_a_step_that_is_over_ends_though_the_bank_fails(
    bank: Any, step: Step, look: Callable[[Any, Step], object]
) -> None:
    over()
    step.refresh_from_db()
    bank.seen = ProviderUnavailable()
    look(bank, step)
    step.refresh_from_db()
    assert (step.state, step.due_at) == ("expired", None)
    assert results() == [("expired", [])]
    assert Step.objects.filter(state="open").exists() is (look is again), "a re-query asks anew"


def test_a_callback_during_a_look_has_the_step_looked_at_again(bank: Any, step: Step) -> None:
    """Before the fix, a poll that ended after the callback had seen the step open, and put the next poll off."""
    due()
    [under_way] = pending.claim_due(bank.name, 1)
    pending.wake_by_callback(bank.name, step.reference)
    pending.check(bank, under_way)
    assert pending.claim_due(bank.name, 1) == [step]


# --- sweeps


@pytest.fixture
def swept(sandbox: None) -> Partner:
    """The sandbox's partner. The sweep process is halted, so that only the test sweeps."""
    return Partner.objects.get()


def test_a_step_at_a_disabled_bank_waits_and_expires_in_its_time(swept: Partner, simulator: Simulator) -> None:
    step = opened(swept, ScriptedBank())
    Provider.objects.filter(name="peroba").update(enabled=False)
    due()
    pending.check_due()
    step.refresh_from_db()
    assert step.state == "open"
    assert step.due_at > timezone.now()
    over()
    due()
    pending.check_due()
    step.refresh_from_db()
    assert step.state == "expired"
    assert results() == [("expired", [])]
    assert simulator.calls("peroba", "poll") == []


def test_a_bank_that_left_the_contract_is_not_called_and_the_step_expires(swept: Partner, simulator: Simulator) -> None:
    """Before the fix, the bank's steps were polled for three more days, and their offers were sent to the partner."""
    peroba = at("peroba", f"{simulator.url}/peroba")
    step, stays = (opened(each, peroba) for each in (swept, PartnerFactory(providers=["peroba"])))
    simulator.complete(CHAT, "peroba", "chat")
    swept.allow_only(["ipe"])
    due()
    pending.check_due()
    step.refresh_from_db()
    stays.refresh_from_db()
    assert (step.state, stays.state) == ("expired", "approved")
    assert sorted((status, len(offers)) for status, offers in results()) == [("approved", 2), ("expired", 0)]
    assert len(simulator.calls("peroba", "poll")) == 1
