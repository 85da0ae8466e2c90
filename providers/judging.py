"""How a bank does now, told from how the service's calls to it end. This is the only definition: the first page, lists,
`GET /providers` and `/metrics` show it.

The first of these decides: the bank is switched off; it is in a window; an operator keeps it out; it said that our
log-in is refused or that it is closed; its breaker; its newest calls. These are the calls of this minute and the one
before, and of earlier minutes, up to an hour, until they are LEAST_CALLS. A bank fails if at least FAILING_LEAST of
them, and FAILING_PERCENT percent, failed; for one partner, if as many of that partner's failed. A partner whose last
calls of the hour all failed, at least FAILING_LEAST, while the others' succeeded, is judged by these calls alone. What
happened before the last change of the bank's settings does not count.

A failing bank answers again as soon as no call of this minute and the one before failed, and the partners that had
failures have had so many answers since that, at the earlier rate, FAILING_LEAST of them would have failed. A bank that
does not fail now, but by its calls of the last hour, or of successive minutes of that hour, has recovered.

It fails for some partners alone if the others, since failures began, had so many calls that at the same rate
_LONE_LEAST of them would have failed, and less than _LONE_PERCENT percent did: _MANY_PERCENT if FAILING_LEAST did.
Nobody knows that in the minute in which failures began, because its good calls may have come before them.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import structlog
from django.utils import timezone
from redis.exceptions import RedisError

from providers import outcomes
from providers.breaker import ALL, MINIMUM_CALLS, Breaker
from providers.health import (
    FAILED,
    FAILING_LEAST,
    FAILING_PERCENT,
    Health,
    Kind,
    failing_partners,
    is_failing,
    number,
    only_of,
    summed,
)
from providers.maintenance import Maintenance
from providers.models import Circuit, Provider
from providers.outcomes import LAST_HOUR, Calls, Minutes, Outcome

log = structlog.get_logger(__name__)

LEAST_CALLS = 20
_LONGEST_MIN = 60
_RECENT, _EARLIER = LAST_HOUR, range(len(LAST_HOUR), outcomes.BLOCKS)


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
    minutes = outcomes.read(banks, now, _RECENT)
    totals = {name: summed(found.values()) for name, found in minutes.items()}
    unclear = [name for name, calls in totals.items() if is_failing(calls) or calls.total() < LEAST_CALLS]
    for name, found in outcomes.read(unclear, now, _EARLIER).items():
        minutes[name].update(found)
    # Calls that count no more leave a zero (`providers.outcomes`).
    minutes = {
        name: {each: kept for each in found if (kept := _without_zeros(found[each]))} for name, found in minutes.items()
    }
    minute = int(now) // 60
    hours = {name: _hour(minutes[name], minute, bank.updated_at) for name, bank in banks.items()}
    scopes = {(name, scope) for name, hour in hours.items() for scope in (ALL, *_partners_with_failures(hour))}
    breakers = Breaker.states(scopes)
    of_bank = {name: {s: breakers[b, s] for b, s in scopes if b == name} for name in banks}
    return {name: _judged(bank, minutes[name], hours[name], minute, of_bank[name]) for name, bank in banks.items()}


def _judged(bank: Provider, minutes: Minutes, hour: Minutes, now: int, breakers: Mapping[str, str]) -> Health:
    """What the calls and the breakers' states say. `breakers` are by scope: ALL, and each partner that had failures in
    the hour. `now` is a minute."""
    newest = _after_recovery(hour, _newest(hour, now), now)
    is_guarded = bank.circuit != Circuit.CLOSED
    own = {scope: state for scope, state in breakers.items() if is_guarded and scope != ALL and state != "closed"}
    for partner, calls in _lone_failures(hour).items():
        newest = newest - only_of(newest, (partner,)) + calls
        if is_guarded and calls.total() >= MINIMUM_CALLS and _may_have_opened(hour, partner):
            own.setdefault(partner, "half_open")  # Redis forgets a breaker that nobody tries
    word = _word_of_bank(minutes, bank.updated_at)
    kind = Kind.FINE if is_guarded else Kind.UNGUARDED
    if word:
        kind = Kind.WINDOW if word is Outcome.CLOSED else Kind.CREDENTIALS
    elif is_guarded and breakers[ALL] != "closed":
        kind = Kind.OUT if breakers[ALL] == "open" else Kind.PROBING
    elif own:
        kind = Kind.PARTIAL
        for partner in own:
            newest |= _newest({minute: only_of(calls, (partner,)) for minute, calls in hour.items()})
    elif _has_failing(newest):
        kind = Kind.FAILING
    elif len(breakers) > 1 and (_has_failing(summed(hour.values())) or _recovery(hour)[1]):
        return _recovered(kind, hour, newest)
    series = _since_failures(minutes, newest) if kind.is_problem else {}
    health = Health(
        kind,
        "fechado agora, segundo o banco" if kind is Kind.WINDOW else "",
        None,
        newest,
        own,
        bank.updated_at if newest.total() < LEAST_CALLS and _leaves_out_calls(minutes, bank.updated_at) else None,
        _at(max(minutes, default=None)),
        series=summed(series.values()),
        is_new=min(series, default=None) == now,
    )
    if not kind.is_problem and not word:
        return health
    if health.concerned:
        minutes = {minute: only_of(calls, health.concerned) for minute, calls in minutes.items()}
    since = _since(minutes, (word,) if word else FAILED, health.theirs)
    last = _at(max((each for each, calls in minutes.items() if calls), default=None))
    return replace(health, since=since, good_since=_good_since(hour), last=last)


def _recovered(kind: Kind, hour: Minutes, newest: Calls) -> Health:
    """The state of a bank that does not fail now. It has recovered if calls of those for whom it failed do not."""
    calls = summed(hour.values())
    failing = failing_partners(calls) | failing_partners(_recovery(hour)[1])
    series = summed(found for found in hour.values() if number(only_of(found, failing), FAILED))
    health = Health(Kind.RECOVERED, newest=calls, series=series, good_since=_good_since(hour), last=_at(max(hour)))
    if health.concerned:
        hour = {minute: only_of(found, health.concerned) for minute, found in hour.items()}
    back, failed = _recovery(hour)
    return replace(health, since=_at(back)) if back and failed else Health(kind, newest=newest, last=health.last)


def _at(minute: int | None) -> datetime | None:
    return datetime.fromtimestamp(minute * 60, UTC) if minute is not None else None


def _leaves_out_calls(minutes: Minutes, changed_at: datetime) -> bool:
    """True if a change of the bank's settings at that time leaves out calls that an hour would have."""
    is_recent = timezone.now() - changed_at < timedelta(minutes=_LONGEST_MIN)
    return is_recent and len(_newest_first(minutes, changed_at)) < len(minutes)


def _hour(minutes: Minutes, now: int, changed_at: datetime) -> Minutes:
    """The calls of the last hour of a bank whose settings were changed at that time, the newest minute first. `now` is
    a minute."""
    return {each: minutes[each] for each in _newest_first(minutes, changed_at) if each > now - _LONGEST_MIN}


def _newest(hour: Minutes, now: float = math.inf) -> Calls:
    """The newest calls: those of the minute `now` and the one before it, and more until they are LEAST_CALLS."""
    calls: Calls = Counter()
    for minute, found in hour.items():
        if minute < now - 1 and calls.total() >= LEAST_CALLS:
            break
        calls += found
    return calls


def _after_recovery(hour: Minutes, newest: Calls, now: int) -> Calls:
    """Those of the `newest` calls that came after the last failure, if they say that the bank answers again. `now` is a
    minute."""
    good = _good_since(hour)
    before = newest - good
    before = only_of(before, {partner for outcome, partner in before if outcome in FAILED})
    answers = number(only_of(good, {partner for _, partner in before}), (Outcome.ANSWERED,))
    is_enough = answers * number(before, FAILED) >= FAILING_LEAST * before.total() > 0
    is_calm = not any(number(hour.get(each, Counter()), FAILED) for each in (now, now - 1))
    return good if is_enough and is_calm else newest


def _recovery(hour: Minutes) -> tuple[int | None, Calls]:
    """The first minute of the newest ones that do not fail, None if none; and the calls of those before that do: all
    since then, or of successive minutes. Empty if none did."""
    calls: Calls = Counter()
    run: Calls = Counter()
    back = None
    for minute, found in hour.items():
        is_bad = number(found, FAILED) * 100 >= FAILING_PERCENT * found.total()
        calls, run = calls + found, run + found if is_bad else Counter()
        if failed := next(filter(is_failing, (run, calls)), None):
            return back, failed
        if not is_bad:
            back = minute
    return back, Counter()


def _lone_failures(hour: Minutes) -> dict[str, Calls]:
    """The last calls of each partner, if all of them, at least FAILING_LEAST, failed while most of the others' calls,
    from the minute before on, did not."""
    lone: dict[str, Calls] = {}
    for partner in _partners_with_failures(hour):
        calls: Calls = Counter()
        failed_in: list[int] = []
        for minute, found in hour.items():
            theirs = only_of(found, (partner,))
            if number(theirs, FAILED) < theirs.total():
                break
            calls += theirs
            failed_in += [minute] if theirs else []
        if calls.total() >= FAILING_LEAST:
            others = summed(hour[each] for each in hour if failed_in[-1] - 1 <= each <= failed_in[0]) - calls
            if others.total() > 2 * number(others, FAILED):
                lone[partner] = calls
    return lone


def _may_have_opened(hour: Minutes, partner: str) -> bool:
    """True if the failures of two successive minutes were enough for this partner's breaker (its WINDOW_S)."""
    failed = {each: number(only_of(calls, (partner,)), FAILED) for each, calls in hour.items()}
    return any(count + failed.get(each - 1, 0) >= MINIMUM_CALLS for each, count in failed.items())


def _good_since(hour: Minutes) -> Calls:
    """The calls of the newest minutes without a failure."""
    good: Calls = Counter()
    for calls in hour.values():
        if number(calls, FAILED):
            break
        good += calls
    return good


def _newest_first(minutes: Minutes, changed_at: datetime) -> list[int]:
    return [each for each in sorted(minutes, reverse=True) if each >= int(changed_at.timestamp()) // 60]


def _since(minutes: Minutes, bad: Collection[Outcome], newest: Calls) -> datetime | None:
    """The first minute of the present series of `bad` outcomes: the one since which these most exceed half of their
    share of the newest calls. A failure with enough good calls after it is earlier. LEAST_CALLS calls that together are
    not failing end the series."""
    first, most, exceeded = None, 0.0, 0.0
    share = number(newest, bad) / max(1, newest.total())
    calls: Calls = Counter()
    for minute in sorted(minutes, reverse=True):
        calls += minutes[minute]
        exceeded += number(minutes[minute], bad) - share / 2 * minutes[minute].total()
        if exceeded > most:
            first, most, calls = minute, exceeded, Counter()
        elif calls.total() >= LEAST_CALLS and not is_failing(calls, bad):
            break
    return _at(first)


def _since_failures(minutes: Minutes, newest: Calls) -> Minutes:
    """The minutes from the first one on of the present series of failures of those whose calls fail, and those before
    it that had failures."""
    failing = failing_partners(newest)
    theirs = {minute: only_of(calls, failing) for minute, calls in minutes.items()}
    began = _since(theirs, FAILED, only_of(newest, failing))
    first, series = began.timestamp() // 60 if began else math.inf, {}
    for minute in sorted(minutes, reverse=True) if began else ():
        if minute < first and not number(minutes[minute], FAILED):
            break
        series[minute] = minutes[minute]
    return series


def _word_of_bank(minutes: Minutes, changed_at: datetime) -> Outcome | None:
    """What the bank said in the newest minute with calls, at least as often as it answered: that our log-in is wrong,
    or that it is closed."""
    newest = next(iter(_newest_first(minutes, changed_at)), None)
    calls = minutes[newest] if newest is not None else Counter()
    for outcome in (Outcome.LOGIN_REFUSED, Outcome.CLOSED):
        if 0 < number(calls, (outcome,)) >= number(calls, (Outcome.ANSWERED,)):
            return outcome
    return None


def _has_failing(calls: Calls) -> bool:
    """True if all calls together, or those of a partner, fail."""
    return is_failing(calls) or any(is_failing(only_of(calls, (each,))) for each in failing_partners(calls))


def _partners_with_failures(minutes: Minutes) -> set[str]:
    return {partner for calls in minutes.values() for outcome, partner in calls if outcome in FAILED}


def _without_zeros(calls: Calls) -> Calls:
    """`calls` without those that count no more."""
    return calls if min(calls.values()) > 0 else +calls
