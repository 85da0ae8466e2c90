from __future__ import annotations

import json
import uuid
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from partners.models import Partner
from tests.receiver import Receiver
from tests.webhooks.deliveries import new_partner, send
from webhooks.models import Event


def run(*arguments: object) -> Any:
    """The one JSON object that a command prints."""
    output = StringIO()
    call_command(*map(str, arguments), stdout=output)
    return json.loads(output.getvalue())


def test_list_events(partner: Partner, receiver: Receiver) -> None:
    sent = [event for _ in range(103) for event in send(partner)]
    failed, delivered = (event.pk for event in sent[-2:])
    Event.objects.filter(pk=failed).update(state="failed", due_at=None, attempts=9)
    Event.objects.filter(pk=delivered).update(state="delivered", due_at=None, attempts=1)
    send(new_partner(receiver.url))  # a stranger's

    rows = run("list_events", partner.pk)["events"]
    assert rows[:3] == [
        {"id": delivered, "event": "lead", "state": "delivered", "attempts": 1, "next_attempt_at": None},
        {"id": failed, "event": "lead", "state": "failed", "attempts": 9, "next_attempt_at": None},
        {
            "id": sent[-3].pk,
            "event": "lead",
            "state": "due",
            "attempts": 0,
            "next_attempt_at": f"{sent[-3].due_at:%Y-%m-%dT%H:%M:%SZ}",
        },
    ]
    assert [row["id"] for row in rows] == [event.pk for event in sent[:2:-1]], "the newest hundred"
    of_state = {state: run("list_events", partner.pk, "--state", state)["events"] for state in Event.State.values}
    assert of_state == {"due": of_state["due"], "delivered": rows[:1], "failed": rows[1:2]}
    assert {row["state"] for row in of_state["due"]} == {"due"}


NOBODY = uuid.UUID("7f3b9a52-2d5b-4f37-9a0a-54a0f5a3c7d1")


@pytest.mark.parametrize(
    ("partner_id", "sentence"),
    [(NOBODY, f"Não há parceiro com o id {NOBODY}."), ("not-an-id", "“not-an-id” não é um UUID.")],
)
def test_list_events_of_nobody(db: None, partner_id: object, sentence: str) -> None:
    with pytest.raises(CommandError) as refused:
        run("list_events", partner_id)
    assert str(refused.value) == sentence


def test_list_events_of_an_unknown_state(partner: Partner) -> None:
    with pytest.raises(CommandError):
        run("list_events", partner.pk, "--state", "lost")


def test_resend_webhook_of_an_unknown_event(db: None) -> None:
    with pytest.raises(CommandError, match=r"^Não há evento com o id evt_unknown\.$"):
        run("resend_webhook", "evt_unknown")


def test_resend_webhook_of_a_purged_event(partner: Partner) -> None:
    [event] = send(partner)
    Event.objects.update(state="failed", due_at=None, body=None, purged_at=timezone.now())

    with pytest.raises(CommandError, match=f"^O conteúdo do evento {event.pk} foi apagado"):
        run("resend_webhook", event.pk)
