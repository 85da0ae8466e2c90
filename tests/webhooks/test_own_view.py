"""GET /webhook, GET /webhook-events, one event, its resend and the test event: a partner's own view."""

import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from standardwebhooks.webhooks import Webhook

from foundation.formats import iso_utc
from foundation.models import AuditEntry
from partners.limits import Policy, Usage
from partners.models import Partner
from tests.client import error_body
from tests.factories import PartnerFactory, http_of
from tests.plans import assert_found_by, copy_rows
from tests.receiver import Receiver, Reply
from tests.webhooks.deliveries import an_event, deliver_due, new_partner, send, tried
from webhooks import views
from webhooks.models import Event

API = "/partners/v1"


def listed(http: Client, **filters: str) -> dict[str, Any]:
    response = http.get(f"{API}/webhook-events", filters)
    assert response.status_code == 200, response.content
    return response.json()  # type: ignore[no-any-return]


def ids(page: dict[str, Any]) -> list[str]:
    return [row["id"] for row in page["events"]]


def shown(event: Event, state: str, **more: Any) -> dict[str, Any]:
    """What the lists show of an event, and `more`."""
    next_attempt_at = f"{event.due_at:%Y-%m-%dT%H:%M:%SZ}" if event.due_at else None
    known = {"id": event.pk, "event": "lead", "state": state, "created_at": iso_utc(event.created_at)}
    return {**known, "next_attempt_at": next_attempt_at, **more}


def test_the_registration_without_its_secret(http: Client, partner: Partner, receiver: Receiver) -> None:
    events = ["lead", "authorization_result", "authorization.completed", "proposal"]
    told = {"url": receiver.url, "events": events, "secret_set": True, "retired_secrets": 0}
    assert http.get(f"{API}/webhook").json() == told
    partner.rotate_webhook_secret()
    partner.rotate_webhook_secret()
    assert http.get(f"{API}/webhook").json() == {**told, "retired_secrets": 2}
    told |= {"url": None, "events": events[:3], "secret_set": False}
    assert http_of().get(f"{API}/webhook").json() == told, "one without URL and secret"


def test_a_page_whole(http: Client, partner: Partner, receiver: Receiver) -> None:
    delivered = tried(partner, receiver, Reply())
    [due] = send(partner)
    send(new_partner(receiver.url))  # a stranger's
    events = [shown(due, "due", attempts=0), shown(delivered, "delivered", attempts=1)]
    assert listed(http) == {"events": events, "next_cursor": None}
    assert [event["next_attempt_at"] is None for event in events] == [False, True]


def test_filters(http: Client, partner: Partner) -> None:
    """Which ones are refused: tests/unit/test_filters.py."""
    now = timezone.now()
    old = an_event(partner, created_at=now - timedelta(days=2))
    signed = an_event(partner, name="proposal.signed", state="failed")
    result = an_event(partner, name="authorization_result")
    stage = an_event(partner, name="proposal.stage_changed", created_at=now - timedelta(days=3))
    yesterday = f"{now - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    for filters, found in (
        ({"state": "failed"}, [signed]),
        ({"event": "proposal"}, [signed]),
        ({"event": "proposal.stage_changed"}, [stage]),
        ({"event": "proposal.signed"}, [signed]),
        ({"event": "authorization_result"}, [result]),
        ({"to": yesterday}, [old, stage]),
        ({"from": yesterday, "state": "due"}, [result]),
        ({"state": "", "event": "", "from": "", "to": "", "cursor": ""}, [result, signed, old, stage]),
    ):
        assert set(ids(listed(http, **filters))) == {event.pk for event in found}, filters


def test_pages_of_100_stay_right_while_events_are_added(http: Client, partner: Partner) -> None:
    sent = [event.pk for event in send(partner, 103)]
    Event.objects.filter(partner=partner).update(created_at=timezone.now())  # all with the same time
    first = listed(http)
    send(partner)
    second = listed(http, cursor=first["next_cursor"])
    assert (len(first["events"]), len(second["events"]), second["next_cursor"]) == (100, 3, None)
    assert sorted(ids(first) + ids(second)) == sorted(sent)


def test_a_page_is_as_small_as_asked_for(http: Client, partner: Partner) -> None:
    """Before the fix, this list ignored `limit`, which partners know from the two others."""
    sent = {event.pk for event in send(partner, 60)}
    for filters, length in (({"limit": "55"}, 55), ({"limit": "55", "include": "body"}, 50)):
        first = listed(http, **filters)
        second = listed(http, **filters, cursor=first["next_cursor"])
        assert len(first["events"]) == length
        assert {*ids(first), *ids(second)} == sent


def test_an_event_with_its_body_and_attempts(http: Client, partner: Partner, receiver: Receiver) -> None:
    event = tried(partner, receiver, Reply(500, body=b"out of order"))
    response = http.get(f"{API}/webhook-events/{event.pk}")
    told = response.json()
    [attempt] = told.pop("attempts")
    attempt_row = event.attempt_set.get()
    assert attempt == {
        "number": 1,
        "at": iso_utc(attempt_row.at),
        "url": receiver.url,
        "status": 500,
        "fault": "status",
        "duration_ms": attempt_row.duration_ms,
        "answer": "out of order",
    }
    body = json.loads(event.body or "")
    assert told == shown(event, "due", attempts_total=1, delivered_at=None, body=body)
    assert response["Cache-Control"] == "no-store"


def test_only_the_newest_attempts_are_told(http: Client, partner: Partner, receiver: Receiver) -> None:
    """Before the fix, an event with 40,000 attempts was a reply of 21.7 MB."""
    event = an_event(partner, (0, "", 120))
    told = http.get(f"{API}/webhook-events/{event.pk}").json()
    assert [each["number"] for each in told["attempts"]] == list(range(71, 121))
    assert told["attempts_total"] == 120


def test_a_resend_of_an_event_that_is_still_due_sends_it_once(
    http: Client, partner: Partner, receiver: Receiver
) -> None:
    event = an_event(partner, due_at=timezone.now() + timedelta(hours=1), attempts=1, failures=1)
    for _ in range(2):
        answer = http.post(f"{API}/webhook-events/{event.pk}/resend")
        assert (answer.status_code, answer.json()["state"], answer.json()["attempts"]) == (202, "due", 1)
        assert listed(http)["events"] == [answer.json()]
    deliver_due()
    deliver_due()
    assert receiver.ids == [event.pk]


def use_up(partner: Partner, policy: Policy, count: int) -> None:
    """Let so many calls that this limit counts have been made."""
    for _ in range(count):
        Usage(partner).count(policy, count)


@pytest.mark.parametrize(
    ("path", "policy"), [("webhook-events/test", views.TESTS), ("webhook-events/{}/resend", views.RESENDS)]
)
def test_resends_and_test_events_are_limited_a_minute(
    http: Client, partner: Partner, path: str, policy: Policy
) -> None:
    """Before the fix, 300 test events and 100 resends in a row were all taken."""
    path = f"{API}/{path.format(send(partner)[0].pk)}"
    use_up(partner, policy, 29)
    assert [http.post(path).status_code for _ in range(2)] == [202, 429]
    refused = http.post(path)
    assert (refused.json()["code"], refused.json()["retryable"]) == ("rate_limited", True)
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert http.get(f"{API}/webhook-events").status_code == 200, "another limit than that of calls"


@pytest.mark.control("API1")
def test_another_partners_events_do_not_exist(partner: Partner) -> None:
    [event] = send(partner)
    other = http_of()
    assert listed(other) == {"events": [], "next_cursor": None}
    for key in (event.pk, "evt_0", "evt_" + "0" * 32, "%00", "x" * 400):
        path = f"{API}/webhook-events/{key}"
        for reply in (other.get(path), other.post(f"{path}/resend")):
            assert (reply.status_code, reply.json()) == (404, error_body("not_found", "Recurso não encontrado."))
    assert Event.objects.get().attempts == 0


def test_a_test_event_comes_whatever_the_registration_asks_for(
    http: Client, partner: Partner, receiver: Receiver
) -> None:
    Partner.objects.update(webhook_events=[])
    response = http.post(f"{API}/webhook-events/test")
    assert response.status_code == 202
    event = Event.objects.get()
    assert response.json() == listed(http)["events"][0]
    deliver_due()
    [delivery] = receiver.wait_for(1)
    partner.refresh_from_db()
    body = Webhook(str(partner.webhook_secret)).verify(delivery.body, delivery.headers)
    assert {**body, "timestamp": None} == {
        "partner_id": str(partner.pk),
        "external_reference": str(uuid.UUID(body["external_reference"])),
        "event": "webhook.test",
        "timestamp": None,
    }
    assert receiver.ids == [event.pk]


@pytest.mark.parametrize("lacking", ["webhook_url", "webhook_secret"])
def test_a_test_event_without_where_to_send_it(http: Client, partner: Partner, lacking: str) -> None:
    Partner.objects.update(**{lacking: "" if lacking == "webhook_url" else None})
    response = http.post(f"{API}/webhook-events/test")
    assert (response.status_code, response.json()["code"]) == (409, "invalid_state")
    assert not Event.objects.exists()


@pytest.fixture
def put(http: Client) -> Callable[..., Any]:
    return lambda **body: http.put(f"{API}/webhook", body, "application/json")


def test_a_sandbox_partner_sets_its_own_webhook(put: Callable[..., Any], partner: Partner, http: Client) -> None:
    """Before, each test of a receiver took an operator."""
    before = partner.webhook_secret
    told = put(url="https://parceiro.example/w", events=["lead", "proposal"]).json()
    assert told == {"url": "https://parceiro.example/w", "events": ["lead", "proposal"]} | {
        "secret_set": True,
        "retired_secrets": 0,
    }
    assert http.get(f"{API}/webhook").json() == told
    rotated = put(rotate_secret=True).json()
    partner.refresh_from_db()
    assert rotated == {**told, "retired_secrets": 1, "secret": partner.webhook_secret}
    assert partner.webhook_secrets() == [rotated["secret"], before]
    entry = AuditEntry.objects.filter(action="changed").earliest("at")
    assert (entry.who, entry.object_id) == (f"parceiro {partner.pk}", str(partner.pk))
    assert entry.changes["url"][1] == "https://parceiro.example/w"
    assert rotated["secret"] not in str(list(AuditEntry.objects.values()))
    assert put(url=None).json()["url"] is None
    entries = AuditEntry.objects.count()
    assert put().status_code == 200
    assert AuditEntry.objects.count() == entries, "before the fix, a call that changed nothing left an entry"
    first = http_of().put(f"{API}/webhook", {"url": "https://parceiro.example/w"}, "application/json").json()
    assert (first["secret_set"], first["secret"][:6]) == (True, "whsec_"), "the first URL comes with a secret"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"url": "ftp://x.example"}, "url"),
        ({"url": 7}, "url"),
        ({"events": ["zzz"]}, "events.0"),
        ({"events": None}, "events"),
        ({"rotate_secret": "yes"}, "rotate_secret"),
    ],
)
def test_a_wrong_registration_is_refused(put: Callable[..., Any], body: dict[str, Any], field: str) -> None:
    response = put(**body)
    assert (response.status_code, response.json()["field"]) == (422, field)


def test_secrets_are_rotated_twenty_times_a_day(put: Callable[..., Any], partner: Partner) -> None:
    use_up(partner, views.ROTATIONS, 19)
    assert [put(rotate_secret=True).status_code for _ in range(2)] == [200, 429]


def test_in_production_nobody_changes_the_url_by_the_api(partner: Partner, settings: Any) -> None:
    settings.PRODUCTION = True
    http = http_of(partner)
    for method in ("post", "put", "patch", "delete"):
        response = getattr(http, method)(f"{API}/webhook", {"url": "https://x.example"}, "application/json")
        assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")
        assert "PUT" not in response["Allow"]


def test_every_filter_has_its_index(http: Client, partner: Partner) -> None:
    """With many events of many partners, no filter reads the whole table, or all events of the partner."""
    send(partner)
    copy_rows(
        Event.objects.get(),
        10_000,
        id="'evt_' || gen_random_uuid()",
        partner_id=f"CASE n % 10 WHEN 0 THEN partner_id ELSE '{PartnerFactory().pk}' END",
        name="CASE n % 500 WHEN 0 THEN 'proposal.signed' ELSE name END",
        state="CASE n % 500 WHEN 10 THEN 'failed' WHEN 20 THEN 'due' ELSE 'delivered' END",
        due_at="CASE n % 500 WHEN 20 THEN now() END",
        created_at="created_at - n * interval '1 hour'",
        xact_id="1 + n / 100",
    )
    for filters, index in (
        ({}, "event_newest"),
        ({"from": (timezone.now() - timedelta(hours=200)).isoformat()}, "event_newest"),
        ({"event": "proposal.signed"}, "event_by_name"),
        ({"state": "failed"}, "event_failed"),
        ({"state": "due"}, "event_due"),  # before the fix, the whole table was read
        ({"order": "asc"}, "event_in_order"),
    ):
        page = "LIMIT 50" if "order" in filters else "LIMIT 101"
        assert_found_by(index, page, lambda filters=filters: listed(http, **filters)["events"])
