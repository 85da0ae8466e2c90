"""The events in order: `GET /webhook-events?order=asc`."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from foundation.redis import redis
from partners.limits import today
from partners.models import Partner
from tests.factories import PartnerFactory, http_of
from tests.plans import execute, executed
from tests.processes import wait_until
from tests.transactions import elsewhere
from tests.webhooks.deliveries import new_partner, send
from webhooks.models import Event
from webhooks.outbox import news_for

pytestmark = pytest.mark.django_db(transaction=True)
PATH = "/partners/v1/webhook-events"


class Reader:
    """A partner that reads its events in order."""

    def __init__(self, partner: Partner) -> None:
        self.http = http_of(partner)
        self.cursor = ""

    def page(self, **filters: Any) -> list[dict[str, Any]]:
        """The next page."""
        response = self.http.get(PATH, {"order": "asc", "cursor": self.cursor, **filters})
        assert response.status_code == 200, response.content
        self.cursor = response.json()["next_cursor"]
        assert self.cursor
        return response.json()["events"]

    def ids(self, **filters: Any) -> list[str]:
        return [each["id"] for each in self.page(**filters)]


@pytest.fixture
def reader(partner: Partner) -> Reader:
    return Reader(partner)


def test_events_come_oldest_first_and_each_once(partner: Partner, reader: Reader) -> None:
    first = [event.pk for event in send(partner, 60)]
    pages = [reader.ids(), reader.ids(), reader.ids()]
    assert [len(page) for page in pages] == [50, 10, 0]
    assert sorted(pages[0] + pages[1]) == sorted(first)
    [last] = send(partner)
    send(PartnerFactory())
    assert reader.ids() == [last.pk]
    assert Reader(partner).ids() == pages[0], "one order for every reader"
    short, capped = Reader(partner), Reader(partner)
    assert short.ids(limit="7") + short.ids(limit="7") == pages[0][:14]
    assert capped.ids(limit="51") == pages[0]


def test_an_event_that_commits_late_is_not_skipped(partner: Partner, reader: Reader) -> None:
    """By the time of writing alone, the reader's cursor would stand behind it already."""
    with elsewhere(lambda: send(partner)[0]) as commit:
        [early] = send(partner)
        assert reader.ids() == [], "what a running transaction may still precede is held back"
        late = commit()
    assert reader.ids() == [late.pk, early.pk]


def test_without_events_the_cursor_is_kept(partner: Partner, reader: Reader) -> None:
    """And without a URL."""
    Partner.objects.update(webhook_url="")
    assert reader.ids() == []
    start = reader.cursor
    [event] = send(partner)
    assert [(each["id"], each["state"]) for each in reader.page()] == [(event.pk, "due")]
    behind = reader.cursor
    assert reader.ids() == reader.ids(wait_s=1) == [], "a call that waits ends with its time"
    assert (reader.cursor, start != behind) == (behind, True)


def test_bodies_are_those_that_are_sent(partner: Partner, reader: Reader) -> None:
    [event] = send(partner, nome="Ação")
    [plain] = Reader(partner).page()
    [whole] = reader.page(include="body")
    assert "body" not in plain
    assert whole == {**plain, "body": json.loads(event.body or "")}
    response = reader.http.get(PATH, {"include": "body"})
    assert response.json()["events"] == [whole]


def test_filters_narrow_it(partner: Partner, reader: Reader) -> None:
    send(partner)
    [named] = send(partner, partner_reference="pedido-7")
    assert reader.ids(partner_reference="pedido-7") == [named.pk]
    assert Reader(partner).ids(event="authorization_result") == []
    assert Event.objects.get(pk=named.pk).partner_reference == "pedido-7"


def test_a_cursor_is_of_one_order(partner: Partner, reader: Reader) -> None:
    send(partner, 101)
    reader.ids()
    downwards = reader.http.get(PATH).json()["next_cursor"]
    for filters in ({"order": "asc", "cursor": downwards}, {"cursor": reader.cursor}):
        refused = reader.http.get(PATH, filters)
        assert (refused.status_code, refused.json()["field"]) == (422, "cursor")


def test_events_that_a_waiting_call_does_not_want_cost_little(partner: Partner, reader: Reader) -> None:
    """Before the fix, every event of the partner cost each of its waiting calls some looks: 128 calls slowed others."""
    is_over = threading.Event()

    def others() -> None:
        while not is_over.wait(0.02):
            send(partner)
        connection.close()

    thread = threading.Thread(target=others)
    thread.start()
    with executed() as statements:
        assert reader.page(wait_s=3, event="webhook.test") == []
    is_over.set()
    thread.join()
    assert sum("pg_snapshot_xmin" in sql for sql in statements) < 15


def test_a_call_costs_one_statement_beside_the_keys(partner: Partner, reader: Reader) -> None:
    send(partner)
    reader.ids()
    with executed() as statements:
        assert reader.ids() == []
    assert len([sql for sql in statements if sql.startswith("SELECT")]) == 1


@contextmanager
def waiting(partner: Partner) -> Iterator[Future[Any]]:
    """A call of the partner that waits for an event, in a thread of its own."""

    def call() -> Any:
        try:
            return http_of(partner).get(PATH, {"order": "asc", "wait_s": 20}).json()
        finally:
            connection.close()

    def is_heard() -> bool:
        [(_, listeners)] = redis().pubsub_numsub(f"work:{news_for(partner.pk)}")
        return bool(listeners)

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call)
        wait_until(is_heard, 10, "the call waits")
        yield answer


def test_a_waiting_call_answers_with_the_first_event(partner: Partner) -> None:
    began = time.monotonic()
    with waiting(partner) as answer:
        wait_until(lambda: today(partner).in_flight == 1, 10, "it counts as a query in flight")
        assert execute("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'") == [(0,)]
        [event] = send(partner)
    assert [each["id"] for each in answer.result()["events"]] == [event.pk]
    assert time.monotonic() - began < 19, "it did not wait to the end"


def test_a_waiting_call_tells_nothing_once_its_key_is_refused(partner: Partner) -> None:
    """Before the fix, a call that waited told the events after its key was revoked or its partner suspended."""
    with waiting(partner) as answer:
        partner.suspend()
        send(partner)
    assert answer.result()["code"] == "unauthorized"


def test_a_waiting_call_sees_what_a_running_transaction_hid(partner: Partner) -> None:
    with waiting(partner) as answer:
        with elsewhere(lambda: send(new_partner(""))):
            [event] = send(partner)
            assert not answer.done()
        assert [each["id"] for each in answer.result()["events"]] == [event.pk]
