"""Circuit breaker per bank. All workers share its state through Redis.

The breaker opens at a failure when at least half of 10 or more calls within 30 s failed. Failures are time-outs,
connection errors, 5xx and unreadable answers; a refusal is a success. After 15 s the breaker lets one probe through:
if the probe succeeds, the breaker closes, otherwise it opens again. A call is one operation of
`providers.operation.BankClient`, however many requests it makes.

Failures are counted per partner, so that no partner can block a bank for the others. The breaker opens for all partners
in two cases: only one partner called the bank; or calls of at least two partners failed, and half of the calls remain
failed when the partner with the most failures is left out. Otherwise the breaker opens for the failing partner alone.
The same holds for a failed probe, and a partner whose calls were held back counts as one that called. If the probe
failed for its partner alone, the next call of any other partner is another probe. The partner whose failures alone
opened the breaker for all has a probe of its own, so that a probe that hangs delays nobody else's.

A process gathers its counts and writes them with a failure, or within two seconds. It reads the state at most once a
second. Without Redis every call goes through: the breaker protects, it is not allowed to be an outage of its own.
"""

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import gevent
import structlog
from redis.client import Pipeline
from redis.exceptions import RedisError

from foundation.redis import redis
from providers import outcomes
from providers.outcomes import Calls, Outcome

log = structlog.get_logger(__name__)

WINDOW_S = 30
BUCKET_S = 5
MINIMUM_CALLS = 10
OPEN_S = 15.0
PROBE_S = 30
CACHE_S = 1.0
FLUSH_S = 2.0
#: A breaker that nobody tries stays half open for so long.
OPENED_TTL_S = 3600


#: Redis list of openings and closings, the newest last, read by the collector of figures. Each entry is a JSON array:
#: bank, scope, whether the breaker opened, seconds since the epoch. The list keeps only the newest entries if nobody
#: reads it.
HISTORY = "breaker:history"
_HISTORY_LENGTH = 10_000

#: The scope of a breaker that is open for all partners. Any other scope is a partner's id.
ALL = ""
_GOOD, _BAD = "good", "bad"


def should_open(good: int, bad: int, minimum: int = MINIMUM_CALLS) -> bool:
    """True if these counts of good and bad operations within WINDOW_S seconds mean that the bank is down."""
    return bad > 0 and good + bad >= minimum and bad >= good


def scopes_to_open(counts: Mapping[str, tuple[int, int]]) -> list[str]:
    """The scopes for which the breaker must open: ALL, or the partners whose own calls fail. `counts` holds the good
    and bad operations of each partner within WINDOW_S seconds."""
    if should_open(*total(counts.values())) and concerns_all(counts):
        return [ALL]
    return [partner for partner, (good, bad) in counts.items() if should_open(good, bad)]


def concerns_all(counts: Mapping[str, tuple[int, int]]) -> bool:
    """True if failures within WINDOW_S seconds show that the bank is down for all partners. `counts` is as in
    `scopes_to_open` and contains a failure."""
    worst = max(counts, key=lambda partner: counts[partner][1])
    others = [count for partner, count in counts.items() if partner != worst]
    return not others or should_open(*total(others), minimum=1)


def _only_failing(counts: Mapping[str, tuple[int, int]]) -> str:
    """The partner of all failures. Empty if several partners have failures."""
    failing = [partner for partner, (_, bad) in counts.items() if bad]
    return failing[0] if len(failing) == 1 else ""


def total(counts: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The sums of the first and of the second numbers of `counts`."""
    pairs = list(counts)
    return sum(good for good, _ in pairs), sum(bad for _, bad in pairs)


class Opening(NamedTuple):
    """When a breaker opened last, and `since` when it has not been closed, in seconds since the epoch."""

    at: float
    since: float

    @classmethod
    def read(cls, raw: Any) -> Self:
        """What `str` of an opening was. Redis gives bytes."""
        at, _, since = raw.partition(b" ")
        return cls(float(at), float(since or at))

    def __str__(self) -> str:
        return f"{self.at} {self.since}"

    def state(self, now: float) -> str:
        """`open`, or `half_open` (the next call is the probe)."""
        return "open" if now - self.at < OPEN_S else "half_open"


@dataclass
class _Local:
    """What this process knows of one bank: the outcomes that are not yet written to Redis, and True if a timer will
    write them, and when the last good call of each partner ended; when the breaker opened, by scope, as last read; in
    which bucket a partner's held back calls were last noted."""

    calls: Calls = field(default_factory=Counter)
    good_at: dict[str, float] = field(default_factory=dict)
    flushed_at: float = 0.0
    is_awaited: bool = False
    read_at: dict[str, float] = field(default_factory=dict)
    opened_at: dict[str, Opening] = field(default_factory=dict)
    noted_in: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Breaker:
    """The breaker of the bank `name` for calls of the partner with the id `partner`.

    The object whose `allows` admitted a probe must also record the probe's outcome. `clock` gives seconds since the
    epoch, the same for all processes.
    """

    _locals: ClassVar[defaultdict[str, _Local]] = defaultdict(_Local)

    def __init__(self, name: str, partner: str = "-", clock: Callable[[], float] = time.time) -> None:
        self.name = name
        self.partner = partner
        self._now = clock
        self._state = self._locals[name]
        self._probes: list[str] = []

    @classmethod
    def forget(cls) -> None:
        """Drop what this process knows of every bank."""
        cls._locals.clear()

    def allows(self) -> bool:
        """True if a call may go out now. When the breaker is half open, only one caller in all processes gets True: its
        call is the probe."""
        try:
            opened = self._opened()
            is_open = any(opening.state(self._now()) == "open" for opening in opened.values())
            if not is_open and self._takes_probes(opened):
                return True
            if ALL in opened:
                self._note_held_back()
        except RedisError:
            return True
        return False

    def _release(self) -> None:
        try:
            if self._probes:
                redis().delete(*self._probes)
        except RedisError:
            log.warning("breaker_unreachable", bank=self.name)
        self._probes.clear()

    def record(self, outcome: Outcome | None) -> None:
        """Count the outcome of an operation that `allows` admitted. None says nothing about the bank: if the operation
        was the probe, another one may be."""
        if outcome is None:
            self._release()
            return
        state, is_success = self._state, outcome is Outcome.ANSWERED
        with state.lock:
            if self._now() - state.flushed_at > FLUSH_S + WINDOW_S:  # this process stood still
                state.calls.clear()  # none of them is in the window any more
            state.calls[outcome, self.partner] += 1
            if is_success:
                state.good_at[self.partner] = self._now()
            is_open = ALL in state.opened_at or self.partner in state.opened_at
            if is_success and not is_open and self._now() - state.flushed_at < FLUSH_S:
                if not state.is_awaited:  # no further call may come
                    state.is_awaited = True
                    gevent.spawn_later(FLUSH_S, self._flush)
                return
        self._flush(is_success)

    def _flush(self, is_success: bool = True) -> None:
        """Write what was gathered. `is_success` is the last call's."""
        state = self._state
        with state.lock:
            calls, good_at, state.calls, state.good_at = state.calls, state.good_at, Counter(), {}
            state.flushed_at, state.is_awaited = self._now(), False
        if not calls:
            return
        try:
            outcomes.write(self.name, calls, self._now(), good_at)
            self._settle(is_success, calls)
        except RedisError:
            # The counts are lost. The breaker only opens later than it should.
            log.warning("breaker_unreachable", bank=self.name)

    @classmethod
    def openings(cls, scopes: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Opening]:
        """The breakers that are not closed, of these pairs of a bank and a scope: ALL, or a partner's id. One Redis
        call. Raises RedisError."""
        pairs = list(scopes)
        values = redis().mget([cls(bank)._key("opened_at", scope) for bank, scope in pairs]) if pairs else []
        return {pair: Opening.read(raw) for pair, raw in zip(pairs, values, strict=True) if raw}

    @classmethod
    def begin_anew(cls, bank: str) -> None:
        """Close the breaker for all and for each partner that called, and count no earlier call, because the bank's
        settings were changed."""
        breaker = cls(bank)
        try:
            for _, scope in cls.openings((bank, scope) for scope in (ALL, *outcomes.read([bank])[bank])):
                breaker._close(scope)
            redis().delete(*breaker._buckets(WINDOW_S // BUCKET_S + 1))
        except RedisError:
            log.warning("breaker_unreachable", bank=bank)

    def _settle(self, is_success: bool, calls: Calls) -> None:
        opened = self._opened()
        if opened:
            # Only the probe's outcome counts while the breaker is open: a call that began before the opening may end
            # long after it.
            if self._probes:
                self._settle_probe(is_success, opened)
            if ALL in opened:
                return
            calls = Counter({each: count for each, count in calls.items() if each[1] != self.partner})
            if not calls:
                return
        counts = self._counted(calls)
        # A good call never opens it: the bank may be back.
        has_failed = any(outcome is not Outcome.ANSWERED for outcome, _ in calls)
        for scope in scopes_to_open(counts) if has_failed else ():
            self._open(scope, anew=False, cause=_only_failing(counts))

    def _settle_probe(self, is_success: bool, opened: Mapping[str, Opening]) -> None:
        """Close or reopen the scopes `opened` by the outcome of this operation, which was the probe."""
        if is_success:
            for scope in opened:
                self._close(scope)
            self._count_as_caller()  # the counts begin anew
        else:
            counts = self._counted(Counter({(Outcome.FAILED, self.partner): 1}))
            for scope in opened if ALL not in opened or concerns_all(counts) else (self.partner,):
                self._open(scope, cause=_only_failing(counts))
        self._release()

    def _takes_probes(self, opened: Iterable[str]) -> bool:
        """Take the probes of the scopes `opened`, all or none. False if another call has one of them."""
        probes: list[str] = []
        for scope in opened:
            is_cause = scope == ALL and redis().get(self._key("cause")) == self.partner.encode()
            key = self._key("probe", self.partner if is_cause else scope)
            if key in probes:
                continue
            if not redis().set(key, 1, nx=True, ex=PROBE_S):
                if probes:
                    redis().delete(*probes)
                return False
            probes.append(key)
        self._probes += probes
        return True

    def _note_held_back(self) -> None:
        """Have this partner count as one that calls the bank, although its calls are held back."""
        [bucket] = self._buckets(1)
        if self._state.noted_in.get(self.partner) != bucket:
            self._state.noted_in[self.partner] = bucket
            self._count_as_caller()

    def _count_as_caller(self) -> None:
        """Have this partner count as one that calls the bank, by a call that counts neither as good nor as bad."""
        self._counted(Counter({(Outcome.ANSWERED, self.partner): 0}))

    def _counted(self, calls: Calls) -> dict[str, tuple[int, int]]:
        """Write `calls`. Returns the good and bad operations of all processes within the window, by partner."""
        current, *earlier = self._buckets(WINDOW_S // BUCKET_S)
        pipe = redis().pipeline(transaction=False)
        for (outcome, partner), count in calls.items():
            pipe.hincrby(current, f"{_GOOD if outcome is Outcome.ANSWERED else _BAD}:{partner}", count)
        pipe.expire(current, WINDOW_S + BUCKET_S)
        for key in (current, *earlier):
            pipe.hgetall(key)
        totals: dict[str, tuple[int, int]] = {}
        for row in pipe.execute()[-1 - len(earlier) :]:
            for name, count in row.items():
                word, _, partner = name.decode().partition(":")
                good, bad = totals.get(partner, (0, 0))
                totals[partner] = (good + int(count), bad) if word == _GOOD else (good, bad + int(count))
        return totals

    def _open(self, scope: str, anew: bool = True, cause: str = "") -> None:
        """Open for `scope` from now on. If `anew` is False and the breaker is already open, its time and its probe
        stay. `cause` is the partner of all failures, if it is one."""
        now = self._now()
        before = self._state.opened_at.get(scope) if anew else None
        opening = Opening(now, before.since if before else now)
        if not redis().set(self._key("opened_at", scope), str(opening), ex=OPENED_TTL_S, nx=not anew):
            return
        pipe = redis().pipeline()
        pipe.delete(self._key("probe", scope))
        pipe.set(self._key("cause"), cause, ex=OPENED_TTL_S)
        self._note(pipe, scope, is_open=True)
        pipe.execute()
        self._state.opened_at[scope] = opening
        log.warning("breaker_opened", bank=self.name, partner=scope or None)

    def _close(self, scope: str) -> None:
        buckets = self._buckets(WINDOW_S // BUCKET_S + 1)
        pipe = redis().pipeline()
        pipe.delete(self._key("opened_at", scope), self._key("probe", scope))
        for key in buckets:
            if scope == ALL:
                pipe.delete(key)
            else:
                pipe.hdel(key, f"{_GOOD}:{scope}", f"{_BAD}:{scope}")
        self._note(pipe, scope, is_open=False)
        pipe.execute()
        self._state.opened_at.pop(scope, None)
        log.info("breaker_closed", bank=self.name, partner=scope or None)

    def _note(self, pipe: Pipeline, scope: str, *, is_open: bool) -> None:
        pipe.rpush(HISTORY, json.dumps([self.name, scope, is_open, self._now()]))
        pipe.ltrim(HISTORY, -_HISTORY_LENGTH, -1)

    def _opened(self) -> dict[str, Opening]:
        """When the breaker opened, for the scopes that apply to this partner: ALL and the partner's own."""
        state, scopes = self._state, (ALL, self.partner)
        if self._now() - state.read_at.get(self.partner, float("-inf")) >= CACHE_S:
            state.read_at[self.partner] = self._now()  # also if the read below fails, so that not every call tries it
            openings = self.openings((self.name, scope) for scope in scopes)
            for scope in scopes:
                state.opened_at.pop(scope, None)
            state.opened_at |= {scope: opening for (_, scope), opening in openings.items()}
        return {scope: state.opened_at[scope] for scope in scopes if scope in state.opened_at}

    def _buckets(self, number: int) -> list[str]:
        """The Redis keys of the newest buckets, the current one first."""
        bucket = int(self._now()) // BUCKET_S
        return [self._key(f"calls:{bucket - age}") for age in range(number)]

    def _key(self, what: str, scope: str = ALL) -> str:
        return f"breaker:{self.name}:{what}" + (f":{scope}" if scope != ALL else "")
