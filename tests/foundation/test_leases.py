"""Which workers count as dead."""

from foundation import later
from foundation.later import dead_workers, key_of
from foundation.redis import redis
from tests.leases import be_sure, dead_worker, living_worker
from tests.processes import Outage, wait_until


def test_a_worker_without_a_heartbeat_is_dead(redis_url: str) -> None:
    worker, living = dead_worker(), living_worker()
    assert dead_workers([worker, living, later.worker_id()]) == {worker}
    redis().delete(key_of(living))
    assert dead_workers([worker, living]) == {worker, living}
    assert dead_workers([]) == set()


def test_who_has_no_heartbeats_of_its_own_or_only_new_ones_judges_nobody(redis_url: str) -> None:
    """As after Redis was emptied: each living worker counts as silent until its next heartbeat."""
    worker, mine = dead_worker(), later.worker_id()
    redis().delete(key_of(mine))
    assert dead_workers([worker]) == set()
    later.beat_once(redis(), mine, goes_on=True)
    assert dead_workers([worker]) == set(), "they have just begun again"
    be_sure()
    later.beat_once(redis(), mine, goes_on=True)
    assert dead_workers([worker]) == {worker}
    later.beat_once(redis(), mine)
    assert dead_workers([worker]) == set(), "the one before did not reach Redis"


def test_a_redis_that_does_not_answer_ends_no_lease(db: None, freeze_redis: Outage) -> None:
    worker = dead_worker()
    with freeze_redis():
        assert dead_workers([worker]) == set()
    wait_until(lambda: dead_workers([worker]) == {worker}, 15, "this process has been heard for long enough")
