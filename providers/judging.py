"""How a bank does now, told from how the service's calls to it end. This is the only definition of a bank's state.

The first of these decides: the bank is switched off; it is in a window; an operator keeps it out; its newest call says
that our log-in is refused or that it is closed; its breaker for all; the series of failures of all calls; those of
partners (`providers.outcomes`). A partner's own breaker is told beside the state.
"""

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

import structlog
from redis.exceptions import RedisError

from foundation.database import give_back_connection
from providers import outcomes
from providers.breaker import ALL, Breaker, Opening, total
from providers.health import Health, Kind
from providers.maintenance import Maintenance
from providers.models import Circuit, Provider
from providers.outcomes import HOUR_S, WHOLE, Outcome, Record, Series, hardly_fail

log = structlog.get_logger(__name__)

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
    give_back_connection()
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
    if whole.outcome is Outcome.CLOSED and now - whole.at < HOUR_S:
        return replace(calls.health(Kind.WINDOW), note="fechado agora, segundo o banco", since=_at(whole.since))
    if whole.outcome is Outcome.LOGIN_REFUSED:
        return replace(calls.health(Kind.CREDENTIALS), since=_at(whole.since))
    if ALL in opened:
        kind = Kind.OUT if opened[ALL].state(now) == "open" else Kind.PROBING
        return replace(calls.health(kind), since=_at(opened[ALL].since))
    fine = Kind.UNGUARDED if bank.circuit == Circuit.CLOSED else Kind.FINE
    told = calls.failing_now() or calls.recovered() or calls.health(fine)
    return replace(told, breakers={each: opening.state(now) for each, opening in opened.items()})


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
        """The records of the partners whose calls fail. The bank's return ends the failures of all who do not fail
        alone, those who have not called since, too. Whose failures were the only ones ends them by own good calls."""
        back = self.whole.returned(self.now)
        return {
            each: record
            for each, record in self.own.items()
            if record.is_failing(self.now)
            and (record.alone or not back or back.back_at <= record.failed_at or (back.only == each and record.good))
        }

    @cached_property
    def _sick(self) -> set[str]:
        """The partners whose own series fails, or failed, in the series of all."""
        began = self.whole.began
        return {
            each for each, own in self.own.items() if own.part[0] == began and own.failing and own.failed_at >= began
        }

    def failing_now(self) -> Health | None:
        """The state if the bank fails for all, or for some."""
        if not self.whole.is_failing(self.now):
            return self.health(Kind.FAILING, self.failing) if self.failing else None
        if members := self._members(self.failing):
            return self.health(Kind.FAILING, {**self.failing, **members}, is_for_some=True)
        if found := self._only_one_known_to_fail() or self._who_still_fails():
            return self.health(Kind.FAILING, found)
        others = {each: record for each, record in self.failing.items() if each not in self.whole.who}
        return self.health(Kind.FAILING, {**self._with_who_fails_alone(self.whole), **others})

    def recovered(self) -> Health | None:
        """The state if the bank, or some partners' calls, failed in the hour, and do not any more."""
        whole = self.whole.recovered_from(self.now)
        over = {each: found for each, record in self.own.items() if (found := record.recovered_from(self.now))}
        later = {each: found for each, found in over.items() if not whole or found.failed_at > whole.failed_at}
        if later:
            return self._back(later, max(found.back_at for found in later.values()))
        if not whole:
            return None
        if whole is self.whole and self._sick <= over.keys() and (members := self._members(over)):
            return self._back({each: over[each] for each in members}, max(over[each].back_at for each in members))
        if whole.only and self._others_good({whole.only}):
            found = over.get(whole.only)
            return self._back({whole.only: found or whole}, found.back_at if found else 0)
        return self._back(self._with_who_fails_alone(whole), whole.back_at)

    def health(self, kind: Kind, told: SeriesOf | None = None, is_for_some: bool = False) -> Health:
        """The state, told by the series of these partners, or by that of all calls (WHOLE), the present one if none is
        given."""
        told = told or self._with_who_fails_alone(self.whole if self.whole.has_failed(self.now) else _NEVER)
        told = dict(sorted(told.items(), key=lambda each: (each[0] != WHOLE, each[1].began, each[0])))
        began = min((each.began for each in told.values() if each.failed), default=0.0)
        failing = {*(told.keys() - {WHOLE}), *(told[WHOLE].who if WHOLE in told else ())}
        newest = [self.records.get(each, _NEVER) for each in told]
        last = max(each.at for each in newest)
        others = [each for name, each in self.own.items() if name not in failing and each.at >= began > 0]
        is_good = all(each.outcome is Outcome.ANSWERED for each in others)
        is_of_others = any(each.has_had_failing_series_since(began) for each in others)
        is_changed = kind.is_problem and self.bank.updated_at.timestamp() > self.whole.at > 0
        return Health(
            kind,
            since=_at(began) if kind.is_problem else None,
            told=told,
            last=_at(last),
            changed_at=self.bank.updated_at if is_changed else None,
            failing=frozenset(failing),
            is_for_some=not is_of_others and (is_for_some or all(self._is_alone(each) for each in told.values())),
            others_called=bool(others),
            others_failed=any(each.failed_at >= began for each in others),
            others_served=bool(others) and not self.whole.is_failing(self.now) and is_good,
            good=0 if len(newest) > 1 else newest[0].good,
            own_records=self.failing if kind is Kind.FAILING else {},
        )

    def _back(self, told: SeriesOf, back: float) -> Health:
        """The state of a bank that has recovered, for all or for some partners: at `back`, 0 if these have not called
        since."""
        newest = max(self.records[each].failed_at for each in told)
        health = self.health(Kind.RECOVERED, told)
        return replace(health, since=_at(back), failed_at=_at(newest if newest > back > 0 else 0))

    def _members(self, told: Collection[str]) -> Mapping[str, Record]:
        """Those of the partners `told` whose calls fail, or failed, in the series of all, if others called the bank
        between the failures and hardly failed (`hardly_fail`). Empty otherwise."""
        parts = {each: record.part[1:] for each, record in self.own.items() if record.part[0] == self.whole.began}
        members = self._sick.intersection(told)
        calls, failed = total(parts[each] for each in members)
        others, others_failed = total(parts[each] for each in parts.keys() - self._sick)
        others -= max(0, self.whole.good - sum(self.own[each].good for each in self._sick))
        is_known = failed and hardly_fail(others, others_failed, failed / calls)
        return {each: self.own[each] for each in members} if is_known else {}

    def _with_who_fails_alone(self, whole: Series) -> SeriesOf:
        """The series of all calls, and those of the partners whose calls were left out of it, because they fail, or
        failed, alone."""
        since = max(whole.began, self.now - HOUR_S)
        series = [(each, found) for each, record in self.own.items() for found in (record.ended, record) if found]
        alone = {each: found for each, found in series if found.alone and found.failed_at >= since}
        return {WHOLE: whole, **{each: found for each, found in alone.items() if each not in whole.who}}

    def _is_alone(self, series: Series) -> bool:
        """True if this partner fails, or failed, alone, and others have hardly failed until now."""
        if not isinstance(series, Record):
            return series.alone
        calls, failed = (
            all_ - then - mine for all_, then, mine in zip(self.whole.others, series.base, series.mine, strict=True)
        )
        return series.alone and hardly_fail(calls, failed, series.failed / series.calls)

    def _who_still_fails(self) -> Mapping[str, Record]:
        """The only partner whose calls fail, if those of all others who failed with it are good again. Empty if not."""
        others = self.whole.who.keys() - self.failing.keys()
        is_known = others and len(self.failing) == 1 and all(self.own[each].is_over(self.now) for each in others)
        return self.failing if is_known else {}

    def _only_one_known_to_fail(self) -> Mapping[str, Record]:
        """Whose calls fail, if all failures of the bank are of one partner, and the newest calls of others were good.
        Empty otherwise."""
        names = self.own.keys() & {self.whole.only, *self.failing}
        return {each: self.own[each] for each in names} if self.whole.only and self._others_good(names) else {}

    def _others_good(self, names: Collection[str]) -> bool:
        """True if the newest call of another partner than these was good, within the hour."""
        return any(
            each.outcome is Outcome.ANSWERED and self.now - each.at < HOUR_S
            for name, each in self.own.items()
            if name not in names
        )


def _at(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
