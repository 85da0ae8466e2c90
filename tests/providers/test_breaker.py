"""The circuit breaker's rules, against the real Redis and a clock of the test's own."""

import re
import time

import gevent
import pytest

from foundation.redis import redis
from providers import breaker, outcomes
from providers.banks.ipe import Ipe
from providers.breaker import ALL, Breaker, _Local
from providers.errors import BankFailure, ProviderUnavailable
from providers.outcomes import Outcome
from providers.types.query import BankQuery, BankResult
from tests.clock import Clock
from tests.processes import Simulator
from tests.providers.conftest import Connect, at, client_of, fail, saying
from tests.providers.samples import a_query
from tests.receiver import Receiver


@pytest.fixture
def clock() -> Clock:
    return Clock()


def of(partner: str, clock: Clock) -> Breaker:
    return Breaker("x", partner, clock)


def record(breaker: Breaker, good: int = 0, bad: int = 0) -> None:
    for success in [True] * good + [False] * bad:
        breaker.record(Outcome.ANSWERED if success else Outcome.FAILED)


def test_the_good_calls_of_a_burst_are_counted_though_no_call_follows(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the fix, they waited for the next call, and were dropped if none came within 32 s: a bank that worked was
    told as failing."""
    monkeypatch.setattr(breaker, "FLUSH_S", 0.2)
    record(of("one", clock), bad=1)
    record(of("one", clock), good=5)
    gevent.sleep(0.3)
    counted = outcomes.read(["x"])["x"]["one"]
    assert (counted.failed, counted.good) == (1, 5)


def test_a_good_call_that_is_written_late_does_not_follow_later_failures(clock: Clock) -> None:
    """Before the fix, the time of a process's last good call was that of all that it wrote with it: a partner's last
    call `deu certo` that had failed."""
    here, there = _Local(), _Local()
    for process, partner, good, seconds in ((there, "one", 0, 0.1), (there, "one", 1, 1), (here, "one", 0, 0.5)):
        caller = of(partner, clock)
        caller._state = process
        record(caller, good=good, bad=1 - good)
        clock.now += seconds
    caller = of("two", clock)
    caller._state = there
    record(caller, good=1)
    caller._flush()
    counted = outcomes.read(["x"])["x"]["one"]
    assert (counted.calls, counted.failed, counted.good) == (3, 2, 0)


#: What calls do to the breaker, step by step. `one+2` and `one-9`: so many calls of the partner "one" are answered, or
#: fail. `one?` and `one!`: its next call may go out, or is held back. `p=one?`: a call goes out that is called p; `p+`
#: and `p-` are its outcomes, and `p~` says nothing about the bank. `15.1s`: that time passes. `elsewhere`: what follows
#: happens in another process, which knows nothing but what Redis tells.
STORIES = {
    "nine failures do not open it, the tenth does": "one-9 one? one-1 one!",
    "half of the calls have to fail": "one+11 one-10 one? one-1 one!",
    # Before the fix, a good call opened it when the bank was back.
    "a good call does not open it": "one-4 two-4 2.1s one+1 2.1s two+1 one? two? one-1 one!",
    "failures older than the window do not count": "one-9 36s one-9 one?",
    "after 15 s one probe, and its success closes it": "one-10 14.9s one! 0.2s p=one? one! p+ one? one?",
    "a failed probe opens it again": "one-10 15.1s p=one? p- one! 14s one! 1.1s one?",
    # Before the fix, a probe that found no free place kept the breaker open for another 30 s.
    "a probe that said nothing about the bank is given back": "one-10 15s p=one? one! p~ one?",
    "calls from before the opening do not close it": "one-10 one+5 one!",
    # A late failure must not keep the breaker open for another 15 s, nor release the probe's place.
    "late calls settle nothing while the probe is under way": "one-10 15.1s p=one? one-1 one+1 one! p+ one?",
    "another process hears of it": "one-10 elsewhere one!",
    # Before the fix, each report of a healthy partner opened it again while the failures were in the window: 41 s.
    "other partners' calls do not keep one partner's open": f"b+30 a-10 a! b? {'1s b+1 ' * 15} a?",
    "what fails for one of several partners is held back for that one alone": (
        "quiet+1 hostile-12 hostile! quiet? newcomer?"
    ),
    "another process hears of a partner's own": "quiet+1 hostile-12 elsewhere hostile! quiet?",
    "what fails for two partners is held back for all": "one-9 one? two-1 one! two! three!",
    "what fails for the only partner that calls is held back for all": "one-10 two!",
    # Before the fix, the last calls of a busy time were counted together with the first failure after a pause.
    "a call older than the window makes nobody a caller": "earlier+2 33s one-10 two!",
    # Less than half of the quiet partner's calls fail, so the bank works.
    "one failure of another gives the hostile one no power over all": "quiet+10 quiet-1 hostile-40 hostile! quiet?",
    "partners fail each alone among many calls that work": "quiet+60 one-10 two-10 quiet? one! two!",
    "a partner's own breaker has its own probe, and counts anew": (
        "quiet+1 hostile-12 15.1s p=hostile? hostile! p+ hostile? hostile-9 hostile? hostile-1 hostile! quiet?"
    ),
    "a probe that fails holds back that partner alone again": (
        "quiet+1 hostile-12 15.1s p=hostile? p- 14s hostile! quiet?"
    ),
    # Before the fix, the others waited for the hanging probe, and for another 15 s after each that failed.
    "in a quiet hour one partner's probe that hangs delays no other": (
        "hostile-10 quiet! 15.1s hanging=hostile? hostile! p=quiet? newcomer! "
        "p+ hanging- hostile-9 quiet? newcomer? hostile!"
    ),
    # Before the fix, each failed probe opened the breaker for all again: 60 of 60 calls of others, for 70 s.
    "in a quiet hour one partner's failed probe holds back that one alone": (
        "hostile-10 quiet! 15.1s p=hostile? p- q=quiet? newcomer! q+ quiet? newcomer? hostile!"
    ),
    # Also if the first failures are so long ago that only the probes count.
    "probes of two partners that fail hold back all": (
        "one-5 two-5 15.1s p=one? p- one! two! three! 40s q=one? two! q- one! r=two? r- one! two! three! 15.1s three?"
    ),
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_the_breaker_follows_the_calls(clock: Clock, story: str) -> None:
    calls: dict[str, Breaker] = {}
    for step in story.split():
        match re.fullmatch(r"(?:(\w+)=)?([a-z]+|[\d.]+s)([-+?!~]?)(\d*)", step):
            case None:
                pytest.fail(f"no step: {step}")
            case found if found[2] == "elsewhere":
                Breaker.forget()
            case found if found[2][0].isdigit():
                clock.now += float(found[2][:-1])
            case found if found[3] in "?!":
                call = calls[found[1] or ""] = of(found[2], clock)
                assert call.allows() is (found[3] == "?"), step
            case found if found[3] == "~":
                calls[found[2]].record(None)
            case found:
                number = int(found[4] or 1)
                record(
                    of(found[2], clock) if found[4] else calls[found[2]],
                    **{"good" if found[3] == "+" else "bad": number},
                )


def test_states_are_told_for_all_and_for_one_partner(clock: Clock) -> None:
    record(of("b", clock), good=30)
    record(of("a", clock), bad=10)
    redis().set("breaker:x:opened_at:a", time.time())
    [(scope, opening)] = Breaker.openings([("x", ALL), ("x", "a")]).items()
    assert (scope, opening.state(time.time())) == (("x", "a"), "open")


def test_banks_have_breakers_of_their_own(clock: Clock) -> None:
    record(Breaker("x", clock=clock), bad=10)
    assert not Breaker("x", clock=clock).allows()
    assert Breaker("y", clock=clock).allows()


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


def test_what_is_no_answer_of_the_bank_opens_it(connect: Connect, simulator: Simulator) -> None:
    """Which failures those are: tests/unit/providers/test_outcomes.py, and the contract suite."""
    bank = connect("ipe")
    simulator.bank("ipe", fault="garbage", operation="query")
    fail(bank, times=9)
    assert Breaker("ipe").allows()
    fail(bank, times=1)
    assert not Breaker("ipe").allows()
    arrived = len(simulator.calls("ipe", "query"))
    with pytest.raises(ProviderUnavailable) as caught:
        bank.query(a_query())
    assert (caught.value.held_back, caught.value.sent) == (True, False)
    assert len(simulator.calls("ipe", "query")) == arrived


@pytest.mark.parametrize(
    ("end", "asks", "opens"),
    [
        (ProviderUnavailable("the timer around an operation throws this into it"), True, True),
        (KeyError("an answer that the mapping stumbles over"), True, True),
        (KeyError("a fault of ours, before any request"), False, False),
    ],
)
def test_an_operation_that_fails_after_its_request_was_answered_is_a_failure(
    end: Exception, asks: bool, opens: bool
) -> None:
    class Ending(Ipe):
        def query(self, query: BankQuery) -> BankResult:
            if asks:
                self.call("GET", "/answered")
            raise end

    with Receiver(saying({})) as bank:
        for number in range(10):
            assert Breaker("ipe").allows(), number
            with pytest.raises(BankFailure):
                client_of(Ending, at("ipe", bank.root).connection).query(a_query())
    assert Breaker("ipe").allows() is not opens
