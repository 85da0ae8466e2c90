from datetime import timedelta

from django.utils import timezone

from config.metrics import outbox
from partners.models import Partner
from tests.webhooks.deliveries import leave_attempts, new_partner, send
from webhooks import delivery
from webhooks.models import Event

PARTNERS = "webhook_partners"


def read() -> dict[str, float]:
    """The gauges by name, those of events by state."""
    samples = [sample for family in outbox() for sample in family.samples]
    return {sample.labels.get("state", sample.name): sample.value for sample in samples if sample.name != PARTNERS}


def test_partners_by_what_their_last_attempts_say(partner: Partner) -> None:
    leave_attempts(*send(new_partner("https://down.example/w")), 5, "dns")
    leave_attempts(*send(partner), 5)
    samples = [sample for family in outbox() for sample in family.samples if sample.name == PARTNERS]
    assert {sample.labels["state"]: sample.value for sample in samples} == {"receiving": 1, "failing": 0, "down": 1}


def test_an_empty_outbox(db: None) -> None:
    assert read() == {"due": 0, "claimed": 0, "unreachable": 0, "failed": 0, "webhook_oldest_due_seconds": 0}


def test_what_is_not_delivered(partner: Partner) -> None:
    overdue, failed, delivered = send(partner, 3)
    Event.objects.filter(pk=overdue.pk).update(due_at=timezone.now() - timedelta(seconds=90))
    Event.objects.filter(pk=failed.pk).update(state="failed", due_at=None)
    Event.objects.filter(pk=delivered.pk).update(state="delivered", due_at=None)

    gauges = read()
    assert 90 <= gauges.pop("webhook_oldest_due_seconds") < 120
    assert gauges == {"due": 1, "claimed": 0, "unreachable": 0, "failed": 1}


def test_what_waits_for_a_later_time_for_an_address_or_in_flight_is_not_overdue(partner: Partner) -> None:
    [retried] = send(partner)
    Event.objects.filter(pk=retried.pk).update(due_at=timezone.now() + timedelta(hours=1))
    send(new_partner(""))
    mute = new_partner(partner.webhook_url)
    Partner.objects.filter(pk=mute.pk).update(webhook_secret=None)
    send(mute)
    send(partner)
    delivery.claim(10)
    Event.objects.exclude(pk=retried.pk).update(due_at=timezone.now() - timedelta(seconds=90))

    assert read() == {
        "due": 4,
        "claimed": 1,
        "unreachable": 2,
        "failed": 0,
        "webhook_oldest_due_seconds": 0,
    }
