"""A partner's limits: calls a minute, queries in flight and distinct CPFs a day, over all web processes."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from foundation import redis as connections
from foundation.redis import Sender
from partners import limits
from partners.limits import InFlight, LimitReached, Usage
from partners.models import Partner
from tests.client import error_body
from tests.factories import PartnerFactory, http_of
from tests.processes import wait_until

pytestmark = pytest.mark.django_db
BANKS = "/partners/v1/banks"
CPFS = ("52998224725", "11144477735", "39053344705")


@pytest.fixture
def partner() -> Partner:
    return PartnerFactory(in_flight_limit=None)


@pytest.fixture
def process() -> Iterator[Callable[[], InFlight]]:
    """Makes objects that count a web process's queries in flight. All queries end with the test."""
    made: list[InFlight] = []

    def make() -> InFlight:
        made.append(InFlight())
        return made[-1]

    yield make
    for each in made:
        each._queries.clear()


@pytest.mark.control("API4")
def test_calls_beyond_the_minute_are_refused_and_come_back(partner: Partner) -> None:
    """Before the fix, the limit in the partner's form was never applied."""
    partner.rate_limit = 2
    partner.save()
    http = http_of(partner)
    for left in (1, 0):
        response = http.get(BANKS)
        assert response.status_code == 200
        assert response["RateLimit-Policy"] == '"per-minute";q=2;w=60'
        assert response["RateLimit"] == f'"per-minute";r={left};t=60'
    response = http.get(BANKS)
    told = error_body("rate_limited", "O limite de chamadas por minuto foi atingido.", retryable=True)
    assert (response.status_code, response.json()) == (429, told)
    assert (response["Retry-After"], response["RateLimit"]) == ("60", '"per-minute";r=0;t=60')
    connections.redis().pexpire(f"limit:per-minute:{partner.pk}", 1)
    while connections.redis().exists(f"limit:per-minute:{partner.pk}"):
        pass
    assert http.get(BANKS).status_code == 200
    partner.api_keys.get().revoke()
    assert [http.get(BANKS).status_code for _ in range(3)] == [401] * 3, "without a sound key, nobody's call"


def test_without_a_limit_nothing_is_looked_at_and_no_header_told(partner: Partner) -> None:
    response = http_of(partner).get(BANKS)
    assert response.status_code == 200
    assert not {"RateLimit", "RateLimit-Policy"} & response.headers.keys()
    assert not connections.redis().keys(f"limit:*{partner.pk}*")


def places(process: InFlight, partner: Partner, limit: int, count: int) -> tuple[list[Callable[[], None]], int]:
    """The places that `process` got of `count` that it asked for, and how many were refused."""
    got, refused = [], 0
    for _ in range(count):
        free, total = process.enter(partner.pk, limit)
        if total > limit:
            refused += 1
        else:
            got.append(free)
    return got, refused


def test_queries_in_flight_are_counted_over_all_processes(partner: Partner, process: Callable[[], InFlight]) -> None:
    one, other = process(), process()
    mine, refused = places(one, partner, 5, 3)
    assert refused == 0
    theirs, refused = places(other, partner, 5, 3)
    assert (len(theirs), refused) == (2, 1)
    mine.pop()()
    theirs += places(other, partner, 5, 1)[0]
    assert (len(theirs), places(one, partner, 5, 1)[1]) == (3, 1)
    for free in (*mine, *theirs):
        free()
    assert len(places(one, partner, 5, 6)[0]) == 5, "all are free again"


def test_places_of_a_process_that_died_are_free_again(partner: Partner, process: Callable[[], InFlight]) -> None:
    dead, alive = process(), process()
    assert len(places(dead, partner, 4, 4)[0]) == 4
    assert places(alive, partner, 4, 1)[1] == 1
    key = f"limit:in-flight:{partner.pk}"
    dead._queries.clear()  # a dead process does not renew its places
    for query in connections.redis().zrange(key, 0, -1):
        connections.redis().zincrby(key, -limits.DEAD_AFTER_S * 1000, query)
    assert len(places(alive, partner, 4, 5)[0]) == 4


def test_the_use_of_now_does_not_depend_on_this_machine_s_clock(
    partner: Partner, process: Callable[[], InFlight], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the fix, where the clock was 4 s before that of Redis, a partner's page showed no query in flight."""
    [free], _ = places(process(), partner, 5, 1)
    with monkeypatch.context() as patch:
        ahead = time.time() + 60
        patch.setattr(time, "time", lambda: ahead)
        assert limits.today(partner).in_flight == 1
    free()
    wait_until(lambda: limits.today(partner).in_flight == 0, 5, "it has left")


def test_a_process_renews_its_places(
    partner: Partner, process: Callable[[], InFlight], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BEAT_S", 0.01)
    key, (free, _) = f"limit:in-flight:{partner.pk}", process().enter(partner.pk, None)
    wait_until(lambda: connections.redis().zcard(key) == 1, 5, "the query is written")
    [(_, began)] = connections.redis().zrange(key, 0, 0, withscores=True)
    wait_until(lambda: connections.redis().zrange(key, 0, 0, withscores=True)[0][1] > began, 5, "it is renewed")
    free()
    wait_until(lambda: not connections.redis().exists(key), 5, "it has left")


def test_distinct_cpfs_of_a_day(partner: Partner) -> None:
    partner.daily_cpf_limit = 2
    now = timezone.localtime()
    for cpf in (CPFS[0], CPFS[1], CPFS[0]):
        Usage(partner).count_cpf(cpf)
    usage = Usage(partner)
    with pytest.raises(LimitReached) as refused:
        usage.count_cpf(CPFS[2])
    midnight = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), now.tzinfo)
    assert abs(refused.value.retry_after_s - (midnight - now).total_seconds()) < 3
    assert limits.headers(usage.quotas)["RateLimit-Policy"] == '"cpfs-per-day";q=2;w=86400'
    Usage(partner).count_cpf(CPFS[1])
    key = f"limit:cpfs:{partner.pk}:{now:%Y-%m-%d}"
    kept = connections.redis().smembers(key)
    assert len(kept) == 2
    assert not any(cpf.encode() in member for cpf in CPFS for member in kept)
    assert 0 < connections.redis().ttl(key) <= 25 * 3600
    assert limits.today(partner).cpfs == 2


def test_without_redis_no_limit_is_applied_and_that_is_counted(
    partner: Partner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted() -> float:
        return limits.NOT_APPLIED._value.get()

    partner.rate_limit = partner.in_flight_limit = partner.daily_cpf_limit = 1
    before, away = counted(), Sender("redis://127.0.0.1:1")
    with monkeypatch.context() as patch:
        patch.setattr(limits, "to_redis", lambda: away)
        for _ in range(3):
            usage = Usage(partner)
            usage.count_call()
            usage.enter()()
            usage.count_cpf(CPFS[0])
            usage.count_cpf(CPFS[1])
            assert usage.quotas == []
    assert counted() - before >= 12
    limits._away_until = 0.0
