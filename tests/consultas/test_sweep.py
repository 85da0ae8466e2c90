"""The sweep over external steps: it notices every end in time."""

import json
import signal
from datetime import timedelta

import pytest
from django.utils import timezone

from consultas import pending
from consultas.models import Step
from partners.models import Partner
from tests.client import Client
from tests.factories import PartnerFactory
from tests.processes import LiveService, Simulator, wait_until
from tests.proposals.rows import a_step, an_offer
from webhooks.models import Event

CHAT = "90000000337"
LIVENESS = "90000000256"


def many(step: Step, count: int) -> None:
    """`count` more steps like `step`, of other holders, due for a minute."""
    due = timezone.now() - timedelta(minutes=1)
    values = {field: getattr(step, field) for field in ("partner", "query", "provider", "type", "url", "reference")}
    Step.objects.bulk_create(
        Step(**values, cpf_index=f"holder-{number}", expires_at=step.expires_at, due_at=due) for number in range(count)
    )


def ended(partner: Partner) -> list[str]:
    rows = Event.objects.filter(partner=partner, name="authorization_result")
    return [json.loads(row.body)["provider"] for row in rows]


def test_those_known_to_have_ended_come_first_then_the_young_ones_by_their_turn(db: None) -> None:
    partner, now = PartnerFactory(), timezone.now()
    turns = {
        "old": {"opened_at": now - timedelta(hours=1), "due_at": now - timedelta(minutes=9)},
        "young, later": {"due_at": now - timedelta(seconds=1)},
        "young": {"due_at": now - timedelta(seconds=3)},
        "woken": {"opened_at": now - timedelta(hours=1)},
        "not due": {"due_at": now + timedelta(minutes=1)},
    }
    steps = {name: a_step(an_offer(partner, "imbuia", cpf=name), **values) for name, values in turns.items()}
    a_step(an_offer(partner, "peroba"))
    pending.wake(steps["woken"])
    names = {step.pk: name for name, step in steps.items()}
    taken = [[names[step.pk] for step in pending.claim_due("imbuia", 1)] for _ in range(5)]
    assert taken == [["woken"], ["young"], ["young, later"], ["old"], []]
    assert pending.banks_due() == ["peroba"]


def test_one_sweep_takes_more_than_fit_at_once(
    sandbox: None, simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the fix, a sweep took 100 steps in two seconds, however many were due."""
    monkeypatch.setattr(
        pending, "TICK_S", 60
    )  # greenlets switch only here, because the standard library is not patched
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
        wait_until(lambda: ended(Partner.objects.get()), 15, "authorization_result", live_service.logs)
    finally:
        live_service.programs.kill("banks", signal.SIGCONT)


def test_a_bank_that_hangs_fills_its_own_places_only(
    client: Client, simulator: Simulator, live_service: LiveService
) -> None:
    client.query(LIVENESS, providers=["imbuia"])
    client.query(CHAT, providers=["peroba"])
    simulator.bank("imbuia", fault="hang")
    many(Step.objects.get(provider="imbuia"), 2 * pending.PLACES)
    looked_at = Step.objects.filter(provider="imbuia", checks__gt=0)
    wait_until(lambda: looked_at.count() >= pending.PLACES, 15, "its places are full", live_service.logs)
    simulator.complete(CHAT, "peroba", "chat")
    wait_until(lambda: ended(Partner.objects.get()) == ["peroba"], 15, "the other bank's step", live_service.logs)
    assert looked_at.count() == pending.PLACES
