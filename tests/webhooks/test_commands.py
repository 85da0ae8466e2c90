import pytest
from django.core.management import CommandError
from django.utils import timezone

from partners.models import Partner
from tests.commands import printed
from tests.receiver import Receiver
from tests.webhooks.deliveries import new_partner, send
from webhooks.models import Event


def test_list_events(partner: Partner, receiver: Receiver) -> None:
    sent = [event for _ in range(103) for event in send(partner)]
    failed, delivered = (event.pk for event in sent[-2:])
    Event.objects.filter(pk=failed).update(state="failed", due_at=None, attempts=9)
    Event.objects.filter(pk=delivered).update(state="delivered", due_at=None, attempts=1)
    send(new_partner(receiver.url))  # a stranger's

    rows = printed("list_events", partner.pk)["events"]
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
    of_state = {state: printed("list_events", partner.pk, "--state", state)["events"] for state in Event.State.values}
    assert of_state == {"due": of_state["due"], "delivered": rows[:1], "failed": rows[1:2]}
    assert {row["state"] for row in of_state["due"]} == {"due"}


def test_list_events_of_an_unknown_state(partner: Partner) -> None:
    with pytest.raises(CommandError):
        printed("list_events", partner.pk, "--state", "lost")


def test_resend_webhook_of_an_unknown_event(db: None) -> None:
    with pytest.raises(CommandError, match=r"^Não há evento com o id evt_unknown\.$"):
        printed("resend_webhook", "evt_unknown")


def test_resend_webhook_of_a_purged_event(partner: Partner) -> None:
    [event] = send(partner)
    Event.objects.update(state="failed", due_at=None, body=None, purged_at=timezone.now())

    with pytest.raises(CommandError, match=f"^O conteúdo do evento {event.pk} foi apagado"):
        printed("resend_webhook", event.pk)
