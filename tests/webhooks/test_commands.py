from __future__ import annotations

import json
import uuid
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from partners.models import Partner
from tests.receiver import Receiver, Reply
from tests.webhooks.deliveries import deliver_due, leave_one_attempt, new_partner, send
from webhooks.models import Event


def run(*arguments: object) -> Any:
    """The one JSON object that a command prints."""
    output = StringIO()
    call_command(*map(str, arguments), stdout=output)
    return json.loads(output.getvalue())


def test_list_events(partner: Partner, receiver: Receiver) -> None:
    [delivered] = send(partner)
    deliver_due()
    receiver.reply = Reply(410)
    [failed] = send(partner)
    leave_one_attempt(failed)
    deliver_due()
    [due] = send(partner)
    send(new_partner(receiver.url))  # a stranger's

    assert run("list_events", partner.pk) == {
        "events": [
            {
                "id": due.pk,
                "event": "lead",
                "state": "due",
                "attempts": 0,
                "next_attempt_at": due.due_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
            {"id": failed.pk, "event": "lead", "state": "failed", "attempts": 1, "next_attempt_at": None},
            {"id": delivered.pk, "event": "lead", "state": "delivered", "attempts": 1, "next_attempt_at": None},
        ]
    }


@pytest.mark.parametrize("state", ["due", "delivered", "failed"])
def test_list_events_of_one_state(partner: Partner, state: str) -> None:
    for event, its_state in zip(send(partner, 3), ["due", "delivered", "failed"], strict=True):
        moment = event.due_at if its_state == "due" else None
        Event.objects.filter(pk=event.pk).update(state=its_state, due_at=moment)

    assert [row["state"] for row in run("list_events", partner.pk, "--state", state)["events"]] == [state]


def test_list_events_shows_the_newest_hundred(partner: Partner) -> None:
    sent = [event.pk for _ in range(103) for event in send(partner)]

    assert [row["id"] for row in run("list_events", partner.pk)["events"]] == sent[:2:-1]


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


def test_resend_webhook(partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(410)
    [event] = send(partner)
    leave_one_attempt(event)
    deliver_due()
    receiver.reply = Reply()

    assert run("resend_webhook", event.pk) == {"id": event.pk, "state": "due"}
    deliver_due()
    assert receiver.ids == [event.pk, event.pk]


def test_resend_webhook_of_an_unknown_event(db: None) -> None:
    with pytest.raises(CommandError, match=r"^Não há evento com o id evt_unknown\.$"):
        run("resend_webhook", "evt_unknown")


def test_resend_webhook_of_a_purged_event(partner: Partner) -> None:
    [event] = send(partner)
    Event.objects.update(state="failed", due_at=None, body=None, purged_at=timezone.now())

    with pytest.raises(CommandError, match=f"^O conteúdo do evento {event.pk} foi apagado"):
        run("resend_webhook", event.pk)
