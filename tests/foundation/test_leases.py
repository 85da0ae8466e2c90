"""Which workers count as dead."""

import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from foundation import leases
from foundation.leases import LOST_AFTER_S, key_of, note_silence
from foundation.redis import redis
from tests.leases import bury, dead_worker, living_worker


@pytest.fixture(autouse=True)
def heard() -> None:
    """Sends a heartbeat, because another test may just have emptied Redis."""
    leases.beat_once(redis(), leases.worker_id())


def test_a_worker_is_dead_after_a_silence_that_was_seen_to_last() -> None:
    worker, living = uuid.uuid4().hex, living_worker()
    assert note_silence([worker, living]) == set(), "silent, but nobody knows since when"
    seen = int(redis().get(f"silence:{worker}"))
    assert abs(time.time() * 1000 - seen) < 5_000
    redis().set(f"silence:{worker}", seen - int(LOST_AFTER_S * 1000) + 500)
    assert note_silence([worker, living]) == set()
    bury(worker)
    assert note_silence([worker, living]) == {worker}
    assert note_silence([]) == set()


def test_a_worker_that_is_heard_again_begins_anew() -> None:
    """As after Redis was emptied: each living worker counts as silent until its next heartbeat."""
    worker = dead_worker()
    leases.beat_once(redis(), worker)
    assert note_silence([worker]) == set()
    redis().delete(key_of(worker))
    assert note_silence([worker]) == set(), "a new silence"


def test_a_redis_that_knows_nobody_says_nothing() -> None:
    worker = dead_worker()
    redis().delete(key_of(leases.worker_id()))
    assert note_silence([worker]) == set()
    leases.beat_once(redis(), leases.worker_id())
    assert note_silence([worker]) == {worker}


def test_a_redis_that_does_not_answer_ends_no_lease(
    db: None, freeze_redis: Callable[[], AbstractContextManager[None]]
) -> None:
    worker = dead_worker()
    with freeze_redis():
        assert note_silence([worker]) == set()
    bury(worker)
    assert note_silence([worker]) == {worker}
    assert note_silence([]) == set()
