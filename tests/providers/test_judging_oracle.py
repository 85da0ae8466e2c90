"""What is told of a bank, compared with the truth, in days that a machine invents.

Calls go through the real breaker, in two worker processes, to the real Redis. Time is given. `ORACLE_EXAMPLES=5000`
tries more days, `ORACLE=os` looks for false statements with such words only.
"""

import heapq
import os
import random
import re
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count, pairwise, product
from typing import Any, NamedTuple

import pytest
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.redis import redis
from providers import outcomes
from providers.breaker import ALL, FLUSH_S, Breaker, _Local
from providers.health import FAILED, Health
from providers.judging import judge
from providers.models import Provider
from providers.outcomes import WHOLE, Outcome

OK, FAILS, HOUR_S = Outcome.ANSWERED, (Outcome.FAILED, Outcome.FAILED, Outcome.TIMED_OUT), 3600
NAMES = {"a": "Amanhã", "b": "Bento", "c": "Ceará", "d": "Dora", "e": "Elo", "f": "Faro"}
EVERYBODY = frozenset(NAMES)
#: How a bank's calls end, and which share of them; of a partner's whose own data are at fault; and where all is good.
BANKS: dict[str, tuple[tuple[Outcome, ...], float]] = {"all": (FAILS, 1), "most": (FAILS, 0.6), "some": (FAILS, 0.2)}
BANKS |= {"login": ((Outcome.LOGIN_REFUSED,), 1), "closed": ((Outcome.CLOSED,), 1)}
OWN: tuple[tuple[Outcome, ...], float] = (FAILS, 0.9)
RARE: tuple[tuple[Outcome, ...], float] = (FAILS, 0.005)
#: When a phase is judged, in seconds since it began. Each has at most so many calls.
LOOKS, MOST = (2, 6, 12, 22, 40, 66, 80, 130, 300, 900, 2000), 150
START = datetime(2026, 11, 26, 13, tzinfo=UTC).timestamp()  # ten o'clock in Brazil
TOLD = re.compile(r"falh\w+ ([\d.]+) de ([\d.]+) chamadas?, (?:às|de) ([\d:]{8})(?: a ([\d:]{8}))?(?:, de ([^;]+))?")


class Phase(NamedTuple):
    """The bank does as `bank` says, the data of `own` are at fault, `silent` do not call, others `pace` times as often
    as they do."""

    seconds: int
    bank: str
    own: str
    silent: str
    pace: float


class Calls(NamedTuple):
    """So many calls that ended between `first` and `last`, and were written at `at`."""

    partner: str
    outcome: Outcome
    number: int
    first: float
    last: float
    at: float


class Day:
    """These phases, as they happen: `calls` are those that the records can know. `told` is when the last call failed of
    each for whom the bank was told to fail."""

    def __init__(self, rates: list[float], phases: list[Phase], seed: int, is_guarded: bool) -> None:
        self.now, self.is_guarded, self.draw, self.order = START, is_guarded, random.Random(seed), count()
        self.bank = Provider(circuit="auto" if is_guarded else "closed", updated_at=datetime(2026, 1, 1, tzinfo=UTC))
        self.workers, self.calls, self.told = (_Local(), _Local()), list[Calls](), dict[str, float]()
        self.events, self.phases = list[tuple[float, int, Callable[[], Any]]](), list[tuple[float, float, Phase]]()
        self.text, end = f"{rates} {phases} {seed=} {is_guarded=}", START
        for phase in phases:
            paces = {
                who: rate * phase.pace * (who not in phase.silent) for who, rate in zip(NAMES, rates, strict=False)
            }
            began, end = end, end + min(phase.seconds, max(5, MOST // (sum(paces.values()) or 1)))
            self.phases.append((began, end, phase))
            for who, pace in paces.items():
                faults = BANKS.get(phase.bank, RARE), OWN if who in phase.own else RARE
                (ends, share), at = max(faults, key=lambda each: each[1]), began
                while pace and (at := at + self.draw.expovariate(pace)) < end:
                    self.add(at, partial(self.call, who, self.draw.choice(ends) if self.draw.random() < share else OK))
            for look in (*(began + each for each in LOOKS if began + each < end), end):
                self.add(look, partial(Look, self))

    def add(self, at: float, act: Callable[[], Any]) -> None:
        heapq.heappush(self.events, (round(at, 3), next(self.order), act))

    def call(self, partner: str, outcome: Outcome) -> None:
        breaker = Breaker("ipe", partner, lambda: self.now)
        breaker._state = self.draw.choice(self.workers)
        if not self.is_guarded or breaker.allows():
            breaker.record(outcome)

    def note(self, calls: dict[tuple[Outcome, str], int], now: float, good_at: dict[str, float]) -> None:
        for (outcome, partner), number in calls.items():
            span = (now - FLUSH_S, good_at[partner]) if outcome is OK else (now, now)
            self.calls.append(Calls(partner, outcome, number, *span, now))

    def looks(self) -> Iterator["Look"]:
        while self.events:
            self.now, _, act = heapq.heappop(self.events)
            if look := act():
                yield look

    def failed(self, who: Collection[str], first: float = 0, last: float = 1e12) -> list[float]:
        near = [each for each in self.calls if first <= each.at <= last and each.partner in who]
        return [each.at for each in near if each.outcome in FAILED]

    def good(self, who: Collection[str], first: float, last: float = 1e12) -> range:
        """How many good calls there may have been between these times."""
        near = [each for each in self.calls if first <= each.last and each.first <= last and each.partner in who]
        good = [(each.number, first <= each.first and each.at <= last) for each in near if each.outcome is OK]
        return range(sum(number for number, is_sure in good if is_sure), sum(number for number, _ in good) + 1)

    def was_back(self, who: Collection[str], first: float, last: float, least: int = 20, seconds: int = 62) -> bool:
        """True if so many calls succeeded between these times, the first of them so long before the last one."""
        return self.good(who, first, last)[0] >= least and self.good(who, first, last - seconds)[0] > 0

    def spans(self, text: str, who: Collection[str]) -> list[tuple[float, float]]:
        """From when to when as many calls of theirs failed as the text tells, at the seconds that it tells."""
        found, times = TOLD.search(text), self.failed(who)
        pairs = zip(times, times[number(found[1]) - 1 :], strict=False) if found else ()
        return [pair for pair in pairs if found and [*map(clock, pair)] == [found[3], found[4] or found[3]]]


def clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(at - 3 * HOUR_S))


def number(text: str) -> int:
    return int(text.replace(".", ""))


def named(text: str) -> frozenset[str]:
    return frozenset(each for each, name in NAMES.items() if name in text or " e mais " in text)


def share(failed: int, calls: int) -> str:
    return f"({failed} de {calls} chamadas)" if calls < 20 else f"({failed * 100 / calls:.0f} %)"


class Look:
    """What is told at one moment. Each method whose name begins with `of_` yields the false statements."""

    def __init__(self, day: Day) -> None:
        openings = Breaker.openings(("ipe", scope) for scope in (ALL, *NAMES))
        opened = {scope: each for (_, scope), each in openings.items() if day.now - each.at < HOUR_S}
        self.health: Health = replace(judge(day.bank, outcomes.read(["ipe"])["ipe"], opened, day.now), names=NAMES)
        self.words, self.detail = self.health.words(), self.health.detail()
        self.day, self.now, self.kind, self.fails = day, day.now, self.health.kind, self.health.kind.is_problem
        self.since, self.is_back = (
            self.health.since.timestamp() if self.health.since else 0,
            self.words.startswith("voltou"),
        )
        self.parts = [found for part in self.detail.split("; ") if (found := TOLD.match(part))]
        self.whom = named(self.words.partition("; fora para ")[0].partition(" para ")[2])
        failed = [who for who, series in self.health.told.items() if series.failed]
        apart = frozenset(self.health.told) - {WHOLE}
        self.who = [EVERYBODY - apart if who == WHOLE else frozenset({who}) for who in failed]
        self.named = named(" ".join(found[5] or "" for found in self.parts)) | self.whom

    def __str__(self) -> str:
        calls = [f"{each.at - START:.1f}{each.partner}{each.outcome[0]}{each.number}" for each in self.day.calls[-60:]]
        said = f"{self.words} | {self.health.began} | {self.detail}"
        return f"{self.day.text}\n{self.now - START:.0f} s: {said}\n{' '.join(calls)}"

    def false(self) -> set[str]:
        """The false statements, whichever failures within the seconds that are told are the first and the last."""
        now = {*self.of_failing(), *self.of_recovery()}
        spans = [
            [(who, *span) for span in self.day.spans(part[0], who)]
            for part, who in zip(self.parts, self.who, strict=False)
        ]
        if not all(spans):
            return now | {"so many calls of theirs failed, between these seconds"}
        for part, found in zip(self.parts, spans, strict=True):
            now |= set.intersection(*({*self.of_numbers(part, *each)} for each in found))
        return now | set.intersection(*({*self.of_others(*each)} for each in product(*spans)))

    def of_numbers(self, part: re.Match[str], who: frozenset[str], first: float, last: float) -> Iterator[str]:
        day, failed, calls = self.day, number(part[1]), number(part[2])
        if calls - failed not in day.good(who, first, last):
            yield "so many calls were theirs, between these seconds"
        is_shown = part[0].partition(", de " + (part[5] or "-"))[0] in self.words if self.is_back else True
        is_shown = share(failed, calls) in self.words if self.kind == "failing" and len(self.parts) == 1 else is_shown
        if not is_shown:
            yield "words and detail count the same"
        if named(part[5] or "") != {each for each in who if day.failed(each, first, last)}:
            yield "the calls of all who are named failed, and of nobody else where nobody is set apart"
        near = [each for each in day.calls if first <= each.at <= last and each.partner in who]
        ends = [FAILED[each.outcome] for each in near if each.outcome in FAILED]
        times = max(map(ends.count, ends))
        how = "todas: " if times == len(ends) else "a maioria: " if times * 2 > len(ends) else "mais: "
        most = [f"; {how if len(ends) > 1 else ''}{each}" for each in ends if ends.count(each) == times]
        if len(self.parts) == 1 and not any(each in self.detail for each in most):
            yield "most of them failed so"
        newest = re.search(r"(?:as últimas ([\d.]+) chamadas|a última) (?:deram|deu) certo", self.detail)
        newest = newest or re.search(r"\((?:as ([\d.]+) seguintes deram|a seguinte deu) certo\)", part[5] or "")
        if newest and number(newest[1] or "1") not in day.good(who, max(day.failed(who))):
            yield "so many calls succeeded since the last failure"
        others = EVERYBODY - self.whom, first, last
        if "só para" in self.words and 3 <= len(day.failed(*others)) >= day.good(*others)[-1] / 9:
            yield "hardly a call of others failed in this time, or less than a tenth"
        if not self.is_back and self.kind != "failing":
            return
        if any(day.was_back(who, *pair) for pair in pairwise(day.failed(who, first, last))):
            yield "from the first failure to the last it was never back, for a minute and twenty good calls"

    def of_others(self, *spans: tuple[frozenset[str], float, float]) -> Iterator[str]:
        others, first = EVERYBODY - self.named, min((each[1] for each in spans), default=0)
        failed, good = len(self.day.failed(others, first)), self.day.good(others, first)
        is_true = {
            "nenhum outro o chamou desde então": failed == good[0] == 0,
            "os demais sem falhas desde então": failed == 0 and any(each.at >= first for each in self.day.calls),
            "os demais: algumas falhas": failed > 0,
        }
        if spans and not is_true.get(self.detail.split("; ")[len(spans)]):
            yield "so it went for the others since the first failure"
        if self.kind == "failing" and int(self.since) != int(first):
            yield "it fails since the first failure"

    def of_failing(self) -> Iterator[str]:
        day, kind = self.day, self.kind
        near = [each.partner for each in day.calls if each.at > self.now - 20 and each.outcome in FAILS]
        for who in (EVERYBODY, *NAMES) if kind != "window" else ():
            fails = self.health.own(who).kind.is_problem if isinstance(who, str) else self.fails
            if not fails and sum(each in who for each in near) >= max(10, 1.5 * day.good(who, self.now - 20)[-1]):
                yield "it is told as failing, with ten calls in 20 s, and most, that failed"
        for who in self.whom or [EVERYBODY]:
            end = max((each.at for each in day.calls if each.partner in who and each.outcome is not OK), default=0)
            if kind in ("failing", "out", "probing") and day.was_back(who, end, self.now, 25, 72):
                yield "nobody is told as failing with 25 good calls in more than 70 s since its last failure"

    def of_recovery(self) -> Iterator[str]:
        day, is_fine = self.day, self.words.startswith("no ar")
        if is_fine and any(self.now - each < HOUR_S - 10 for each in day.told.values()):
            yield "who was told as failing is told as back, until an hour after the last of those failures"
        if is_fine or (self.fails and any(number(part[1]) >= 3 for part in self.parts)):
            day.told = {} if is_fine else {who: max(day.failed(who), default=0) for who in self.named}
        ago = f"há {minutes} min" if (minutes := int((self.now - self.since) // 60)) else "agora"
        firsts = list[Calls]()
        for part, who in zip(self.parts, self.who, strict=False) if self.is_back else ():
            for _, end in self.day.spans(part[0], who):
                last = max(day.failed(who, 0, end), default=0)
                firsts += [
                    each for each in day.calls if each.outcome is OK and each.partner in who and each.last >= last
                ][:1]
        if self.is_back and not (
            ago in self.words and any(each.first - 0.01 <= self.since <= each.at for each in firsts)
        ):
            yield "`voltou` is when calls began to succeed after the last failure, so long ago"


RATES = st.lists(st.sampled_from((0.05, 0.3, 1, 3)), min_size=1, max_size=6)
PHASES = st.builds(
    Phase,
    st.sampled_from((5, 20, 60, 90, 200, 600, 3600)),
    st.sampled_from(("good", "good", "all", "most", "some", "good", "login", "closed")),
    st.sampled_from(("", "", "a", "a", "b", "ab")),
    st.sampled_from(("", "", "a", "b", "bcdef", "acdef", "cdef", "abcdef")),
    st.sampled_from((1, 1, 1, 5, 0.2)),
)


@settings(max_examples=int(os.environ.get("ORACLE_EXAMPLES", "20")))
@given(RATES, st.lists(PHASES, min_size=1, max_size=8), st.integers(0, 99), st.booleans())
def test_what_is_told_is_true(rates: list[float], phases: list[Phase], seed: int, is_guarded: bool) -> None:
    redis().flushdb()
    day, write = Day(rates, phases, seed, is_guarded), outcomes.write

    def written(bank: str, *calls: Any) -> None:
        day.note(*calls)
        write(bank, *calls)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outcomes, "write", written)
        patch.setattr("gevent.spawn_later", lambda seconds, act, *_: day.add(day.now + seconds, act))
        patch.setattr(timezone, "now", lambda: datetime.fromtimestamp(day.now, UTC))
        for look in day.looks():
            false = {each for each in look.false() if os.environ.get("ORACLE", "") in each}
            assert not false, f"false: {false}\n{look}"
