"""The circuit breaker's rules, against the real Redis and a clock of the test's own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from foundation.errors import ApiError
from foundation.redis import redis
from providers.banks.ipe import Ipe
from providers.breaker import ALL, Breaker
from providers.errors import BankFailure, BankTimedOut, ProviderRejected, ProviderUnavailable
from providers.outcomes import Outcome
from providers.types.answer import BankResult, QueryStatus
from providers.types.query import BankQuery
from tests.clock import Clock
from tests.processes import Simulator
from tests.providers.conftest import Connect, client_of, fail, half_open
from tests.providers.samples import FULL_FLOW, HOLDERS, a_query


@pytest.fixture
def clock() -> Iterator[Clock]:
    for key in redis().scan_iter("breaker:*"):
        redis().delete(key)
    Breaker.forget()
    yield Clock()
    Breaker.forget()


def record(breaker: Breaker, good: int = 0, bad: int = 0) -> None:
    for success in [True] * good + [False] * bad:
        breaker.record(Outcome.ANSWERED if success else Outcome.FAILED)


def test_nine_failures_do_not_open_it_the_tenth_does(clock: Clock) -> None:
    breaker = Breaker("x", clock=clock)
    record(breaker, bad=9)
    assert breaker.allows()
    record(breaker, bad=1)
    assert not breaker.allows()
    assert breaker.is_open()


def test_half_of_the_calls_have_to_fail(clock: Clock) -> None:
    breaker = Breaker("x", clock=clock)
    record(breaker, good=11, bad=10)
    assert breaker.allows()
    record(breaker, bad=1)
    assert not breaker.allows()


def test_other_partners_calls_do_not_keep_one_partners_breaker_open(clock: Clock) -> None:
    """Before the fix, each report of a healthy partner opened it again while the failures were in the window: 41 s."""
    failing, healthy = Breaker("x", "a", clock=clock), Breaker("x", "b", clock=clock)
    record(healthy, good=30)
    record(failing, bad=10)
    assert (failing.allows(), healthy.allows()) == (False, True)
    for _ in range(15):
        clock.now += 1
        record(healthy, good=1)
    assert failing.allows(), "15 s later its probe may go out"


def test_a_probe_that_said_nothing_about_the_bank_is_given_back(clock: Clock) -> None:
    """Before the fix, a probe that found no free place kept the breaker open for another 30 s."""
    breaker = Breaker("x", clock=clock)
    record(breaker, bad=10)
    clock.now += 15
    first, second = Breaker("x", clock=clock), Breaker("x", clock=clock)
    assert (first.allows(), second.allows()) == (True, False)
    first.release()
    assert second.allows()


def test_states_are_told_for_all_and_for_one_partner(clock: Clock) -> None:
    record(Breaker("x", "b", clock=clock), good=30)
    record(Breaker("x", "a", clock=clock), bad=10)
    redis().set("breaker:x:opened_at:a", time.time())  # `states` reads the time of the machine
    assert Breaker.states([("x", ALL), ("x", "a")]) == {("x", ALL): "closed", ("x", "a"): "open"}


def test_failures_older_than_the_window_do_not_count(clock: Clock) -> None:
    breaker = Breaker("x", clock=clock)
    record(breaker, bad=9)
    clock.now += 36
    record(breaker, bad=9)
    assert breaker.allows()


def test_after_15_s_one_probe_and_its_success_closes_it(clock: Clock) -> None:
    breaker = Breaker("x", clock=clock)
    record(breaker, bad=10)
    clock.now += 14.9
    assert not breaker.allows()
    clock.now += 0.2
    assert breaker.allows()
    assert not breaker.allows()
    record(breaker, good=1)
    assert breaker.allows()
    assert breaker.allows()


def test_a_failed_probe_opens_it_again(clock: Clock) -> None:
    breaker = Breaker("x", clock=clock)
    record(breaker, bad=10)
    clock.now += 15.1
    assert breaker.allows()
    record(breaker, bad=1)
    assert not breaker.allows()
    clock.now += 14
    assert not breaker.allows()
    clock.now += 1.1
    assert breaker.allows()


def test_calls_from_before_the_opening_do_not_close_it(clock: Clock) -> None:
    breaker = Breaker("x", clock=clock)
    record(breaker, bad=10)
    record(breaker, good=5)
    assert not breaker.allows()


def test_late_calls_from_before_the_opening_settle_nothing_while_the_probe_is_under_way(clock: Clock) -> None:
    record(Breaker("x", clock=clock), bad=10)
    clock.now += 15.1
    probe, late = Breaker("x", clock=clock), Breaker("x", clock=clock)
    assert probe.allows()
    late.record(Outcome.FAILED)  # must not keep the breaker open for another 15 s, nor release the probe's place
    late.record(Outcome.ANSWERED)
    assert not Breaker("x", clock=clock).allows()
    probe.record(Outcome.ANSWERED)
    assert Breaker("x", clock=clock).allows()


def test_another_process_hears_of_it_within_a_second(clock: Clock) -> None:
    record(Breaker("x", clock=clock), bad=10)
    Breaker.forget()  # another process knows nothing but what Redis tells
    assert not Breaker("x", clock=clock).allows()


def test_banks_have_breakers_of_their_own(clock: Clock) -> None:
    record(Breaker("x", clock=clock), bad=10)
    assert Breaker("y", clock=clock).allows()


# --- the partners' own


def of(partner: str, clock: Clock) -> Breaker:
    return Breaker("x", partner, clock)


def test_what_fails_for_one_of_several_partners_is_held_back_for_that_one_alone(clock: Clock) -> None:
    record(of("quiet", clock), good=1)
    record(of("hostile", clock), bad=12)
    assert not of("hostile", clock).allows()
    assert of("quiet", clock).allows()
    assert of("newcomer", clock).allows()
    assert Breaker.states([("x", ALL)]) == {("x", ALL): "closed"}


def test_what_fails_for_two_partners_is_held_back_for_all(clock: Clock) -> None:
    record(of("one", clock), bad=9)
    assert of("one", clock).allows()
    record(of("two", clock), bad=1)
    assert not any(of(partner, clock).allows() for partner in ("one", "two", "three"))


def test_what_fails_for_the_only_partner_that_calls_is_held_back_for_all(clock: Clock) -> None:
    record(of("one", clock), bad=10)
    assert not of("two", clock).allows()


def test_a_call_that_is_older_than_the_window_makes_nobody_a_caller(clock: Clock) -> None:
    """Before the fix, the last calls of a busy time were counted together with the first failure after a pause."""
    record(of("earlier", clock), good=2)
    clock.now += 33
    record(of("one", clock), bad=10)
    assert not of("two", clock).allows()


def test_one_failure_of_another_does_not_give_the_hostile_one_power_over_all(clock: Clock) -> None:
    """Both partners have failures, but less than half of the quiet partner's calls fail, so the bank works."""
    record(of("quiet", clock), good=10, bad=1)
    record(of("hostile", clock), bad=40)
    assert not of("hostile", clock).allows()
    assert of("quiet", clock).allows()


def test_partners_that_fail_each_alone_among_many_calls_that_work(clock: Clock) -> None:
    record(of("quiet", clock), good=60)
    record(of("one", clock), bad=10)
    record(of("two", clock), bad=10)
    assert [of(partner, clock).allows() for partner in ("quiet", "one", "two")] == [True, False, False]


def test_a_partners_own_breaker_has_a_probe_of_its_own_and_starts_anew(clock: Clock) -> None:
    record(of("quiet", clock), good=1)
    record(of("hostile", clock), bad=12)
    clock.now += 15.1
    probe = of("hostile", clock)
    assert probe.allows()
    assert not of("hostile", clock).allows()
    probe.record(Outcome.ANSWERED)
    assert of("hostile", clock).allows()
    record(of("hostile", clock), bad=9)
    assert of("hostile", clock).allows()  # failures before the probe do not count any more
    record(of("hostile", clock), bad=1)
    assert not of("hostile", clock).allows()
    assert of("quiet", clock).allows()


def test_a_probe_that_fails_holds_back_that_partner_alone_again(clock: Clock) -> None:
    record(of("quiet", clock), good=1)
    record(of("hostile", clock), bad=12)
    clock.now += 15.1
    probe = of("hostile", clock)
    assert probe.allows()
    probe.record(Outcome.FAILED)
    clock.now += 14
    assert not of("hostile", clock).allows()
    assert of("quiet", clock).allows()


def test_while_all_wait_for_the_probe_a_partners_own_probe_is_not_used_up(clock: Clock) -> None:
    record(of("quiet", clock), good=1)
    record(of("hostile", clock), bad=12)
    of("quiet", clock)._open(ALL)
    clock.now += 15.1
    probe = of("quiet", clock)
    assert probe.allows()
    assert not of("hostile", clock).allows()
    probe.record(Outcome.ANSWERED)
    assert of("hostile", clock).allows()  # its own probe


def test_in_a_quiet_hour_one_partners_probe_that_hangs_delays_no_other(clock: Clock) -> None:
    """Before the fix, the others waited for the hanging probe, and for another 15 s after each that failed."""
    record(of("hostile", clock), bad=10)
    assert not of("quiet", clock).allows(), "so far it is the only partner that called"
    clock.now += 15.1
    hanging, probe = of("hostile", clock), of("quiet", clock)
    assert hanging.allows()
    assert not of("hostile", clock).allows()
    assert probe.allows()
    assert not of("newcomer", clock).allows()
    probe.record(Outcome.ANSWERED)
    hanging.record(Outcome.FAILED)
    record(of("hostile", clock), bad=9)
    assert [of(partner, clock).allows() for partner in ("quiet", "newcomer", "hostile")] == [True, True, False]


def test_in_a_quiet_hour_one_partners_failed_probe_holds_back_that_one_alone(clock: Clock) -> None:
    """Before the fix, each failed probe opened the breaker for all again: 60 of 60 calls of others, for 70 s."""
    record(of("hostile", clock), bad=10)
    assert not of("quiet", clock).allows()
    clock.now += 15.1
    failing = of("hostile", clock)
    assert failing.allows()
    failing.record(Outcome.FAILED)
    probe = of("quiet", clock)
    assert probe.allows()
    assert not of("newcomer", clock).allows()
    probe.record(Outcome.ANSWERED)
    assert [of(partner, clock).allows() for partner in ("quiet", "newcomer", "hostile")] == [True, True, False]


def test_probes_of_two_partners_that_fail_hold_back_all(clock: Clock) -> None:
    """Also if the first failures are so long ago that only the probes count."""
    record(of("one", clock), bad=5)
    record(of("two", clock), bad=5)
    clock.now += 15.1
    early = of("one", clock)
    assert early.allows()
    early.record(Outcome.FAILED)
    assert not any(of(partner, clock).allows() for partner in ("one", "two", "three"))
    clock.now += 40
    first = of("one", clock)
    assert first.allows()
    assert not of("two", clock).allows()
    first.record(Outcome.FAILED)
    assert not of("one", clock).allows()
    second = of("two", clock)
    assert second.allows()
    second.record(Outcome.FAILED)
    assert not any(of(partner, clock).allows() for partner in ("one", "two", "three"))
    clock.now += 15.1
    assert of("three", clock).allows()


def test_another_process_hears_of_a_partners_own_within_a_second(clock: Clock) -> None:
    record(of("quiet", clock), good=1)
    record(of("hostile", clock), bad=12)
    Breaker.forget()  # another process knows nothing but what Redis tells
    assert not of("hostile", clock).allows()
    assert of("quiet", clock).allows()


def test_inputs_that_hang_hold_a_bank_back_from_the_partner_that_sends_them_alone(connect: Connect) -> None:
    """Before the fix, twelve streams of one key made the bank unavailable to all partners for 12 s."""
    connection = connect("ipe").connection

    def asked_by(partner: str, cpf: str, seconds: float) -> BankResult:
        return client_of(Ipe, connection, seconds=seconds, partner=partner).query(a_query(cpf))

    assert asked_by("quiet", FULL_FLOW, 10).status is QueryStatus.OK
    with ThreadPoolExecutor(12) as pool:
        hanging = [pool.submit(asked_by, "hostile", HOLDERS["all_slow"], 1) for _ in range(12)]
    assert all(isinstance(each.exception(), BankTimedOut) for each in hanging)
    with pytest.raises(ProviderUnavailable) as caught:
        asked_by("hostile", FULL_FLOW, 10)
    assert caught.value.held_back
    assert asked_by("quiet", FULL_FLOW, 10).status is QueryStatus.OK


@pytest.mark.parametrize("fault", ["http_500", "garbage", "html", "huge_body", "reset"])
def test_whatever_is_no_answer_of_the_bank_opens_it(connect: Connect, simulator: Simulator, fault: str) -> None:
    bank = connect("ipe")
    simulator.bank("ipe", fault=fault, operation="query")
    fail(bank, times=9)
    assert not Breaker("ipe").is_open()
    fail(bank, times=1)
    assert Breaker("ipe").is_open()
    arrived = len(simulator.calls("ipe", "query"))
    with pytest.raises(ProviderUnavailable) as caught:
        bank.query(a_query())
    assert (caught.value.held_back, caught.value.sent) == (True, False)
    assert len(simulator.calls("ipe", "query")) == arrived


@pytest.mark.parametrize("fault", ["http_500", "garbage", "html"])
def test_whatever_is_no_answer_to_the_probe_opens_it_again(connect: Connect, simulator: Simulator, fault: str) -> None:
    simulator.bank("ipe", fault="http_500", operation="query")
    fail(connect("ipe"))
    half_open("ipe")
    simulator.bank("ipe", fault=fault, operation="query")
    fail(connect("ipe"), times=1)
    assert Breaker("ipe").is_open()


class Ending(Ipe):
    """A bank whose query asks it one thing, which it answers, and then ends with `end`."""

    end: Exception
    asks: str | None = "/v1/private_payroll/debts?requester_identifier_key=no-such"

    def query(self, query: BankQuery) -> BankResult:
        if self.asks:
            self.call("GET", self.asks)
        raise self.end


def opened_after(connect: Connect, end: Exception, times: int, asks: str | None = Ending.asks) -> bool:
    """Whether `times` such queries opened the bank's breaker."""
    for _ in range(times):
        adapter = type("Ended", (Ending,), {"end": end, "asks": asks})
        bank = client_of(adapter, connect("ipe").connection)
        with pytest.raises(ApiError):
            bank.query(a_query())
    return Breaker("ipe").is_open()


@pytest.mark.parametrize(
    "end",
    [
        ProviderUnavailable("O banco não respondeu a tempo."),  # the timer around an operation throws this into it
        KeyError("an answer that the mapping stumbles over"),
    ],
)
def test_an_operation_that_fails_after_its_request_was_answered_is_a_failure(connect: Connect, end: Exception) -> None:
    assert not opened_after(connect, end, 9)
    assert opened_after(connect, end, 1)


@pytest.mark.parametrize("end", [ProviderRejected("não"), ProviderUnavailable(sent=False, held_back=True)])
def test_a_refusal_and_what_the_service_held_back_are_no_failures(connect: Connect, end: Exception) -> None:
    assert not opened_after(connect, end, 12)


def test_an_operation_without_a_request_says_nothing_of_the_bank(connect: Connect) -> None:
    assert not opened_after(connect, KeyError("a fault of ours"), 12, asks=None)


def test_an_operation_within_an_operation_is_not_counted_twice(connect: Connect) -> None:
    class Twofold(Ending):
        end = KeyError("unreadable")

        def query(self, query: BankQuery) -> BankResult:
            return super().query(query)

    for times, opens in ((9, False), (1, True)):
        for _ in range(times):
            bank = client_of(Twofold, connect("ipe").connection)
            with pytest.raises(BankFailure):
                bank.query(a_query())
        assert Breaker("ipe").is_open() is opens
