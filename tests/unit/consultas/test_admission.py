"""The limit of queries in flight: how it follows the lag, and how partners share it."""

import uuid
from collections.abc import Generator
from contextlib import ExitStack

import prometheus_client
import pytest

from consultas import admission
from consultas.admission import Admission, Held, OverCapacity
from tests.clock import Clock

A, B, C = (uuid.UUID(int=number) for number in (1, 2, 3))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def fill(places: Admission, partner: uuid.UUID, count: int) -> list[ExitStack]:
    """All free places for `partner`, at most `count`."""
    found: list[ExitStack] = []
    try:
        for _ in range(count):
            found.append(places.enter(partner))
    except OverCapacity:
        pass
    return found


def lag(places: Admission, clock: Clock, seconds: float, lag_s: float) -> None:
    """Let `seconds` pass, with ten queries a second that each waited `lag_s` for a worker."""
    for _ in range(round(seconds * 10)):
        clock.now += 0.1
        places.observe(lag_s)


def test_one_partner_alone_may_have_all_places_and_no_more() -> None:
    places = Admission(100)
    assert len(fill(places, A, 500)) == 100
    with pytest.raises(OverCapacity) as refused:
        places.enter(A)
    assert (refused.value.code, refused.value.http_status, refused.value.retryable) == ("rate_limited", 429, True)
    assert refused.value.retry_after_s == 1


def test_a_place_is_free_again_after_its_query_and_freed_only_once() -> None:
    places = Admission(2)
    first, _ = fill(places, A, 2)
    first.close()
    first.close()
    assert places.in_flight == 1
    assert len(fill(places, A, 5)) == 1


def test_near_the_limit_only_who_has_less_than_an_equal_share_gets_a_place() -> None:
    places = Admission(100)
    big = fill(places, A, 90)
    assert len(fill(places, B, 100)) == 10, "the last tenth is for others"
    with pytest.raises(OverCapacity):
        places.enter(A)
    for place in big[:5]:  # the small partner gets the places that the big one frees
        place.close()
    with pytest.raises(OverCapacity):
        places.enter(A)
    assert len(fill(places, B, 100)) == 5


def test_partners_that_keep_asking_come_to_equal_shares() -> None:
    places = Admission(90)
    held = {partner: fill(places, partner, 90) for partner in (A, B, C)}
    for turn in range(500):
        partner = (A, B, C)[turn % 3]
        if held[partner]:
            held[partner].pop(0).close()
        for other in (A, B, C):
            held[other] += fill(places, other, 90)
    assert places.in_flight == 90
    assert all(25 <= len(each) <= 35 for each in held.values()), {len(each) for each in held.values()}


def test_a_standing_lag_lowers_the_limit_below_what_is_in_flight_until_it_is_gone(clock: Clock) -> None:
    places = Admission(1000, clock)
    fill(places, A, 400)
    lag(places, clock, 2, 2.5)
    assert 230 < places.limit < 400
    with pytest.raises(OverCapacity) as refused:
        places.enter(A)
    assert refused.value.retry_after_s == 5
    lag(places, clock, 1, 3.0)
    low = places.limit
    lag(places, clock, 10, 0.05)
    assert places.limit > low * 1.3
    lag(places, clock, 120, 0.05)
    assert places.limit == 1000


@pytest.mark.parametrize(
    ("most", "in_flight", "lags", "limit"),
    [
        pytest.param(1000, 400, [(0.3, 3.0), (0.2, 0.1)] * 20, 1000, id="a burst lowers nothing"),
        # A restart of the broker also delays the few queries of that time.
        pytest.param(1000, 3, [(60, 8.0)], admission.LEAST, id="in a quiet hour never below the least"),
        pytest.param(4, 4, [(60, 8.0), (60, 0.0)], 4, id="an operator's small limit is not raised"),
        pytest.param(2, 0, [], 2, id="nor at the beginning"),
    ],
)
def test_what_the_lag_does_not_change(
    clock: Clock, most: int, in_flight: int, lags: list[tuple[float, float]], limit: int
) -> None:
    places = Admission(most, clock)
    fill(places, A, in_flight)
    for seconds, lag_s in lags:
        lag(places, clock, seconds, lag_s)
    assert places.limit == limit


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_stream_has_its_place_until_it_is_closed_however_far_it_came(taken: int) -> None:
    places = Admission(5)

    def events() -> Generator[bytes]:
        yield b"1"
        yield b"2"

    begun = events()
    held = Held(begun, places.enter(A))
    for _ in range(taken):
        next(held)
    assert places.in_flight == 1
    held.close()
    held.close()
    assert (places.in_flight, begun.gi_frame) == (0, None)


def test_the_lag_is_counted_for_the_scaling_of_bank_workers(clock: Clock) -> None:
    before = prometheus_client.REGISTRY.get_sample_value("query_start_seconds_sum") or 0.0
    Admission(10, clock).observe(0.75)
    after = prometheus_client.REGISTRY.get_sample_value("query_start_seconds_sum")
    assert after == pytest.approx(before + 0.75)
