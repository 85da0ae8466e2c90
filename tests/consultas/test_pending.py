"""External steps: what a query shows while the holder owes a step, and whom the end is told. How a step ends in time:
tests/flows/test_external_steps.py."""

import json
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from django.utils import timezone

from consultas.models import Step
from partners.models import Partner
from tests.client import Client
from tests.processes import LiveService, Simulator, wait_until
from webhooks.models import Event


class StepCase(NamedTuple):
    """A bank that requires a step of the holder `cpf`, and what a query shows."""

    bank: str
    cpf: str
    status: str
    action: str
    link: bool


#: A step without a link, and one with a link whose reference at the bank changes with each query. The steps of every
#: bank: tests/providers/contract/test_steps.py.
STEPS = [
    StepCase("canela", "90000000418", "pending", "dataprev", False),
    StepCase("cedro", "90000001902", "requires_action", "whatsapp_link", True),
]


def messages(simulator: Simulator, cpf: str) -> int:
    """How many messages the banks sent to the holder's phone."""
    return simulator.phone(cpf).count('class="message')


def result(client: Client, bank: str, cpf: str, **changes: Any) -> dict[str, Any]:
    return client.query(cpf, providers=[bank], **changes)["providerResults"][bank]  # type: ignore[no-any-return]


def events(partner: Partner) -> list[dict[str, Any]]:
    rows = Event.objects.filter(partner=partner, name="authorization_result").order_by("created_at")
    return [json.loads(row.body) for row in rows]


def hurry() -> None:
    """Make every open step due for a check now."""
    Step.objects.filter(state="open").update(due_at=timezone.now())


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.bank)
def test_a_query_and_a_requery_show_the_step_and_its_link_and_message_the_holder_once(
    client: Client, simulator: Simulator, step: StepCase
) -> None:
    shown = result(client, step.bank, step.cpf)
    assert (shown["status"], shown["success"], shown["proposals"], shown["error"]) == (step.status, True, [], None)
    assert shown["requiresSignature"] is True
    assert shown["action"]["type"] == step.action
    assert shown["signatureUrl"] == shown["action"]["url"]
    assert (shown["signatureUrl"] or "").startswith(simulator.url) is step.link
    assert step.cpf not in (shown["signatureUrl"] or "")
    sent = messages(simulator, step.cpf)
    assert result(client, step.bank, step.cpf, loan_value=1000, prazo=12)["action"] == shown["action"]
    assert messages(simulator, step.cpf) == sent
    assert sum(call["worked"] for call in simulator.calls(step.bank, "query")) == 1
    row = Step.objects.get()
    assert (row.provider, row.type, row.state) == (step.bank, step.action, "open")


def test_a_refusal_that_a_requery_finds_first_is_told_too(
    client: Client, partner: Partner, simulator: Simulator
) -> None:
    result(client, "peroba", "90000000337")
    Step.objects.update(due_at=timezone.now() + timedelta(hours=1))
    simulator.complete("90000000337", "peroba", "chat", "refused")
    assert result(client, "peroba", "90000000337")["status"] == "requires_action"
    assert [event["status"] for event in events(partner)] == ["refused"]


def test_two_partners_that_wait_for_one_holder_are_told_each(
    client: Client, stranger: Client, partner: Partner, simulator: Simulator, live_service: LiveService
) -> None:
    other = Partner.objects.exclude(pk=partner.pk).get()
    other.allow_only(["peroba"])
    result(client, "peroba", "90000000337")
    result(stranger, "peroba", "90000000337")
    simulator.complete("90000000337", "peroba", "chat")
    hurry()
    wait_until(lambda: events(partner) and events(other), 15, "both are told", live_service.logs)
    mine, theirs = events(partner)[0], events(other)[0]
    assert mine["partner_id"] != theirs["partner_id"]
    assert not {o["offerId"] for o in mine["offers"]} & {o["offerId"] for o in theirs["offers"]}
