"""How partners share a bank's places."""

import time
from concurrent.futures import ThreadPoolExecutor

from providers.places import Places
from tests.processes import wait_until


def fill(places: Places, partner: str, count: int) -> int:
    """The number of `count` requested places that `partner` gets at once."""
    return sum(places.acquire(partner, timeout=0) for _ in range(count))


def test_one_partner_alone_leaves_a_part_to_whoever_comes_next() -> None:
    """Before the fix, one partner's requests to a bank that hangs filled all places: the others waited in vain."""
    places = Places(64)
    assert fill(places, "greedy", 100) == 56
    assert fill(places, "quiet", 100) == 8
    assert fill(places, "third", 1) == 0, "all are taken"


def test_near_the_limit_only_who_has_less_than_an_equal_share_gets_one() -> None:
    places = Places(100)
    assert fill(places, "greedy", 60) == 60
    assert fill(places, "quiet", 1) == 1
    assert fill(places, "greedy", 100) == 29, "up to nine tenths"
    assert fill(places, "quiet", 100) == 10
    for _ in range(20):
        places.release("greedy")
    assert fill(places, "greedy", 100) == 10
    assert fill(places, "quiet", 100) == 10


def test_a_bank_with_few_places_is_one_partners_alone_while_nobody_else_comes() -> None:
    places = Places(4)
    assert fill(places, "greedy", 10) == 4


def test_a_free_place_goes_to_the_waiting_partner_that_has_the_fewest() -> None:
    places = Places(2)
    assert fill(places, "greedy", 2) == 2
    order: list[str] = []

    def wait(partner: str) -> None:
        assert places.acquire(partner, timeout=10)
        order.append(partner)

    with ThreadPoolExecutor(3) as pool:
        for number, partner in enumerate(("greedy", "greedy", "quiet"), 1):
            pool.submit(wait, partner)
            wait_until(lambda n=number: sum(map(len, places._waiting.values())) == n, 5, "it waits")
        for done in range(1, 4):
            places.release("greedy" if done < 3 else order[-1])
            wait_until(lambda d=done: len(order) == d, 5, "the next one has it")
    assert order == ["quiet", "greedy", "greedy"]


def test_a_wait_ends_without_a_place_and_takes_none_later() -> None:
    places = Places(1)
    assert fill(places, "greedy", 1) == 1
    began = time.monotonic()
    assert not places.acquire("quiet", timeout=0.05)
    assert time.monotonic() - began >= 0.05
    places.release("greedy")
    assert fill(places, "greedy", 1) == 1
