"""How a bank does now, told from how the service's calls to it end. This is the only definition of a bank's state.

The first of these decides: the bank is switched off; it is in a window; an operator keeps it out; its newest call says
that our log-in is refused or that it is closed; its breaker; the series of failures of all calls, and of each partner's
(`providers.outcomes`). A series that fails begins with the first failure after the last recovery.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

import structlog
from redis.exceptions import RedisError

from providers import outcomes
from providers.breaker import ALL, Breaker, Opening
from providers.health import Count, Health, Kind
from providers.maintenance import Maintenance
from providers.models import Circuit, Provider
from providers.outcomes import LEAST_FAILED, WHOLE, Outcome, Record, Series

log = structlog.get_logger(__name__)

_LONE_LEAST, _LONE_TIMES = 2, 4
_NEVER = Record()
Openings = Mapping[str, Opening]
SeriesOf = Mapping[str, Series]


def health_of(names: Collection[str] | None = None) -> dict[str, Health]:
    """The state of each bank of `names`, or of every bank, by name. Two statements, and at most two Redis calls."""
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
    now, records = time.time(), outcomes.read(banks)
    failed = {name: [each for each, record in records[name].items() if record.has_failed(now)] for name in banks}
    pairs = [(name, scope) for name in banks for scope in (ALL, *failed[name])]
    openings: dict[str, dict[str, Opening]] = defaultdict(dict)
    for (name, scope), opening in Breaker.openings(pairs).items():
        openings[name][scope] = opening
    return {name: judge(bank, records[name], openings[name], now) for name, bank in banks.items()}


def judge(bank: Provider, records: Mapping[str, Record], openings: Openings, now: float) -> Health:
    """What the records and the breakers that are not closed say, at `now` in seconds since the epoch. `records` are
    WHOLE's and partners' by id; `openings` are by scope: ALL, or a partner's id."""
    calls = Calls(bank, records, now)
    whole, opened = calls.whole, {} if bank.circuit == Circuit.CLOSED else openings
    if whole.outcome is Outcome.CLOSED:
        return replace(calls.health(Kind.WINDOW), note="fechado agora, segundo o banco", since=_at(whole.since))
    if whole.outcome is Outcome.LOGIN_REFUSED:
        return replace(calls.health(Kind.CREDENTIALS), since=_at(whole.since))
    if ALL in opened:
        kind = Kind.OUT if opened[ALL].state(now) == "open" else Kind.PROBING
        return replace(calls.health(kind), since=_at(opened[ALL].since))
    states = {each: opening.state(now) for each, opening in opened.items()}
    failing = calls.failing_now()
    # Some partners' open breakers must not hide that calls of others fail, too.
    if failing and (not opened or (not failing.concerned and calls.failing.keys() - opened.keys())):
        return replace(failing, breakers=states)
    if opened:
        mine = {each: calls.own.get(each, _NEVER) for each in opened}
        since = min(opening.since for opening in opened.values())
        return replace(calls.health(Kind.PARTIAL, mine), breakers=states, since=_at(since))
    fine = Kind.UNGUARDED if bank.circuit == Circuit.CLOSED else Kind.FINE
    return calls.recovered() or calls.health(fine)


class Group(NamedTuple):
    """The calls in the series of some partners, and how many failed; what is known of calls of others since the first
    of these: how many there were at most, and how many failed."""

    calls: int
    failed: int
    most: int
    foreign: int

    def others(self, series: Series) -> Count:
        """The calls of who is not of this group between the first failure of a member's `series` and the last. How
        often other members called meanwhile is told by how many of those calls failed, at the members' rate."""
        calls, failed = self.calls - series.calls, self.failed - series.failed
        if not failed:
            return Count(series.others, series.others_failed)
        theirs = max(0, min(series.others_failed - self.foreign, failed))
        number = round(series.others - theirs * calls / failed)
        return Count(max(0, min(self.most, number)), max(self.foreign, series.others_failed - theirs))

    def is_lone(self, series: Series) -> bool:
        """True if the calls of others hardly failed, in the sense of `others`, and were enough to tell: at the rate of
        the member's `series`, _LONE_LEAST would have failed. Less than FAILING_PERCENT percent failed; if LEAST_FAILED
        did, at less than a _LONE_TIMES-th of the series' rate."""
        mine, others = Count(series.calls, series.failed), self.others(series)
        is_enough = others.calls * mine.failed >= _LONE_LEAST * mine.calls
        is_rare = others.failed < LEAST_FAILED or _LONE_TIMES * others.share < mine.share
        return series.failed > 0 and is_enough and is_rare and not others.is_tenth


@dataclass(frozen=True)
class Calls:
    """What is known of the calls to a bank."""

    bank: Provider
    records: Mapping[str, Record]
    now: float

    @cached_property
    def whole(self) -> Record:
        return self.records.get(WHOLE, _NEVER)

    @cached_property
    def own(self) -> Mapping[str, Record]:
        """The records of partners."""
        return {each: record for each, record in self.records.items() if each != WHOLE}

    @cached_property
    def failing(self) -> Mapping[str, Record]:
        """The records of the partners whose calls fail. A log-in is the bank's: one that it accepts ends all."""
        accepted_at = self.whole.good_at if self.whole.good else 0
        return {
            each: record
            for each, record in self.own.items()
            if record.is_failing(self.now) and not (record.is_of_logins and accepted_at >= record.failed_at)
        }

    @cached_property
    def over(self) -> SeriesOf:
        """The series of the partners whose calls failed within the hour, and do not any more."""
        return {each: found for each, record in self.own.items() if (found := record.over(self.now))}

    def failing_now(self) -> Health | None:
        """The state if the bank fails for all, or for some."""
        whole = self.whole
        if whole.is_failing(self.now) and self._rest(_near(self.over, whole), whole).is_failing:
            return self.health(Kind.FAILING, self._alone(self.failing, whole))
        return self.health(Kind.FAILING, self.still_failing) if self.still_failing else None

    def recovered(self) -> Health | None:
        """The state if the bank, or some partners' calls, failed in the hour, and do not any more."""
        over = {**self.over, **self.failing}  # those whose partner has not called since, too
        whole = self.whole if self.whole.is_failing(self.now) else self.whole.over(self.now)
        if whole is None:
            return self._back(over, _NEVER) if over else None
        later = {each: found for each, found in over.items() if found.failed_at > whole.failed_at}
        return self._back(later or self._alone(over, whole), whole)

    def health(self, kind: Kind, concerned: SeriesOf | None = None, whole: Series | None = None) -> Health:
        """The state, told by the series of the `concerned` partners, or by that of all calls: `whole`, or the present
        one."""
        mine, present = concerned or {}, self.whole if self.whole.has_failed(self.now) else _NEVER
        told = [each for each in mine.values() if each.failed] or [whole or present]
        span = _span(told)
        failing = frozenset(mine) or self._failed_in(told[0])
        newest = [self.own.get(each, _NEVER) for each in mine] or [self.whole]
        last = max(each.at for each in newest)
        later = self._later(max(newest, key=lambda each: each.failed_at)) if mine else Count()
        is_changed = kind.is_problem and self.bank.updated_at.timestamp() > last > 0
        return Health(
            kind,
            since=_at(span.began) if kind.is_problem else None,
            theirs=_sum(told),
            span=(_at(span.began), _at(span.failed_at)),
            last=_at(last),
            changed_at=self.bank.updated_at if is_changed else None,
            failing=failing,
            concerned=frozenset(mine),
            is_for_some=bool(mine) and self._are_lone(mine),
            others=self._others(mine) or (Count() if later.calls else self._not_among(failing, span.began)),
            later=later,
            good=newest[0].good if len(newest) == 1 else 0,
            ends=sum((Counter(each.ends) for each in told), Counter[Outcome]()),
            own_records=self.still_failing if kind in (Kind.FAILING, Kind.PARTIAL) else {},
        )

    def _back(self, concerned: SeriesOf, whole: Series) -> Health:
        """The state of a bank that has recovered, for all or for the `concerned` partners."""
        health = self.health(Kind.RECOVERED, concerned, whole)
        told = concerned.values() or ([whole] if whole.back_at else self.over.values())
        back = max((each.back_at for each in told), default=0) or (0 if concerned else whole.failed_at)
        newest = max(self.records[each].failed_at for each in concerned or [WHOLE])
        return replace(health, since=_at(back), failed_at=_at(newest if newest > back > 0 else 0))

    def _alone(self, members: SeriesOf, whole: Series) -> SeriesOf:
        """Those of these partners that failed in the series of the `whole` bank, if it is judged by them alone: the
        others' calls are known to be good. None otherwise."""
        found = _near(members, whole)
        rest = self._rest(found, whole)
        if found and self._are_lone(found) and not rest.is_failing:
            return found
        good = whole.calls + whole.good - sum(each.calls + each.good for each in found.values())
        return found if len(found) == 1 and not rest.failed and good >= LEAST_FAILED else {}

    def _rest(self, members: SeriesOf, whole: Series) -> Count:
        """The calls of others than these partners in the series of the `whole` bank, or fewer."""
        theirs = _sum(members.values())
        failed = max(whole.failed - theirs.failed, self._failed_of_others(members, whole))
        return Count(max(failed, whole.calls - theirs.calls), failed)

    def _failed_of_others(self, members: SeriesOf, span: Series) -> int:
        """How many calls failed outside of these series, in those that overlap with `span`."""
        return sum(
            record.failed
            for each, record in self.own.items()
            if record.began <= span.failed_at and record.failed_at >= span.began and members.get(each) is not record
        )

    def _are_lone(self, members: SeriesOf) -> bool:
        """True if each of these partners' calls fail, or failed, and nobody else's."""
        group = self._group(members)
        return all(group.is_lone(series) for series in members.values())

    def _group(self, members: SeriesOf) -> Group:
        span = _span(members.values())
        most = self._not_among(members, span.began).calls
        return Group(*_sum(members.values()), most, self._failed_of_others(members, span))

    @cached_property
    def still_failing(self) -> Mapping[str, Record]:
        """The partners whose calls fail, without those that have not called since all others' calls are good again."""
        group = self._group(self.failing)
        return {
            each: record
            for each, record in self.failing.items()
            if group.is_lone(record) or not self._is_of_the_past(record)
        }

    def _is_of_the_past(self, record: Record) -> bool:
        """True if the bank has recovered since this partner's last failure, or if the calls of others since then are
        enough to say so."""
        whole, later = self.whole.over(self.now), self._later(record)
        is_long = self.now - record.failed_at >= record.needs_s
        return (whole is not None and whole.good_at > record.failed_at) or (
            is_long and later.calls >= record.needs and not later.is_tenth
        )

    def _later(self, record: Record) -> Count:
        """The calls of all other partners since the last failure of this one."""
        calls = self.whole.all - record.calls - record.good - record.base[0] - record.others
        failed = self.whole.all_failed - record.failed - record.base[1] - record.others_failed
        return Count(max(0, calls), max(0, failed))

    def _others(self, members: SeriesOf) -> Count | None:
        """The calls of others than these partners, as far as one of their series tells. None if there were none."""
        group = self._group(members)
        found = [group.others(series) for series in members.values()]
        most = max(found, key=lambda each: (each.failed, each.calls), default=Count())
        return most if most.calls else None

    def _not_among(self, failing: Collection[str], began: float) -> Count:
        """The calls of other partners that have called since then. Whoever has not failed counts from its first on."""
        others = [each for name, each in self.own.items() if name not in failing and each.at >= began > 0]
        again = _sum(each for each in others if each.failed_at >= began)
        return Count(again.calls + sum(each.good for each in others), again.failed)

    def _failed_in(self, whole: Series) -> frozenset[str]:
        """The partners of whom a call failed in this series of all calls."""
        if not whole.failed:
            return frozenset()
        return frozenset(
            each
            for each, record in self.own.items()
            if any(found and whole.began <= found.failed_at <= whole.failed_at for found in (record, record.ended))
        )


def _near(members: SeriesOf, whole: Series) -> SeriesOf:
    """Those that reach into the series of the `whole` bank."""
    return {each: series for each, series in members.items() if series.failed_at >= whole.began}


def _span(series: Iterable[Series]) -> Series:
    """From the first failure to the last."""
    each = list(series) or [_NEVER]
    return Series(began=min(one.began for one in each), failed_at=max(one.failed_at for one in each))


def _sum(series: Iterable[Series]) -> Count:
    each = list(series)
    return Count(sum(one.calls for one in each), sum(one.failed for one in each))


def _at(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
