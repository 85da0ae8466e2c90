"""External steps: what a query shows while the holder owes a step, whom the end is told, and the sweep that notices
every end in time. From the query to the webhook: tests/flows/test_external_steps.py."""

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


# --- the sweep


def many(step: Step, count: int) -> None:
    """`count` more steps like `step`, of other holders, due for a minute."""
    due = timezone.now() - timedelta(minutes=1)
    values = {field: getattr(step, field) for field in ("partner", "query", "provider", "type", "url", "reference")}
    Step.objects.bulk_create(
        Step(**values, cpf_index=f"holder-{number}", expires_at=step.expires_at, due_at=due) for number in range(count)
    )


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
    # Greenlets switch only in the sweep's pauses, because the standard library is not patched.
    for name, value in {"TICK_S": 60, "PLACES": 8, "_places": {}}.items():
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
