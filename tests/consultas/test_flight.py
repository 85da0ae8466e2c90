"""The lock that lets only one of several identical queries ask the banks. Against the real Redis."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from consultas import flight
from consultas.models import Query
from foundation.redis import redis


@pytest.fixture
def fingerprint(redis_url: str) -> str:
    return uuid.uuid4().hex


def is_locked(fingerprint: str) -> bool:
    return bool(redis().exists(f"flight:{fingerprint}"))


def test_the_first_query_asks_and_the_second_follows_it(fingerprint: str) -> None:
    first, second = Query(fingerprint=fingerprint), Query(fingerprint=fingerprint)
    with flight.flight(first) as leading, flight.flight(second) as following:
        assert (leading.leader, following.leader) == (None, str(first.id))
    assert not is_locked(fingerprint)


def test_a_follower_does_not_end_the_leaders_flight(fingerprint: str) -> None:
    with flight.flight(Query(fingerprint=fingerprint)):
        with flight.flight(Query(fingerprint=fingerprint)):
            pass
        assert is_locked(fingerprint)


def test_a_flight_that_another_query_took_over_is_neither_prolonged_nor_ended(
    fingerprint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the fix, a query that paused for longer than the lock's lifetime prolonged the lock of its successor."""
    monkeypatch.setattr(flight, "BEAT_S", 0)
    with flight.flight(Query(fingerprint=fingerprint)) as paused:
        redis().delete(f"flight:{fingerprint}")  # as the end of the query would
        with flight.flight(Query(fingerprint=fingerprint)) as successor:
            assert successor.leader is None
            redis().pexpire(f"flight:{fingerprint}", 2_000)
            paused.keep_up()
            assert redis().pttl(f"flight:{fingerprint}") <= 2_000
            paused.end()
            assert is_locked(fingerprint)
            successor.keep_up()
            assert redis().pttl(f"flight:{fingerprint}") > 2_000


def test_without_redis_every_query_asks(
    fingerprint: str, freeze_redis: Callable[[], AbstractContextManager[None]]
) -> None:
    with freeze_redis(), flight.flight(Query(fingerprint=fingerprint)) as part:
        assert part.leader is None


def test_a_query_that_has_no_repeat_locks_nothing(redis_url: str) -> None:
    with flight.flight(Query()) as part:
        assert part.leader is None
        assert not is_locked("")
