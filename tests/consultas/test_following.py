"""Identical queries at the same time: one asks the banks, the others take its answers."""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from consultas.models import Query
from consultas.query import begin, end, listen
from partners.models import Partner
from providers.errors import BankTimedOut
from tests.consultas.test_ending import OFFER, a_running_query, an_answer, identical, land, partner, statuses, told

__all__ = ["partner"]

pytestmark = pytest.mark.django_db(transaction=True)  # connections are given back while it waits


@pytest.fixture
def leader(partner: Partner, redis_url: str) -> Query:
    """A query whose web process and worker died."""
    return a_running_query(partner, fingerprint=uuid.uuid4().hex)


def begun(leader: Query) -> Query:
    query = identical(leader)
    assert begin._insert(query) == begin.NOTHING
    return query


def reply_to(query: Query) -> bytes:
    try:
        return bytes(listen.aggregate(query))
    finally:
        connection.close()


def test_the_second_asks_no_bank_and_shows_the_firsts_offers(leader: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("foundation.workers.publish")
    follower = begun(leader)
    assert follower.follows == leader.id
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(reply_to, follower)
        end.end(leader, [an_answer("ipe", OFFER), an_answer("cedro"), an_answer("jatoba")])
        reply = json.loads(waiting.result(20))
    assert (reply["queryId"], reply["simulationGroupId"]) == (str(follower.id), str(leader.id))
    assert [offer["provider"] for offer in reply["proposals"]] == ["ipe"]
    assert statuses(follower) == statuses(leader)
    assert len(told("lead")) == 1
    assert len(told("query.completed")) == 2


def test_a_reader_that_only_sees_that_the_query_has_ended_replies_with_its_result(leader: Query) -> None:
    """Before the fix, a reader that had missed the worker's message was answered 200 with the body `null`."""
    end.end(leader, [an_answer("ipe", OFFER)])
    reply = json.loads(bytes(listen.aggregate(leader, publishes=False)))
    assert [offer["provider"] for offer in reply["proposals"]] == ["ipe"]


def test_of_many_at_the_same_moment_one_asks(leader: Query) -> None:
    end.end(leader)
    Query.objects.filter(pk=leader.pk).update(created_at=timezone.now() - timedelta(seconds=61))

    def insert(query: Query) -> Query:
        try:
            begin._insert(query)
        finally:
            connection.close()
        return query

    with ThreadPoolExecutor(8) as pool:
        queries = list(pool.map(insert, [identical(leader) for _ in range(8)]))
    [asks] = [query for query in queries if query.follows is None]
    assert {query.follows for query in queries} == {None, asks.id}


def test_at_its_deadline_the_follower_takes_the_leaders_answers_so_far(
    leader: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the fix, the follower showed a time-out for every bank. One `lead` is sent, and both show the same
    offer."""
    monkeypatch.setattr(listen, "LATE_S", 0.0)
    follower = begun(leader)
    land(leader, an_answer("ipe", OFFER), an_answer("cedro"))
    Query.objects.update(deadline_at=timezone.now())
    follower.refresh_from_db()
    reply = json.loads(reply_to(follower))
    end.end(leader)
    assert (
        statuses(leader)
        == statuses(follower)
        == {
            "cedro": "no_offers",
            "ipe": "ok",
            "jatoba": BankTimedOut().message,
        }
    )
    assert [offer["provider"] for offer in reply["proposals"]] == ["ipe"]
    assert len(told("query.completed")) == 2


def test_a_query_whose_time_is_over_is_followed_by_none(leader: Query) -> None:
    land(leader, an_answer("ipe", OFFER))
    leader.deadline_at = timezone.now()
    leader.save(update_fields=["deadline_at"])
    query = identical(leader)
    earlier = begin._insert(query)
    assert query.follows is None
    assert [answer.provider for answer in earlier.still_good()] == ["ipe"]
    leader.refresh_from_db()
    assert leader.finished_at is not None
