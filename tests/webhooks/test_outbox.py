import json
import uuid
from datetime import datetime
from decimal import Decimal

import pytest
from django.db import transaction
from django.db.transaction import TransactionManagementError

from foundation.redis import redis, to_broker
from partners.models import Partner
from tests.receiver import Receiver
from tests.webhooks.deliveries import new_partner, send
from webhooks import outbox
from webhooks.models import DELIVER, Event

CPF = "52998224725"


def test_stores_the_body_as_it_will_be_sent(partner: Partner) -> None:
    offers = [{"offerId": uuid.UUID(int=7), "loanValue": Decimal("1234.50"), "interestRate": Decimal("0.1")}]

    event = outbox.send(partner, "authorization_result", CPF, {"provider": "imbuia", "offers": offers})

    assert event is not None
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
def test_a_rolled_back_cause_leaves_no_event(receiver: Receiver) -> None:
    partner = new_partner(receiver.url)

    def cause() -> None:
        with transaction.atomic():
            outbox.send(partner, "lead", "group", {})
            raise InterruptedError

    with pytest.raises(InterruptedError):
        cause()
    assert not Event.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_refused_outside_a_transaction(receiver: Receiver) -> None:
    partner = new_partner(receiver.url)

    with pytest.raises(TransactionManagementError):
        outbox.send(partner, "lead", "group", {})


@pytest.mark.django_db(transaction=True)
def test_the_commit_of_an_event_rings_its_delivery() -> None:
    """Before the fix, an event waited up to 0.2 s until the delivery process looked again."""
    partner = new_partner("https://partner.example/w")
    redis().delete("webhooks", f"rung:{DELIVER}")
    send(partner, 3)
    # The bell is posted before that is asked, and so is sent before it.
    assert to_broker().send(("LLEN", "webhooks")) == [1], "one message for many events"
    redis().delete(f"rung:{DELIVER}")
    Event.objects.all()[0].resend()
    assert to_broker().send(("LLEN", "webhooks")) == [2]
    redis().delete("webhooks", f"rung:{DELIVER}")
