"""What a webhooks worker does with one event: the request that it sends, the rows that it writes."""

import hashlib
import hmac
import io
import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone
from standardwebhooks.webhooks import Webhook

from partners.models import Partner
from tests.commands import printed
from tests.factories import http_of, update_encrypted
from tests.operators import see
from tests.receiver import Receiver, Reply
from tests.webhooks.deliveries import an_event, deliver_due, make_due, send
from webhooks import delivery
from webhooks.models import Event
from webhooks.transport import AttemptResult


def test_delivers_the_stored_bytes_with_all_headers(partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(200, b"thanks")
    [event] = send(partner, nome="José")
    deliver_due()

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

    event.refresh_from_db()
    assert (event.state, event.attempts, event.worker, event.lease_until) == ("delivered", 1, "", None)
    attempts = [(each.number, each.url, each.status, each.fault, each.excerpt) for each in event.attempt_set.all()]
    assert attempts == [(1, receiver.url, 200, "", "thanks")]


@pytest.mark.parametrize("missing", [{"webhook_url": ""}, {"webhook_secret": None}])
def test_an_event_waits_for_the_partners_address_and_secret(
    partner: Partner, receiver: Receiver, missing: dict[str, Any]
) -> None:
    Partner.objects.update(**missing)
    [event] = send(partner)
    deliver_due()
    event.refresh_from_db()
    assert (event.state, event.attempts, receiver.received) == ("due", 0, [])

    Partner.objects.update(webhook_url=receiver.url)
    partner.rotate_webhook_secret()
    deliver_due()
    assert receiver.ids == [event.pk]


def test_address_and_secret_are_those_of_the_attempt(partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(500)
    [event] = send(partner)
    deliver_due()
    with Receiver() as moved:
        partner.webhook_url = moved.url
        partner.save()
        secret = partner.rotate_webhook_secret()
        assert len(partner.webhook_secrets()) == 2
        make_due(event)
        deliver_due()

        [request] = moved.received
    assert request.headers["x-service-signature"] == hmac.new(secret.encode(), request.body, hashlib.sha256).hexdigest()
    for each in partner.webhook_secrets():
        assert Webhook(each).verify(request.body, dict(request.headers)), "the earlier one overlaps"
    assert [attempt.url for attempt in event.attempt_set.all()] == [receiver.url, moved.url]


def test_a_410_is_tried_again_when_its_receiver_says(partner: Partner, receiver: Receiver) -> None:
    """Before the fix, an event had failed with its first 410, which a proxy may send while it is rebuilt."""
    receiver.reply = Reply(410, b"unsubscribed", headers={"Retry-After": "15"})
    [event] = send(partner)
    deliver_due()
    event.refresh_from_db()
    assert (event.state, event.attempts, event.fault) == ("due", 1, "gone")
    assert 13 < (event.due_at - timezone.now()).total_seconds() <= 15
    receiver.reply = Reply(200)
    make_due(event)
    deliver_due()
    event.refresh_from_db()
    assert (event.state, event.attempts, event.fault, event.due_at) == ("delivered", 2, "", None)
    assert event.delivered_at is not None
    attempts = [(each.number, each.status, each.fault, each.excerpt) for each in event.attempt_set.all()]
    assert attempts == [(1, 410, "gone", "unsubscribed"), (2, 200, "", None)]


def test_an_unreadable_event_is_recorded_as_our_fault_and_stops_no_other(partner: Partner, receiver: Receiver) -> None:
    broken, sound = send(partner, 2)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE webhooks_event SET body = 'not ours' WHERE id = %s", [broken.pk])
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
    [event] = send(partner)
    deliver_due()
    event.refresh_from_db()
    assert (event.state, event.fault, receiver.received) == ("due", "internal", [])
    update_encrypted(Partner.objects.filter(pk=partner.pk), webhook_secret=good)
    make_due(event)
    deliver_due()
    event.refresh_from_db()
    assert (event.state, receiver.ids) == ("delivered", [event.pk])


def test_logs_and_redis_see_no_personal_data(
    partner: Partner, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    [handler] = [each for each in logging.root.handlers if type(each) is logging.StreamHandler]
    monkeypatch.setattr(handler, "stream", written)
    receiver.reply = Reply(500, b"52998224725")
    send(partner, cpf="52998224725")
    deliver_due()

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
    assert "Colocados na fila" in client.post("/admin/webhooks/event/", chosen, follow=True).content.decode()


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
    shown = admin_client.post("/admin/webhooks/event/", chosen, follow=True).content.decode()
    assert "Não reenviados, pois o conteúdo já foi apagado: 1." in shown
    with pytest.raises(CommandError, match=f"^O conteúdo do evento {event.pk} foi apagado"):
        call_command("resend_webhook", event.pk)
    assert Event.objects.get().state == "failed"
