"""External steps: what a query shows while the holder owes a step, how a step ends, whom the end is told, and what has
it looked at: callbacks and the sweep. From the query to the webhook: tests/flows/test_external_steps.py."""

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.test import Client as DjangoClient
from django.utils import timezone

from consultas import pending
from consultas.models import Step
from partners.models import Partner
from providers.errors import ProviderRejected, ProviderUnavailable
from providers.models import Provider
from providers.types.query import ActionType, BankAction, BankResult, Employment, QueryStatus, StepOutcome
from tests.client import Client
from tests.consultas.test_ending import a_running_query
from tests.factories import PartnerFactory, ProviderFactory, update_encrypted
from tests.processes import LiveService, Simulator, wait_until
from tests.proposals.rows import a_step, an_offer
from tests.providers.conftest import at
from tests.providers.samples import CALLBACK_SECRETS, OFFER
from tests.webhooks.deliveries import told

RESULT = "authorization_result"
CHAT, LIVENESS = "90000000337", "90000000256"


@pytest.mark.parametrize(
    ("bank", "cpf", "status", "action", "has_link"),
    [
        ("canela", "90000000418", "pending", "dataprev", False),
        ("cedro", "90000001902", "requires_action", "whatsapp_link", True),  # each query gets another reference
    ],
)
def test_a_query_and_a_requery_show_the_step_and_its_link_and_message_the_holder_once(
    client: Client, simulator: Simulator, bank: str, cpf: str, status: str, action: str, has_link: bool
) -> None:
    """The steps of every bank: tests/providers/contract/test_steps.py."""
    shown, again = (
        client.query(cpf, providers=[bank], **changes)["providerResults"][bank]
        for changes in ({}, {"loan_value": 1000, "prazo": 12})
    )
    assert (shown["status"], shown["success"], shown["proposals"], shown["error"]) == (status, True, [], None)
    assert (shown["requiresSignature"], shown["action"]["type"]) == (True, action)
    assert shown["signatureUrl"] == shown["action"]["url"]
    assert (shown["signatureUrl"] or "").startswith(simulator.url) is has_link
    assert cpf not in (shown["signatureUrl"] or "")
    assert again["action"] == shown["action"]
    assert simulator.phone(cpf).count('class="message') == 1
    assert len(simulator.worked(bank, "query")) == 1
    row = Step.objects.get()
    assert (row.provider, row.type, row.state) == (bank, action, "open")


def many(step: Step, count: int) -> None:
    """`count` more steps like `step`, of other holders, due for a minute."""
    due = timezone.now() - timedelta(minutes=1)
    values = {field: getattr(step, field) for field in ("partner", "query", "provider", "type", "url", "reference")}
    Step.objects.bulk_create(
        Step(**values, cpf_index=f"holder-{number}", expires_at=step.expires_at, due_at=due) for number in range(count)
    )


def test_of_each_bank_those_known_to_have_ended_come_first_then_the_young_ones_by_their_turn(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "PLACES", 1)
    partner, now = PartnerFactory(), timezone.now()
    turns = {
        "old": {"opened_at": now - timedelta(hours=1), "due_at": now - timedelta(minutes=9)},
        "young, later": {"due_at": now - timedelta(seconds=1)},
        "young": {"due_at": now - timedelta(seconds=3)},
        "woken": {"opened_at": now - timedelta(hours=1)},
        "not due": {"due_at": now + timedelta(minutes=1)},
    }
    steps = {name: a_step(an_offer(partner, "imbuia", cpf=name), **values) for name, values in turns.items()}
    steps["of another bank"] = a_step(an_offer(partner, "peroba"))
    pending.wake(steps["woken"])
    names = {step.pk: name for name, step in steps.items()}
    taken = [[names[step.pk] for step in pending.claim_due()] for _ in range(5)]
    assert taken == [["woken", "of another bank"], ["young"], ["young, later"], ["old"], []]


def test_one_sweep_takes_more_than_fit_at_once(
    sandbox: None, simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the fix, a sweep took 100 steps in two seconds, however many were due."""
    for name, value in {"TICK_S": 60, "PLACES": 8}.items():
        monkeypatch.setattr(pending, name, value)
    step = a_step(an_offer(Partner.objects.get(), "peroba", cpf=CHAT))  # the bank does not know this step
    many(step, 2 * pending.PLACES)
    pending.check_due()
    assert set(Step.objects.values_list("state", "checks")) == {("expired", 1)}
    assert len(simulator.calls("peroba", "poll")) == 2 * pending.PLACES + 1


def test_queries_that_keep_the_bank_worker_busy_keep_no_step_waiting(
    client: Client, simulator: Simulator, live_service: LiveService
) -> None:
    """Before the fix, sweeps shared the queries' queue, and expired in it."""
    client.query(CHAT, providers=["peroba"])
    live_service.programs.kill("banks", signal.SIGSTOP)
    try:
        simulator.complete(CHAT, "peroba", "chat")
        wait_until(lambda: told(RESULT), 15, "authorization_result")
    finally:
        live_service.programs.kill("banks", signal.SIGCONT)


def test_a_bank_that_hangs_fills_its_own_places_only(client: Client, simulator: Simulator) -> None:
    client.query(LIVENESS, providers=["imbuia"])
    client.query(CHAT, providers=["peroba"])
    simulator.bank("imbuia", fault="hang")
    many(Step.objects.get(provider="imbuia"), 2 * pending.PLACES)
    looked_at = Step.objects.filter(provider="imbuia", checks__gt=0)
    wait_until(lambda: looked_at.count() >= pending.PLACES, 15, "its places are full")
    simulator.complete(CHAT, "peroba", "chat")
    wait_until(lambda: [each["provider"] for each in told(RESULT)] == ["peroba"], 15, "the other bank's step")
    assert looked_at.count() == pending.PLACES


# --- How a step ends: each bank's answers are in tests/providers/contract/test_steps.py -----------------------------

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


@pytest.mark.parametrize("look", [pending.check, again])
@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (ProviderRejected("Recusado por política."), "refused"),
        (BankResult.ended(StepOutcome.REFUSED, "O cliente recusou."), "refused"),
        (BankResult.ended(StepOutcome.EXPIRED, None), "expired"),
    ],
    ids=["rejected", "refused", "expired"],
)
def test_a_step_ends_once_and_a_requery_that_hears_of_it_first_asks_anew(
    bank: Any, step: Step, look: Callable[[Any, Step], Any], seen: BankResult | Exception, state: str
) -> None:
    """Before the fixes, a step whose bank said no afterwards was polled for ever: no partner got an event, and the
    holder could not use that bank, and saw a dead link for three days."""
    bank.seen, bank.answer = seen, replace(OWED, action=replace(ACTION, reference="step-2"))
    told_now = look(bank, step)
    assert look is pending.check or told_now.action is not None
    pending.check(bank, step)
    step.refresh_from_db()
    assert (step.state, step.due_at) == (state, None)
    assert results() == [(state, [])]
    asked_anew = Step.objects.exclude(pk=step.pk).values_list("reference", "state")
    assert list(asked_anew) == ([("step-2", "open")] if look is again else [])


def test_two_partners_that_wait_for_one_holder_are_told_each(bank: Any) -> None:
    steps = [opened(PartnerFactory(), bank) for _ in range(2)]
    bank.seen = replace(BankResult.answer([OFFER], [EMPLOYMENT]), step=StepOutcome.APPROVED)
    for step in steps:
        pending.check(bank, step)
    mine, theirs = told("authorization_result")
    assert [each["partner_id"] for each in (mine, theirs)] == [str(step.partner_id) for step in steps]
    assert not {o["offerId"] for o in mine["offers"]} & {o["offerId"] for o in theirs["offers"]}


def test_two_banks_that_finish_for_one_holder_are_two_events(bank: Any) -> None:
    """Both have the pair that the contract names; only the `webhook-id` differs."""
    partner = PartnerFactory()
    bank.seen = replace(BankResult.answer([OFFER], [EMPLOYMENT]), step=StepOutcome.APPROVED)
    for bank.name in ("peroba", "canela"):
        bank.answer = replace(OWED, action=replace(ACTION, reference=bank.name))
        pending.check(bank, opened(partner, bank))
    one, other = told(RESULT)
    assert (one["external_reference"], one["event"]) == (other["external_reference"], other["event"])
    assert [(each["provider"], len(each["offers"])) for each in (one, other)] == [("peroba", 1), ("canela", 1)]


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
    [under_way] = pending.claim_due()
    pending.wake_by_callback(bank.name, step.reference)
    pending.check(bank, under_way)
    assert pending.claim_due() == [step]


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


# --- POST /partners/v1/bank-callbacks/{name} ------------------------------------------------------------------------

ADDRESS = "/partners/v1/bank-callbacks"


def test_without_a_callback_polling_finds_it_within_10_s(
    client: Client, partner: Partner, simulator: Simulator
) -> None:
    update_encrypted(Provider.objects.all(), callback_secret="another one: no callback verifies")
    calling = [("imbuia", "90000000256", "liveness"), ("canela", "90000000418", "sms")]
    for bank, cpf, _ in calling:
        client.query(cpf, providers=[bank])
    for bank, cpf, step in calling:
        simulator.complete(cpf, bank, step, "refused")

    def results() -> list[str]:
        return [event["status"] for event in told("authorization_result", partner=partner)]

    wait_until(lambda: len(results()) == len(calling), 10, "authorization_result")
    assert set(results()) == {"refused"}


@pytest.fixture(params=CALLBACK_SECRETS)
def calling_bank(db: None, request: pytest.FixtureRequest) -> str:
    ProviderFactory(name=request.param, callback_secret=CALLBACK_SECRETS[request.param])
    return str(request.param)


@pytest.fixture
def awaited(calling_bank: str) -> Step:
    """A step of which only a callback can start a check."""
    return a_step(an_offer(PartnerFactory(), calling_bank), due_at=timezone.now() + timedelta(hours=1))


Letter = tuple[dict[str, str], bytes]


def letter(bank: str, reference: str) -> Letter:
    """A genuine callback of `bank` about the step with this reference."""
    told = {"imbuia": {"biometria": {"id_biometria": reference, "situacao": "APROVADA"}}}
    body = json.dumps(told.get(bank, {"autorizacaoId": reference})).encode()
    genuine: Letter = import_module(f"tests.providers.test_{bank}").callback(body)
    return genuine


def deliver(bank: str, headers: dict[str, str], body: bytes) -> int:
    return DjangoClient(headers=headers).post(f"{ADDRESS}/{bank}", body, "application/json").status_code


def test_a_callback_has_the_step_checked_at_once_and_changes_nothing_once_it_is_closed(
    calling_bank: str, awaited: Step
) -> None:
    for _ in range(2):
        assert deliver(calling_bank, *letter(calling_bank, awaited.reference)) == 204
    assert Step.objects.get().due_at <= timezone.now()
    Step.objects.update(state="approved", due_at=None)
    assert deliver(calling_bank, *letter(calling_bank, awaited.reference)) == 204
    assert (Step.objects.get().state, Step.objects.get().due_at) == ("approved", None)


def test_an_altered_or_foreign_callback_starts_no_check(calling_bank: str, awaited: Step) -> None:
    other = next(name for name in CALLBACK_SECRETS if name != calling_bank)
    ProviderFactory(name=other, callback_secret=CALLBACK_SECRETS[other])
    headers, body = letter(calling_bank, awaited.reference)
    signature = next(name for name in headers if name.endswith("Assinatura"))
    assert deliver(calling_bank, {**headers, signature: "0" * 64}, body) == 401
    assert deliver(calling_bank, headers, body + b" ") == 401
    assert deliver(other, headers, body) == 401
    update_encrypted(Provider.objects.filter(name=calling_bank), callback_secret=CALLBACK_SECRETS[other])
    assert deliver(calling_bank, headers, body) == 401
    assert Step.objects.get().due_at == awaited.due_at


@pytest.mark.parametrize("reference", ["nobody-knows-it", "\0", "a\0b", "x" * 100_000])
def test_a_genuine_callback_about_an_unknown_step_is_accepted(calling_bank: str, reference: str) -> None:
    """Before the fix, a reference with a NUL was answered with 500."""
    assert deliver(calling_bank, *letter(calling_bank, reference)) == 204


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff", b"[" * 1000, b'{"id": "x"}', b"x" * 300_000])
@pytest.mark.control("CMN XIII")
def test_a_forged_callback_is_refused_and_changes_nothing(calling_bank: str, body: bytes) -> None:
    answer = DjangoClient().post(f"{ADDRESS}/{calling_bank}", body, "application/json")
    expected = (413, "payload_too_large") if len(body) > 256 * 1024 else (401, "unauthorized")
    assert (answer.status_code, answer.json()["code"]) == expected


def test_only_a_bank_that_sends_callbacks_has_the_route_and_only_for_post(db: None) -> None:
    for bank in ("ipe", "jatoba", "peroba", "nenhum"):
        answer = DjangoClient().post(f"{ADDRESS}/{bank}", {}, "application/json")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), bank
    assert DjangoClient().get(f"{ADDRESS}/imbuia").status_code == 405
