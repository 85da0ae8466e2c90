"""A query that follows an identical one takes that one's answers, even if the other's web process died."""

from __future__ import annotations

import json
import time
import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from consultas import ending, flight, queries
from consultas.models import Query
from foundation import replies
from foundation.heartbeats import beat_once, worker_id
from foundation.redis import redis
from partners.models import Partner
from providers.errors import BankTimedOut
from tests.consultas.test_ending import OFFER, a_running_query, an_answer, land, partner, statuses, told

__all__ = ["partner"]

pytestmark = pytest.mark.django_db(transaction=True)  # connections are given back while it waits


@pytest.fixture
def pair(partner: Partner, redis_url: str) -> tuple[Query, Query]:
    """A leading query and its follower. The leader's web process died, so nobody prolongs the lock."""
    same = uuid.uuid4().hex
    leader, follower = (a_running_query(partner, fingerprint=same) for _ in range(2))
    return leader, follower


def overdue(*found: Query) -> None:
    for query in found:
        query.deadline_at = timezone.now() - timedelta(milliseconds=1)
        query.save(update_fields=["deadline_at"])


def test_it_keeps_following_while_a_worker_runs_the_leader(pair: tuple[Query, Query]) -> None:
    """Before the fix, the follower asked all banks again when the lock had expired, often too late to get an answer."""
    leader, follower = pair
    follower.deadline_at = timezone.now() + timedelta(seconds=0.2)
    assert flight.follow(follower, str(leader.id)) is None
    assert follower.seconds_left() > 0, "nobody is at work: it asks the banks itself, at once"
    assert replies.claim("replies:3:nobody", str(leader.id), 1, ttl_s=60, patience_s=1)
    beat_once(redis(), worker_id())  # an earlier test may have emptied Redis since the last heartbeat
    assert flight.follow(follower, str(leader.id)) is None
    assert follower.seconds_left() <= 0
    follower.deadline_at = timezone.now() + timedelta(seconds=60)
    ending.end(leader, [an_answer("ipe", OFFER)], BankTimedOut())
    found = flight.follow(follower, str(leader.id))
    assert found is not None
    assert found.simulation_group == leader.id


def test_a_dead_worker_is_not_at_work(redis_url: str) -> None:
    request = uuid.uuid4().hex
    assert not replies.is_at_work(request)
    redis().set(f"claim:{request}:0", f"{uuid.uuid4().hex} {request}", ex=60)
    assert not replies.is_at_work(request)
    redis().set(f"claim:{request}:1", request, ex=60)  # as the previous release stored it
    assert not replies.is_at_work(request)


def test_at_its_deadline_the_follower_takes_the_leaders_answers_so_far(pair: tuple[Query, Query]) -> None:
    """Before the fix, the follower showed a time-out for every bank. One `lead` is sent, and both queries show the same
    offer."""
    leader, follower = pair
    land(leader, an_answer("ipe", OFFER), an_answer("cedro"))
    overdue(leader, follower)
    redis().set(f"flight:{follower.fingerprint}", str(leader.id), ex=5)
    began = time.monotonic()
    reply = json.loads(bytes(queries.aggregate(follower)))
    assert time.monotonic() - began < 5
    expected = {"cedro": "no_offers", "ipe": "ok", "jatoba": BankTimedOut().message}
    assert statuses(leader) == statuses(follower) == expected
    assert [offer["provider"] for offer in reply["proposals"]] == ["ipe"]
    assert reply["simulationGroupId"] == str(leader.id)
    assert [lead["query_id"] for lead in told("lead")] == [str(leader.id)]
    assert len(told("query.completed")) == 2
