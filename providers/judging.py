"""How a bank does now, told from how the service's calls to it end. This is the only definition of a bank's state.

The first of these decides: the bank is switched off; it is in a window; an operator keeps it out; it said that our
log-in is refused or that it is closed; its breaker; its newest calls (`_window`, `_lone_failures`). A bank fails if at
least FAILING_LEAST of them, and FAILING_PERCENT percent, failed; for one partner, if as many of that partner's did. If
only its calls earlier in the hour fail, it has recovered. What happened before the last change of the bank's settings
does not count.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import takewhile
from operator import itemgetter

import structlog
from redis.exceptions import RedisError

from providers import outcomes
from providers.breaker import ALL, MINIMUM_CALLS, Breaker
from providers.health import FAILED, FAILING_LEAST, Count, Health, Kind
from providers.maintenance import Maintenance
from providers.models import Circuit, Provider
from providers.outcomes import LAST_HOUR, Minutes, Outcome

log = structlog.get_logger(__name__)

LEAST_CALLS, _OLDEST_CALLS = 20, 100
_HOUR_MIN = 60
_LONE_LEAST, _LONE_TIMES = 2, 4
_EARLIER = range(len(LAST_HOUR), outcomes.BLOCKS)
#: Calls of one partner or several, and how many failed, by minute since the epoch, the newest first.
Record = Mapping[int, tuple[int, int]]
#: Calls of some minutes by partner.
Counts = Mapping[str, Count]


@dataclass(frozen=True)
class Facts:
    """What is known of the calls to a bank: the record of each partner, and of all. Calls count from the minute `first`
    on: of the last hour, and not before `changed`, that of the last change of the bank's settings."""

    bank: Provider
    minutes: Minutes
    now: int
    changed: int
    first: int
    records: Mapping[str, Record]
    whole: Mapping[int, Count]

    @classmethod
    def of(cls, bank: Provider, minutes: Minutes, now: int) -> Facts:
        records, changed = _records(minutes, FAILED), int(bank.updated_at.timestamp()) // 60
        first = max(changed, now - _HOUR_MIN + 1)
        return cls(bank, minutes, now, changed, first, records, _merged(records.values()))

    @cached_property
    def with_failures(self) -> list[str]:
        """The partners that had failures in the hour."""
        return [each for each, record in self.records.items() if _count(record, self.first).failed]

    def record_of(self, partners: Collection[str]) -> Mapping[int, Count]:
        """The record of these partners, or of all if there is none."""
        return _merged(self.records[each] for each in partners) if partners else self.whole

    def counts(self, first: float, end: float = math.inf, starts: Mapping[str, int] | None = None) -> Counts:
        """The calls of each partner from the minute `first` on, or its own in `starts`, to before the minute `end`."""
        own = starts or {}
        found = {each: _count(record, own.get(each, first), end) for each, record in self.records.items()}
        return {each: count for each, count in found.items() if count.calls}


def health_of(names: Collection[str] | None = None) -> dict[str, Health]:
    """The state of each bank of `names`, or of every bank, by name. Two statements, and at most three Redis calls."""
    rows = Provider.objects.only("name", "enabled", "circuit", "updated_at")  # credentials are not read
    banks = list(rows if names is None else rows.filter(name__in=names))
    windows = Maintenance.now([bank.name for bank in banks])
    set_by_hand = {bank.name: _set_by_hand(bank, windows.get(bank.name)) for bank in banks}
    called = {bank.name: bank for bank in banks if set_by_hand[bank.name] is None}
    try:
        told = _told_by_calls(called)
    except RedisError:
        log.warning("bank_calls_unreachable")
        told = dict.fromkeys(called, Health(Kind.UNREAD))
    return {bank.name: set_by_hand[bank.name] or told[bank.name] for bank in banks}


def _set_by_hand(bank: Provider, window: Maintenance | None) -> Health | None:
    if not bank.enabled:
        return Health(Kind.OFF, "desligado")
    if window is not None:
        return Health(Kind.WINDOW, str(window), window.starts_at)
    if bank.circuit == Circuit.OPEN:
        return Health(Kind.OFF, "fora do ar por ordem do operador, sem fim marcado")
    return None


def _told_by_calls(banks: Mapping[str, Provider]) -> dict[str, Health]:
    now = time.time()
    minutes = outcomes.read(banks, now, LAST_HOUR)
    for name, earlier in outcomes.read([each for each in banks if _is_unclear(minutes[each])], now, _EARLIER).items():
        minutes[name].update(earlier)
    facts = {name: Facts.of(bank, minutes[name], int(now) // 60) for name, bank in banks.items()}
    scopes = {name: (ALL, *each.with_failures) for name, each in facts.items()}
    states = Breaker.states((name, scope) for name in banks for scope in scopes[name])
    return {name: judge(facts[name], {scope: states[name, scope] for scope in scopes[name]}) for name in banks}


def _is_unclear(minutes: Minutes) -> bool:
    """True if it takes earlier calls than these to tell since when the bank fails, or when the last call was: if they
    are fewer than LEAST_CALLS, or the oldest ones fail."""
    calls = failed = 0
    for minute in sorted(minutes):
        calls += minutes[minute].total()
        failed += sum(number for (outcome, _), number in minutes[minute].items() if outcome in FAILED)
        if calls >= _OLDEST_CALLS:
            break
    return calls < LEAST_CALLS or Count(calls, failed).is_failing


def judge(facts: Facts, breakers: Mapping[str, str]) -> Health:
    """What the calls and the breakers' states say. `breakers` are by scope: ALL, and each partner that had failures in
    the hour."""
    window, starts, word = _window(facts), _lone_failures(facts), _word_of_bank(facts)
    own = _own_breakers(facts, breakers, starts)
    kind = _kind(facts.bank, word, breakers[ALL], own)
    own = own if kind is Kind.PARTIAL else {}
    newest = facts.counts(window, starts=starts | dict.fromkeys(own, facts.first))
    total = _sum(newest.values())
    if kind in (Kind.FINE, Kind.UNGUARDED):
        if total.is_failing or any(each.is_failing for each in newest.values()):
            kind = Kind.FAILING
        elif recovered := _recovered(facts):
            return recovered
    note = "fechado agora, segundo o banco" if kind is Kind.WINDOW else ""
    health = Health(kind, note, theirs=total, last=_at(max(facts.minutes, default=None)))
    if kind.is_problem:
        health = _of_failures(facts, kind, newest, own, (_first(facts, own or _tenth(newest), newest), math.inf))
    if word:
        record = _merged(_records(facts.minutes, (word,)).values())
        health = replace(health, since=_since(record, _count(record, window).share))
    is_cut = facts.first == facts.changed > min(facts.minutes, default=math.inf) and total.calls < LEAST_CALLS
    return replace(health, changed_at=facts.bank.updated_at) if is_cut else health


def _kind(bank: Provider, word: Outcome | None, breaker: str, own: Mapping[str, str]) -> Kind:
    """What the bank's own word says, or the breaker of all, or those of some partners, `own`."""
    if word:
        return Kind.WINDOW if word is Outcome.CLOSED else Kind.CREDENTIALS
    if bank.circuit == Circuit.CLOSED:
        return Kind.UNGUARDED
    if breaker != "closed":
        return Kind.OUT if breaker == "open" else Kind.PROBING
    return Kind.PARTIAL if own else Kind.FINE


def _word_of_bank(facts: Facts) -> Outcome | None:
    """What the bank said in the newest minute with calls, at least as often as it answered: that our log-in is wrong,
    or that it is closed."""
    newest, ends = max(facts.minutes, default=-1), Counter[Outcome]()
    for (outcome, _), number in facts.minutes[newest].items() if newest >= facts.changed else ():
        ends[outcome] += number
    words = (Outcome.LOGIN_REFUSED, Outcome.CLOSED)
    return next((each for each in words if 0 < ends[each] >= ends[Outcome.ANSWERED]), None)


def _window(facts: Facts) -> int:
    """The first minute of the calls that count: those of this minute and the one before, and more until they are
    LEAST_CALLS; those after the last failure alone, if these two minutes had none, and the partners that had failures
    have had as many good calls since as a recovery takes (`_is_recovery`)."""
    calls, first, last = 0, facts.first, _last_failure(facts.whole)
    for minute, count in facts.whole.items():
        if minute < facts.first or (minute < facts.now - 1 and calls >= LEAST_CALLS):
            break
        calls, first = calls + count.calls, minute
    if not first <= last < facts.now - 1:
        return first
    before = {each: count for each, count in facts.counts(first, last + 1).items() if count.failed}
    good = sum(_count(facts.records[each], last + 1).calls for each in before)
    return last + 1 if _is_recovery(good, _sum(before.values())) else first


def _is_recovery(good: int, before: Count) -> bool:
    """True if FAILING_LEAST of so many `good` calls in a row would have failed at the rate of those before them."""
    return good * before.failed >= FAILING_LEAST * before.calls


def _lone_failures(facts: Facts) -> dict[str, int]:
    """The first minute of the last calls of each partner in the hour, if all of them, at least FAILING_LEAST, failed
    while most of the other calls, from the minute before on, did not. These calls alone count."""
    lone = {}
    for partner in facts.with_failures:
        run = takewhile(lambda each: each[1][0] == each[1][1], facts.records[partner].items())
        failed_in = {minute: failed for minute, (_, failed) in run if minute >= facts.first}
        mine = sum(failed_in.values())
        if mine >= FAILING_LEAST:
            first = min(failed_in)
            calls, failed = _count(facts.whole, max(first - 1, facts.changed), max(failed_in) + 1)
            if calls - mine > 2 * (failed - mine):
                lone[partner] = first
    return lone


def _own_breakers(facts: Facts, breakers: Mapping[str, str], lone: Mapping[str, int]) -> dict[str, str]:
    """The states of partners' own breakers that are not closed. Redis forgets a breaker that nobody tries: it is half
    open if its partner's last calls, since the minute in `lone`, were enough to open it within two successive minutes
    (its WINDOW_S)."""
    if facts.bank.circuit == Circuit.CLOSED:
        return {}
    own = {scope: state for scope, state in breakers.items() if scope != ALL and state != "closed"}
    for partner, first in lone.items():
        record = facts.records[partner]
        pairs = (_count(record, max(each - 1, first), each + 1) for each in record if each >= first)
        if any(pair.failed >= MINIMUM_CALLS for pair in pairs):
            own.setdefault(partner, "half_open")
    return own


def _recovered(facts: Facts) -> Health | None:
    """The state of a bank that does not fail now, if calls of those for whom it failed in the hour do not any more."""
    if not facts.with_failures:
        return None
    hour = facts.counts(facts.first)
    worst = [each for each, count in hour.items() if count.is_failing]
    records = [facts.whole, *([facts.record_of(worst)] if worst else [])]
    runs = [run for record in records if (run := _recovery(record, facts.first))]
    if not runs:
        return None
    run = max(runs, key=itemgetter(1))  # the last one to end, or one that has not
    health = _of_failures(facts, Kind.RECOVERED, hour, {}, (_extended(facts, run[0]), run[1]))
    record = facts.record_of(health.concerned)
    mine, last = _recovery(record, facts.first), _last_failure(record)
    if not mine or mine[1] == math.inf:
        return None
    return replace(health, since=_at(mine[1]), failed_at=_at(last) if last >= mine[1] else None)


def _recovery(record: Mapping[int, Count], first: int) -> tuple[int, float] | None:
    """The first of the newest minutes that fail, all since then or successive ones, and the first good minute after
    them, infinite if there is none. None if no minutes fail since the minute `first`."""
    calls, run, back = Count(), Count(), math.inf
    for minute, count in record.items():
        if minute < first:
            break
        calls, run = _sum((calls, count)), _sum((run, count)) if count.is_tenth else Count()
        if run.is_failing or calls.is_failing:
            return minute, back
        back = back if count.is_tenth else minute
    return None


def _of_failures(facts: Facts, kind: Kind, newest: Counts, own: Mapping[str, str], span: tuple[float, float]) -> Health:
    """The state of a bank that fails by its `newest` calls, or failed by those of the hour; `since` is when failures
    began. `span` holds the first minute of their series, and the first one after it. `own` holds the states of
    partners' own breakers."""
    is_over = kind is Kind.RECOVERED
    series = facts.counts(max(span[0], facts.changed), span[1])
    # Whose calls fail: by the newest ones or by those of the series, so that good calls before it hide nobody.
    found = frozenset[str]() if is_over else _tenth(newest) - own.keys()
    failing = found | _tenth(series)
    judged = {**newest, **{each: series[each] for each in failing - found}}
    told = newest if is_over else judged
    own_failures = {each: told[each] for each in failing if judged[each].is_failing and each in told}
    # Whether the bank is judged by them alone: the others' calls are good, or hide that these fail.
    is_by_calls = is_over or kind is Kind.FAILING
    worst = frozenset(own_failures if is_by_calls else own)
    are_alone = _are_alone(worst, series)
    # Within this minute nobody knows whether the others' good calls came before the failures.
    is_alone = are_alone and span[0] != facts.now
    is_theirs = are_alone and not (is_over or _of(series.keys() - worst, series).failed)
    is_hidden = kind is Kind.FAILING and not _sum(newest.values()).is_failing
    concerned = worst if is_alone or is_theirs or is_hidden or not is_by_calls else frozenset[str]()
    # What their calls, and the others', say.
    record = facts.record_of(concerned)
    theirs = _of(concerned, told) if concerned else _sum(newest.values())
    known = {each: max(count, series.get(each, count)) for each, count in newest.items()}
    return Health(
        kind,
        since=_since(record, theirs.share),
        theirs=theirs,
        last=_at(max(record, default=None)),
        failing=failing,
        concerned=concerned,
        is_for_some=is_alone,
        others=_of(known.keys() - (concerned or failing), known),
        good=_count(record, max(_last_failure(record) + 1, facts.first)).calls,
        commonest=_commonest(facts, concerned, theirs.failed),
        own_failures=own_failures,
        breakers=own,
    )


def _first(facts: Facts, partners: Collection[str], newest: Counts) -> float:
    """The first minute of the present series of failures of these partners. Infinite if there is none."""
    began = _began(facts.record_of(partners), _of(partners, newest).share) if partners else None
    return math.inf if began is None else _extended(facts, began)


def _extended(facts: Facts, first: int) -> int:
    """The first minute of a series of failures that began in the minute `first`, or in the minutes directly before it,
    if a tenth of all calls failed in each."""
    for minute, count in facts.whole.items():
        if minute < first and not count.is_tenth:
            break
        first = min(first, minute)
    return first


def _are_alone(partners: frozenset[str], series: Counts) -> bool:
    """True if the calls of others than these partners hardly fail, and are enough to tell: at the partners' rate,
    _LONE_LEAST of them would have failed. Less than FAILING_PERCENT percent failed; if FAILING_LEAST did, at less than
    a _LONE_TIMES-th of the partners' rate."""
    theirs, others = _of(partners, series), _of(series.keys() - partners, series)
    is_enough = others.calls * theirs.failed >= _LONE_LEAST * theirs.calls
    is_rare = others.failed < FAILING_LEAST or _LONE_TIMES * others.share < theirs.share
    return bool(partners) and is_enough and is_rare and not others.is_tenth


def _commonest(facts: Facts, partners: Collection[str], number: int) -> Outcome:
    """How most of the newest `number` failures of these partners, or of all if there is none, came about."""
    ends = Counter[Outcome]()
    for minute in facts.whole:
        if ends.total() >= number:
            break
        for (outcome, partner), calls in facts.minutes[minute].items():
            if outcome in FAILED and (not partners or partner in partners):
                ends[outcome] += calls
    return max(FAILED, key=ends.__getitem__)


def _began(record: Mapping[int, Count], share: float) -> int | None:
    """The first minute of the last series of failures, by their `share` of the newest calls: the minute since which
    failures most exceed half of it. A failure with enough good calls after it is earlier. LEAST_CALLS calls that
    together are not failing end the series."""
    first, most, exceeded, calls = None, 0.0, 0.0, Count()
    for minute, count in record.items():
        calls = _sum((calls, count))
        exceeded += count.failed - share / 2 * count.calls
        if exceeded > most:
            first, most, calls = minute, exceeded, Count()
        elif calls.calls >= LEAST_CALLS and not calls.is_failing:
            break
    return first


def _since(record: Mapping[int, Count], share: float) -> datetime | None:
    """When the last series of failures began. If calls failed again after a recovery, the series begins after it."""
    minutes, good, failed = list(record), 0, 0
    for place, minute in enumerate(minutes):
        count = record[minute]
        if good and failed and count.failed and _is_recovery(good, _newest(record, minutes[place:])):
            return _at(_began({each: record[each] for each in minutes[:place]}, share))
        good, failed = 0 if count.failed else good + count.calls, failed + count.failed
    return _at(_began(record, share))


def _newest(record: Mapping[int, Count], minutes: Iterable[int]) -> Count:
    """The calls of the first of these `minutes`, LEAST_CALLS or more if there are."""
    found = Count()
    for minute in minutes:
        found = _sum((found, record[minute]))
        if found.calls >= LEAST_CALLS:
            break
    return found


def _records(minutes: Minutes, bad: Collection[Outcome]) -> Mapping[str, Record]:
    """The record of each partner. The outcomes `bad` are failures."""
    records: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for minute in sorted(minutes, reverse=True):
        for (outcome, partner), number in minutes[minute].items():
            calls, failed = records[partner].get(minute, (0, 0))
            records[partner][minute] = calls + number, failed + (number if outcome in bad else 0)
    return records


def _merged(records: Iterable[Record]) -> Mapping[int, Count]:
    calls, failed = Counter[int](), Counter[int]()
    for record in records:
        for minute, (number, bad) in record.items():
            calls[minute] += number
            failed[minute] += bad
    return {minute: Count(calls[minute], failed[minute]) for minute in sorted(calls, reverse=True)}


def _last_failure(record: Record) -> int:
    """The last minute with a failure; 0 if there is none."""
    return next((minute for minute, (_, failed) in record.items() if failed), 0)


def _count(record: Record, first: float, end: float = math.inf) -> Count:
    """The calls from the minute `first` to before the minute `end`."""
    calls = failed = 0
    for minute, (number, bad) in record.items():
        if minute < first:
            break
        if minute < end:
            calls, failed = calls + number, failed + bad
    return Count(calls, failed)


def _sum(counts: Iterable[Count]) -> Count:
    each = list(counts)
    return Count(sum(count.calls for count in each), sum(count.failed for count in each))


def _of(partners: Collection[str], counts: Counts) -> Count:
    """The calls of these partners."""
    return _sum(counts[each] for each in partners if each in counts)


def _tenth(counts: Counts) -> frozenset[str]:
    """The partners of whose calls FAILING_PERCENT percent failed."""
    return frozenset(each for each, count in counts.items() if count.is_tenth)


def _at(minute: float | None) -> datetime | None:
    return datetime.fromtimestamp(minute * 60, UTC) if minute is not None else None
