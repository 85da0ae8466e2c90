"""How events are stored with what causes them, and erased: after their retention time, or with their holder."""

import json
import uuid
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction
from django.db.transaction import TransactionManagementError
from django.utils import timezone

from foundation.redis import redis, to_broker
from partners.models import Partner
from tests.receiver import Receiver, Reply
from tests.webhooks.deliveries import deliver_due, end_leases, new_partner, send
from webhooks import delivery, models, outbox
from webhooks.models import Attempt, Event
from webhooks.tasks import purge
from webhooks.transport import AttemptResult, Fault

CPF = "52998224725"


def test_stores_the_body_as_it_will_be_sent(partner: Partner) -> None:
    offers = [{"offerId": uuid.UUID(int=7), "loanValue": Decimal("1234.50"), "interestRate": Decimal("0.1")}]

    event = outbox.send(partner, "authorization_result", CPF, {"provider": "imbuia", "offers": offers})
    stored = Event.objects.get(pk=event.pk)
    body = json.loads(stored.body)
    moment = body.pop("timestamp")
    assert moment.endswith("Z")
    assert datetime.fromisoformat(moment).utcoffset() is not None
    assert body == {
        "partner_id": str(partner.pk),
        "external_reference": CPF,
        "event": "authorization_result",
        "provider": "imbuia",
        "offers": [{"offerId": "00000000-0000-0000-0000-000000000007", "loanValue": 1234.5, "interestRate": 0.1}],
    }
    assert '"loanValue":1234.50' in stored.body
    assert (stored.state, stored.attempts, stored.fault) == ("due", 0, "")
    assert stored.id.startswith("evt_")


@pytest.mark.parametrize(
    ("asked_for", "event", "stored"),
    [
        (["lead"], "lead", True),
        (["lead"], "authorization_result", False),
        (["authorization.completed"], "authorization.completed", True),
        (["proposal"], "proposal.signed", True),
        (["lead"], "proposal.signed", False),
        ([], "lead", False),
    ],
)
def test_only_what_the_registration_asks_for(partner: Partner, asked_for: list[str], event: str, stored: bool) -> None:
    partner.webhook_events = asked_for

    assert (outbox.send(partner, event, "reference", {}) is not None) is stored
    assert Event.objects.exists() is stored


@pytest.mark.django_db(transaction=True)
def test_an_event_needs_a_transaction_and_goes_with_it() -> None:
    partner = new_partner("https://partner.example/w")
    with pytest.raises(TransactionManagementError):
        outbox.send(partner, "lead", "group", {})
    with transaction.atomic():
        assert outbox.send(partner, "lead", "group", {}) is not None
        transaction.set_rollback(True)
    assert not Event.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_commit_of_an_event_rings_its_delivery() -> None:
    """Before the fix, an event waited up to 0.2 s until the delivery process looked again."""
    partner = new_partner("https://partner.example/w")
    redis().delete("webhooks", f"rung:{Event.task}")
    send(partner, 3)
    # The bell is posted before that is asked, and so is sent before it.
    assert to_broker().send(("LLEN", "webhooks")) == [1], "one message for many events"
    redis().delete(f"rung:{Event.task}")
    Event.objects.all()[0].resend()
    assert to_broker().send(("LLEN", "webhooks")) == [2]
    redis().delete("webhooks", f"rung:{Event.task}")


# --- Erasing ------------------------------------------------------------------------------------------------------


AGE = timedelta(days=31)


def _age() -> None:
    Event.objects.update(created_at=timezone.now() - AGE)


def indexes(*references: str) -> list[str]:
    return [models.reference_index(reference) for reference in references]


def test_content_is_erased_when_its_time_is_over(partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(200, b"thanks, Maria")
    [old] = send(partner, partner_reference="pedido-7")
    deliver_due()
    _age()
    [young] = send(partner)
    deliver_due()
    purge()

    old.refresh_from_db()
    assert (old.body, old.external_reference, old.reference_index, old.partner_reference) == (None, None, "", "")
    assert old.purged_at is not None
    assert (old.state, old.attempts) == ("delivered", 1)
    assert not Attempt.objects.filter(event=old).exists()
    young.refresh_from_db()
    assert (young.external_reference, young.purged_at) == ("group-0", None)
    assert Attempt.objects.get(event=young).excerpt == "thanks, Maria"


def test_what_is_still_tried_keeps_its_content(partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(500)
    [event] = send(partner)
    deliver_due()
    _age()
    purge()

    event.refresh_from_db()
    assert (event.state, event.purged_at) == ("due", None)
    assert event.body


@pytest.mark.parametrize(
    ("rows", "values"),
    [(Partner, {"webhook_url": ""}), (Partner, {"webhook_secret": None}), (Event, {"fault": Fault.INTERNAL})],
    ids=["address", "secret", "our own fault"],
)
def test_what_could_not_be_sent_all_that_time_fails(partner: Partner, rows: Any, values: dict[str, Any]) -> None:
    [event] = send(partner)
    rows.objects.update(**values)
    _age()
    purge()

    event.refresh_from_db()
    assert (event.state, event.due_at, event.body) == ("failed", None, None)


def test_an_attempt_in_flight_is_left_alone(partner: Partner) -> None:
    [event] = send(partner)
    delivery.claim(1)
    partner.webhook_url = ""
    partner.save()
    _age()
    assert models.purge(timezone.now()) == 0

    end_leases()
    assert models.purge(timezone.now()) == 1
    event.refresh_from_db()
    assert event.state == "failed"


def test_many_go_in_batches(partner: Partner) -> None:
    send(partner, 3)
    Event.objects.update(state="delivered", due_at=None)
    Event.objects.bulk_create(
        Event(partner=partner, name="lead", body="{}", state="delivered", due_at=None) for _ in range(1_100)
    )

    assert models.purge(timezone.now()) == 1_103
    assert not Event.objects.filter(purged_at=None).exists()


def test_a_holders_events_are_erased_whatever_their_state(partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(200, b"thanks, Maria")
    [delivered, other] = send(partner, 2)
    deliver_due()
    [due] = send(partner)
    [waiting] = send(new_partner(""))

    assert models.erase(indexes("group-0", "group-7")) == 3
    for event in (delivered, due, waiting):
        event.refresh_from_db()
        assert (event.body, event.external_reference, event.reference_index) == (None, None, "")
        assert event.purged_at is not None
    assert [event.state for event in (delivered, due, waiting)] == ["delivered", "failed", "failed"]
    other.refresh_from_db()
    assert (other.external_reference, other.purged_at) == ("group-1", None)
    assert [(attempt.event_id, attempt.excerpt) for attempt in Attempt.objects.all()] == [(other.pk, "thanks, Maria")]
    assert models.erase(indexes("group-0")) == 0


@pytest.mark.parametrize(("status", "state"), [(200, "delivered"), (500, "failed")])
def test_of_an_attempt_under_way_only_the_outcome_is_noted(partner: Partner, status: int, state: str) -> None:
    [event] = send(partner)
    [claimed] = delivery.claim(1)
    assert models.erase(indexes("group-0")) == 1
    fault = None if status == 200 else Fault.STATUS
    answer = AttemptResult(status=status, fault=fault, excerpt="thanks, Maria")
    delivery.settle([(claimed, answer)])

    event.refresh_from_db()
    assert (event.state, event.attempts, event.due_at, event.body) == (state, 1, None, None)
    assert not Attempt.objects.exists()
    assert delivery.claim(1) == []


def test_what_was_erased_is_not_sent_nor_is_it_ours_any_more(partner: Partner) -> None:
    """An event is claimed with its body, so that nothing can be erased between the two."""
    erased, kept = send(partner, 2)
    assert {event.body for event in delivery.claim(2)} == {erased.body, kept.body}
    models.erase(indexes("group-0"))
    Event.objects.filter(pk=kept.pk).update(lease_until=timezone.now())

    assert [event.pk for event in delivery.claim(2)] == [kept.pk]
    erased.refresh_from_db()
    assert (erased.state, erased.worker, erased.lease_until) == ("failed", "", None)
