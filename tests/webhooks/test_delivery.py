"""How an event is stored with what causes it, what a webhooks worker does with it, and how it is erased: after its
retention time, or with its holder."""

import hashlib
import hmac
import io
import json
import logging
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import transaction
from django.db.transaction import TransactionManagementError
from django.test import Client
from django.utils import timezone
from standardwebhooks.webhooks import Webhook

from foundation.redis import redis, to_broker
from partners.models import Partner
from tests.factories import http_of, update_encrypted
from tests.operators import printed, see
from tests.plans import execute
from tests.receiver import Receiver, Reply
from tests.webhooks.deliveries import again, an_event, deliver_due, end_leases, new_partner, send, tried
from webhooks import delivery, models, outbox
from webhooks.models import Attempt, Event
from webhooks.tasks import purge
from webhooks.transport import AttemptResult, Fault


def test_delivers_the_stored_bytes_with_all_headers(partner: Partner, receiver: Receiver) -> None:
    event = tried(partner, receiver, Reply(200, b"thanks"), nome="José")
    [request] = receiver.received
    signature = request.headers["x-service-signature"]
    assert request.body == Event.objects.get(pk=event.pk).body.encode()
    assert request.json()["nome"] == "José"
    assert {name: value for name, value in request.headers.items() if "signature" not in name} == {
        "host": f"127.0.0.1:{receiver.port}",
        "accept-encoding": "identity",
        "content-length": str(len(request.body)),
        "content-type": "application/json",
        "user-agent": "origination-webhooks/1",
        "webhook-id": event.pk,
        "webhook-timestamp": request.headers["webhook-timestamp"],
    }
    assert abs(int(request.headers["webhook-timestamp"]) - request.at) <= 2
    assert Webhook(partner.webhook_secret).verify(request.body, dict(request.headers)) == request.json()
    assert signature == hmac.new(partner.webhook_secret.encode(), request.body, hashlib.sha256).hexdigest()

    assert (event.state, event.attempts, event.worker, event.lease_until) == ("delivered", 1, "", None)
    attempts = [(each.number, each.url, each.status, each.fault, each.excerpt) for each in event.attempt_set.all()]
    assert attempts == [(1, receiver.url, 200, "", "thanks")]


@pytest.mark.parametrize("missing", [{"webhook_url": ""}, {"webhook_secret": None}])
def test_an_event_waits_for_the_partners_address_and_secret(
    partner: Partner, receiver: Receiver, missing: dict[str, Any]
) -> None:
    Partner.objects.update(**missing)
    event = tried(partner, receiver, Reply())
    assert (event.state, event.attempts, receiver.received) == ("due", 0, [])

    Partner.objects.update(webhook_url=receiver.url)
    partner.rotate_webhook_secret()
    deliver_due()
    assert receiver.ids == [event.pk]


def test_address_and_secret_are_those_of_the_attempt(partner: Partner, receiver: Receiver) -> None:
    event = tried(partner, receiver, Reply(500))
    with Receiver() as moved:
        partner.webhook_url = moved.url
        partner.save()
        secret = partner.rotate_webhook_secret()
        assert len(partner.webhook_secrets()) == 2
        again(event)
        [request] = moved.received
    assert request.headers["x-service-signature"] == hmac.new(secret.encode(), request.body, hashlib.sha256).hexdigest()
    for each in partner.webhook_secrets():
        assert Webhook(each).verify(request.body, dict(request.headers)), "the earlier one overlaps"
    assert [attempt.url for attempt in event.attempt_set.all()] == [receiver.url, moved.url]


def test_a_410_is_tried_again_when_its_receiver_says(partner: Partner, receiver: Receiver) -> None:
    """Before the fix, an event had failed with its first 410, which a proxy may send while it is rebuilt."""
    event = tried(partner, receiver, Reply(410, b"unsubscribed", headers={"Retry-After": "15"}))
    assert (event.state, event.attempts, event.fault) == ("due", 1, "gone")
    assert 13 < (event.due_at - timezone.now()).total_seconds() <= 15
    receiver.reply = Reply(200)
    again(event)
    assert (event.state, event.attempts, event.fault, event.due_at) == ("delivered", 2, "", None)
    assert event.delivered_at is not None
    attempts = [(each.number, each.status, each.fault, each.excerpt) for each in event.attempt_set.all()]
    assert attempts == [(1, 410, "gone", "unsubscribed"), (2, 200, "", None)]


def test_an_unreadable_event_is_recorded_as_our_fault_and_stops_no_other(partner: Partner, receiver: Receiver) -> None:
    broken, sound = send(partner, 2)
    execute("UPDATE webhooks_event SET body = 'not ours' WHERE id = %s", [broken.pk])
    deliver_due()

    assert receiver.ids == [sound.pk]
    row = Event.objects.defer("body").get(pk=broken.pk)
    assert (row.state, row.attempts, row.fault, row.failures) == ("due", 1, "internal", 0)


def test_a_secret_that_cannot_sign_is_our_fault_and_the_event_waits_for_a_good_one(
    partner: Partner, receiver: Receiver
) -> None:
    """Before the fix, an event failed after nine attempts that could not even be signed."""
    good = partner.webhook_secret
    update_encrypted(Partner.objects.filter(pk=partner.pk), webhook_secret="whsec_*never issued*")
    event = tried(partner, receiver, Reply())
    assert (event.state, event.fault, receiver.received) == ("due", "internal", [])
    update_encrypted(Partner.objects.filter(pk=partner.pk), webhook_secret=good)
    assert (again(event).state, receiver.ids) == ("delivered", [event.pk])


def test_logs_and_redis_see_no_personal_data(
    partner: Partner, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    [handler] = [each for each in logging.root.handlers if type(each) is logging.StreamHandler]
    monkeypatch.setattr(handler, "stream", written)
    tried(partner, receiver, Reply(500, b"52998224725"), cpf="52998224725")
    output = written.getvalue()
    assert "webhook_attempt" in output
    assert "52998224725" not in output
    assert partner.webhook_secret not in output


def test_unknown_event_of_a_claim_is_no_reason_to_stop(partner: Partner, settings: Any) -> None:
    """An outcome that can't be stored is logged and dropped; its event's lease expires."""
    deliveries = delivery.Deliveries()
    claimed = Event(id="evt_gone", partner=partner, lease_until=timezone.now())
    deliveries._outcomes.append((claimed, AttemptResult(200)))
    deliveries.in_flight = 1
    deliveries.turn(claiming=False)

    assert deliveries.in_flight == 0


def _by_api(event: Event) -> None:
    assert http_of(event.partner).post(f"/partners/v1/webhook-events/{event.pk}/resend").status_code == 202


def _by_page(event: Event) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("operadora"))
    chosen = {"action": "resend_selection", "_selected_action": [event.pk]}
    assert "Colocados na fila" in client.post("/admin/webhooks/event/", chosen, follow=True).text


def _by_command(event: Event) -> None:
    assert printed("resend_webhook", event.pk) == {"id": event.pk, "state": "due"}


@pytest.mark.parametrize("resend", [_by_api, _by_page, _by_command])
def test_a_resend_during_an_attempt_is_followed_by_another(
    partner: Partner, receiver: Receiver, resend: Callable[[Event], None]
) -> None:
    """Before the fix, a resend during an attempt that then succeeded was accepted and never sent."""
    [event] = send(partner)
    [claimed] = delivery.claim(1)
    resend(event)
    assert delivery.claim(1) == [], "the running attempt keeps its place"
    delivery.settle([(claimed, AttemptResult(200))])
    event.refresh_from_db()
    assert (event.state, event.failures, event.attempts) == ("due", 0, 1)
    deliver_due()
    event.refresh_from_db()
    assert (event.state, event.attempts, receiver.ids) == ("delivered", 2, [event.pk])
    deliver_due()
    assert receiver.ids == [event.pk]


def test_an_erased_event_is_not_sent_again_in_any_way(partner: Partner, admin_client: Client) -> None:
    event = an_event(partner, state="failed", body=None, external_reference=None, purged_at=timezone.now())
    http, path = http_of(partner), f"/partners/v1/webhook-events/{event.pk}"
    assert http.get(path).json()["body"] is None
    refused = http.post(f"{path}/resend")
    assert (refused.status_code, refused.json()["code"]) == (409, "invalid_state")
    see(admin_client, event, "apagada")
    chosen = {"action": "resend_selection", "_selected_action": [event.pk]}
    shown = admin_client.post("/admin/webhooks/event/", chosen, follow=True).text
    assert "Não reenviados, pois o conteúdo já foi apagado: 1." in shown
    with pytest.raises(CommandError, match=f"^O conteúdo do evento {event.pk} foi apagado"):
        call_command("resend_webhook", event.pk)
    assert Event.objects.get().state == "failed"


# --- Stored and erased


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


def _age() -> None:
    Event.objects.update(created_at=timezone.now() - timedelta(days=31))


def indexes(*references: str) -> list[str]:
    return [models.reference_index(reference) for reference in references]


def test_content_is_erased_when_its_time_is_over(partner: Partner, receiver: Receiver) -> None:
    old = tried(partner, receiver, Reply(200, b"thanks, Maria"), partner_reference="pedido-7")
    due = tried(partner, receiver, Reply(500))
    _age()
    young = tried(partner, receiver, Reply(200, b"thanks, Maria"))
    purge()

    old.refresh_from_db()
    assert (old.body, old.external_reference, old.reference_index, old.partner_reference) == (None, None, "", "")
    assert old.purged_at is not None
    assert (old.state, old.attempts) == ("delivered", 1)
    assert not Attempt.objects.filter(event=old).exists()
    young.refresh_from_db()
    assert (young.external_reference, young.purged_at) == ("group-0", None)
    assert Attempt.objects.get(event=young).excerpt == "thanks, Maria"
    due.refresh_from_db()
    assert (due.state, due.purged_at, bool(due.body)) == ("due", None, True), "what is still tried keeps its content"


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


def test_an_event_that_is_resent_at_the_last_moment_keeps_its_content(
    partner: Partner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the fix, the purge looked again only for a lease, and an event that was accepted for a resend failed."""
    event = an_event(partner, state="failed", created_at=timezone.now() - timedelta(days=31))
    erase = models._erase_content

    def erase_late(events: Any) -> int:
        event.resend()
        return erase(events)

    monkeypatch.setattr(models, "_erase_content", erase_late)
    purge()
    event.refresh_from_db()
    assert (event.state, bool(event.body)) == ("due", True)


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
