"""How a step ends if the bank refuses, fails, is disabled or left the contract; without the service's processes."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from django.utils import timezone

from consultas import pending
from consultas.models import Step
from partners.models import Partner
from providers.models import Provider
from providers.operation import BankClient
from providers.types.answer import ActionType, BankResult, QueryStatus
from tests.consultas.test_ending import a_running_query
from tests.factories import PartnerFactory
from tests.processes import Simulator
from tests.providers.conftest import at, between, nothing_remembered_of_banks
from tests.receiver import Received, Reply
from tests.webhooks.deliveries import told

__all__ = ["nothing_remembered_of_banks"]  # a fixture that this file uses too

Banks = Callable[[str], BankClient]
CHAT = "90000000337"


class Ending(NamedTuple):
    """A bank whose step the holder has completed, and how the bank refuses then: a request whose method and path match
    `request` gets `status` and `body`, or the bank's own answer in which `body` replaced some keys."""

    bank: str
    cpf: str
    kind: str
    request: str
    status: int
    body: dict[str, Any]


ENDINGS = [
    Ending(
        "imbuia",
        "90000000256",
        "liveness",
        "POST .*/biometrias/.*/simulacoes",
        422,
        {"message": "Recusado", "details": [{"code": "SIM-001", "message": "recusado por politica"}]},
    ),
    Ending("peroba", CHAT, "chat", "POST .*/Consultas/.+", 400, {"Mensagem": "Recusado por política."}),
    Ending(
        "canela",
        "90000000418",
        "sms",
        "PUT .*/simulacoes",
        400,
        {"mensagem": "Recusado por política", "motivo": "POLITICA", "pendencias": []},
    ),
    Ending(
        "cedro",
        "90000001902",
        "confirmation",
        "GET .*/consults/.*",
        200,
        {"status": "REJECTED", "description": "Recusado por política"},
    ),
]
each_ending = pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.bank)


class GoBetween:
    """Changes the banks' answers to requests that match `ending`."""

    ending: Ending | None = None

    def __call__(self, asked: Received, reply: Reply) -> Reply:
        ending = self.ending
        if ending is None or not re.fullmatch(ending.request, f"{asked.method} {asked.path}".split("?")[0]):
            return reply
        body = ending.body if ending.status >= 400 else json.loads(reply.body) | ending.body
        return replace(reply, status=ending.status, body=json.dumps(body).encode())


@pytest.fixture
def go_between(simulator: Simulator) -> GoBetween:
    simulator.reset()
    return GoBetween()


@pytest.fixture
def banks(simulator: Simulator, go_between: GoBetween) -> Iterator[Banks]:
    """The adapters, connected to the simulated banks through the go-between."""
    with ExitStack() as doors:
        yield lambda name: at(name, doors.enter_context(between(simulator, name, go_between)))


def unreachable(name: str) -> BankClient:
    """The adapter, connected to an address where nobody listens."""
    return at(name, f"http://127.0.0.1:1/{name}")


def opened(partner: Partner, bank: BankClient, cpf: str) -> Step:
    """The step that a query of the holder opens."""
    query = a_running_query(partner, cpf=cpf, banks=[bank.name])
    assert pending.ask(bank, query, query.for_bank(bank.name), None).action is not None
    return Step.objects.get(partner=partner, state="open")


def again(bank: BankClient, step: Step) -> BankResult:
    """A re-query while the step is open."""
    query = a_running_query(step.partner, cpf=step.query.request["cpf"], banks=[bank.name])
    return pending.ask(bank, query, query.for_bank(bank.name), step)


def over() -> None:
    """Let every step expire."""
    Step.objects.update(expires_at=timezone.now() - timedelta(minutes=1))


def results() -> list[tuple[str, list[Any]]]:
    return [(event["status"], event["offers"]) for event in told("authorization_result")]


@each_ending
def test_a_bank_that_says_no_after_the_step_ends_it(
    db: None, simulator: Simulator, go_between: GoBetween, banks: Banks, ending: Ending
) -> None:
    """Before the fix, the step was polled for ever: no partner got an event, and the holder could not use that bank."""
    step = opened(PartnerFactory(), banks(ending.bank), ending.cpf)
    simulator.complete(ending.cpf, ending.bank, ending.kind)
    go_between.ending = ending
    for _ in range(2):
        pending.check(banks(ending.bank), step)
    step.refresh_from_db()
    assert (step.state, step.due_at) == ("refused", None)
    assert results() == [("refused", [])]


@each_ending
def test_a_requery_that_hears_the_no_first_ends_it_and_asks_anew(
    db: None, simulator: Simulator, go_between: GoBetween, banks: Banks, ending: Ending
) -> None:
    step = opened(PartnerFactory(), banks(ending.bank), ending.cpf)
    simulator.complete(ending.cpf, ending.bank, ending.kind)
    # The same request polls cedro's new consult: only the old consult is refused.
    request = f"GET .*/consults/{re.escape(step.reference)}" if ending.bank == "cedro" else ending.request
    go_between.ending = ending._replace(request=request)
    assert again(banks(ending.bank), step).status is QueryStatus.OK
    step.refresh_from_db()
    assert step.state == "refused"
    assert results() == [("refused", [])]


def test_a_refusal_that_a_requery_finds_first_is_told_too(db: None, simulator: Simulator, banks: Banks) -> None:
    step = opened(PartnerFactory(), banks("peroba"), CHAT)
    simulator.complete(CHAT, "peroba", "chat", "refused")
    assert again(banks("peroba"), step).status is QueryStatus.REQUIRES_ACTION
    assert results() == [("refused", [])]


def test_two_partners_that_wait_for_one_holder_are_told_each(db: None, simulator: Simulator, banks: Banks) -> None:
    bank = banks("peroba")
    steps = [opened(PartnerFactory(), bank, CHAT) for _ in range(2)]
    simulator.complete(CHAT, "peroba", "chat")
    for step in steps:
        pending.check(bank, step)
    mine, theirs = told("authorization_result")
    assert [each["partner_id"] for each in (mine, theirs)] == [str(step.partner_id) for step in steps]
    assert not {o["offerId"] for o in mine["offers"]} & {o["offerId"] for o in theirs["offers"]}


def test_a_step_is_looked_at_soon_though_its_callback_came_before_its_row(db: None, banks: Banks) -> None:
    step = opened(PartnerFactory(), banks("canela"), "90000000418")
    assert step.due_at is not None
    assert step.due_at <= step.opened_at + timedelta(seconds=10)


def test_a_consult_that_failed_for_good_ends_its_step_and_a_requery_consults_anew(
    db: None, simulator: Simulator, go_between: GoBetween, banks: Banks
) -> None:
    """Before the fix, the holder saw a dead link for three days, because the bank says nothing else about that
    consult."""
    [ending] = [each for each in ENDINGS if each.bank == "cedro"]
    step = opened(PartnerFactory(), banks("cedro"), ending.cpf)
    simulator.complete(ending.cpf, "cedro", ending.kind)
    go_between.ending = ending._replace(
        request=f"GET .*/consults/{re.escape(step.reference)}", body={"status": "FAILED"}
    )
    assert again(banks("cedro"), step).status is QueryStatus.OK
    pending.check(banks("cedro"), step)
    step.refresh_from_db()
    assert (step.state, step.due_at) == ("expired", None)
    assert results() == [("expired", [])]


def test_a_link_that_the_bank_tells_only_later_is_shown_from_then_on(
    db: None, go_between: GoBetween, banks: Banks
) -> None:
    """Before the fix, a new query said that the holder has to act, but showed no link."""
    [ending] = [each for each in ENDINGS if each.bank == "cedro"]
    unknown = ending._replace(body={"status": "EM_ORBITA"})
    go_between.ending = unknown
    step = opened(PartnerFactory(), banks("cedro"), ending.cpf)
    assert (step.type, step.url) == ("dataprev", None)
    go_between.ending = None
    told_now = again(banks("cedro"), step)
    assert told_now.status is QueryStatus.REQUIRES_ACTION
    assert told_now.action is not None
    assert told_now.action.type is ActionType.CHAT_LINK
    assert told_now.action.url
    go_between.ending = unknown
    step.refresh_from_db()
    assert again(banks("cedro"), step) == told_now


@pytest.mark.parametrize(
    ("name", "cpf", "status"),
    [
        ("canela", "90000000418", QueryStatus.PENDING),
        ("peroba", CHAT, QueryStatus.REQUIRES_ACTION),
    ],
)
def test_while_the_bank_fails_the_step_stays_and_a_requery_shows_the_known_link(
    db: None, banks: Banks, name: str, cpf: str, status: QueryStatus
) -> None:
    step = opened(PartnerFactory(), banks(name), cpf)
    pending.check(unreachable(name), step)
    shown = again(unreachable(name), step)
    assert (shown.status, shown.action) == (status, step.action())
    step.refresh_from_db()
    assert (step.state, results()) == ("open", [])


def test_a_step_that_is_over_ends_though_the_bank_fails(db: None, banks: Banks) -> None:
    step = opened(PartnerFactory(), banks("peroba"), CHAT)
    over()
    step.refresh_from_db()
    pending.check(unreachable("peroba"), step)
    step.refresh_from_db()
    assert (step.state, step.due_at) == ("expired", None)
    assert results() == [("expired", [])]


@each_ending
def test_a_requery_after_the_end_asks_anew_though_the_look_fails(
    db: None, go_between: GoBetween, banks: Banks, ending: Ending
) -> None:
    bank = banks(ending.bank)
    step = opened(PartnerFactory(), bank, ending.cpf)
    over()
    step.refresh_from_db()
    go_between.ending = ending._replace(request=f".*/{re.escape(step.reference)}.*", status=503)
    assert again(bank, step).action is not None
    assert sorted(Step.objects.values_list("state", flat=True)) == ["expired", "open"]
    assert results() == [("expired", [])]


def test_a_callback_during_a_look_has_the_step_looked_at_again(db: None, banks: Banks) -> None:
    """Before the fix, a poll that ended after the callback had seen the step open, and put the next poll off."""
    opened(PartnerFactory(), banks("canela"), "90000000418")
    due()
    [under_way] = pending.claim_due("canela", 1)
    pending.wake_by_callback("canela", under_way.reference)
    pending.check(banks("canela"), under_way)
    assert [step.pk for step in pending.claim_due("canela", 1)] == [under_way.pk]


# --- sweeps


@pytest.fixture
def swept(sandbox: None) -> Partner:
    """The sandbox's partner. The sweep process is halted, so that only the test sweeps."""
    return Partner.objects.get()


def due() -> None:
    Step.objects.filter(state="open").update(due_at=timezone.now())


def test_a_step_at_a_disabled_bank_waits_and_expires_in_its_time(
    swept: Partner, simulator: Simulator, banks: Banks
) -> None:
    step = opened(swept, banks("peroba"), CHAT)
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


def test_a_bank_that_left_the_contract_is_not_called_and_the_step_expires(
    swept: Partner, simulator: Simulator, banks: Banks
) -> None:
    """Before the fix, the bank's steps were polled for three more days, and their offers were sent to the partner."""
    step = opened(swept, banks("peroba"), CHAT)
    other = PartnerFactory(providers=["peroba"])
    stays = opened(other, banks("peroba"), CHAT)
    simulator.complete(CHAT, "peroba", "chat")
    swept.allow_only(["ipe"])
    due()
    pending.check_due()
    step.refresh_from_db()
    stays.refresh_from_db()
    assert (step.state, stays.state) == ("expired", "approved")
    assert sorted((status, len(offers)) for status, offers in results()) == [("approved", 2), ("expired", 0)]
    assert len(simulator.calls("peroba", "poll")) == 1
