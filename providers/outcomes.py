"""How calls to banks ended: for each bank one record of all calls and one of each partner's, in Redis.

A process writes its calls together with its counts for the breaker (`providers.breaker`), and one script brings the
records up to date, so that the order of the calls is kept. A call that the service itself held back is not counted.

A record's series are its failures with the calls in between. The series fails from when at least LEAST_FAILED, and
FAILING_PERCENT percent of the newest calls, failed: of the last minute's, or of the newest NEWEST if those are more. It
ends when enough calls in a row succeeded (`_CHANCES`), for a minute, or when less than FAILING_PERCENT percent fail.
LEAST_FAILED refused log-ins fail whatever their share of the newest calls, and end with one that the bank accepts. The
bank's return ends the series of all who failed with it.

A partner fails alone if others called the bank meanwhile, and hardly failed: at the rate of the partner's series, at
least _CHANCES of their calls would have failed, and not a _CHANCES-th of that, nor FAILING_PERCENT percent, did. Its
calls are then left out of the record of all. Others are those whose own series does not fail.
"""

import time
from collections import Counter
from collections.abc import Collection, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec
import structlog
from redis.exceptions import RedisError

from foundation.errors import ApiError
from foundation.redis import redis
from providers.errors import BankBusy, BankClosed, BankFailure, BankTimedOut, LoginRefused, ProviderError

log = structlog.get_logger(__name__)

LEAST_FAILED, FAILING_PERCENT, NEWEST = 3, 10, 20
#: In place of a partner's id: all calls of the bank, and a log-in that an operator tried (`Testar conexão`).
WHOLE, OPERATOR = "*", ""
#: At a series' rate, so many of the good calls that end it would have failed; NEWEST good calls end any.
_CHANCES = 5
#: So many good calls divide failures that are too rare to be told.
_APART = 10
_MINUTE_S, HOUR_S, _KEPT_S = 60, 3600, 12 * 3600
#: A process writes its good calls up to this much later.
_LATE_S = 2.5


class Outcome(StrEnum):
    """The end of an operation. A bank's refusal is an answer; `closed` means closed by the bank's own word. `failed`
    is a failure that has no name of its own here: most often a status 5xx."""

    ANSWERED = "answered"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    UNREACHABLE = "unreachable"
    UNREADABLE = "unreadable"
    CLOSED = "closed"
    LOGIN_REFUSED = "login_refused"

    __hash__ = str.__hash__  # an enum's own is written in Python, and these are keys of large counters


#: The number of calls by outcome and partner's id.
Calls = Counter[tuple[Outcome, str]]


class Series(msgspec.Struct):
    """Failures, and the calls in between: from when to when, how many calls, and how many `failed`, in all and by
    outcome (`ends`). `good` is how many calls succeeded since the last failure, and `good_at` when the first of them
    did. `who` are the partners whose calls failed. A partner is `alone` if it fails alone. `over` is true of a series
    that enough good calls in a row have ended. Times are seconds since the epoch."""

    began: float = 0
    failed_at: float = 0
    calls: int = 0
    failed: int = 0
    ends: dict[Outcome, int] = {}
    good: int = 0
    good_at: float = 0
    who: dict[str, bool] = {}
    alone: bool = False
    over: bool = False

    @property
    def back_at(self) -> float:
        """When good calls began after the last failure; 0 if none has come."""
        return self.good_at if self.good or self.good_at > self.failed_at else 0

    @property
    def only(self) -> str:
        """The partner whose failures these are. Empty if they are of several, or log-ins, which are the bank's own."""
        return next(iter(self.who)) if len(self.who) == 1 and self.ends.keys() != {Outcome.LOGIN_REFUSED} else ""


class Record(Series):
    """The present series, or the last one. `failing` is true once it fails, until another one begins; then `ended` is
    the last one that failed. The series is over after `needs` good calls and `needs_s` seconds. `at` is the time of the
    newest call, `outcome` its end, and `since` is since when calls end so. A partner's `part` in the series of all
    calls: when that began, and how many of its calls there were since, and failed. The script says what `others`,
    `base` and `mine` are."""

    at: float = 0
    outcome: Outcome = Outcome.ANSWERED
    since: float = 0
    failing: bool = False
    needs: int = 0
    needs_s: float = 0
    part: tuple[float, int, int] = (0, 0, 0)
    others: tuple[int, int] = (0, 0)
    base: tuple[int, int] = (0, 0)
    mine: tuple[int, int] = (0, 0)
    ended: Series | None = None

    def is_over(self, now: float) -> bool:
        """True if the calls since the last failure are enough to say that the bank is back."""
        return self.good >= self.needs and now - self.good_at >= self.needs_s

    def is_failing(self, now: float) -> bool:
        """True if the series fails, and goes on. What failed more than an hour ago tells nothing."""
        return self.failing and now - self.failed_at < HOUR_S and not self.is_over(now)

    def returned(self, now: float) -> Series | None:
        """The last series that failed, if it ended by enough good calls in a row."""
        return self if self.failing and self.is_over(now) else self.ended if self.ended and self.ended.over else None

    def recovered_from(self, now: float) -> Series | None:
        """The last series of the hour that failed, if it is over."""
        found = self if self.failing else self.ended
        is_over = found is not self or self.is_over(now)
        return found if found and is_over and now - found.failed_at < HOUR_S else None

    def has_had_failing_series_since(self, since: float) -> bool:
        """True if a series that failed, the present or the last one, has gone on since then."""
        return any(each.failed_at >= since for each in (self.ended, self if self.failing else None) if each)

    def has_failed(self, now: float) -> bool:
        """True if a call failed within the hour."""
        return self.failed > 0 and now - self.failed_at < HOUR_S


_DECODER = msgspec.json.Decoder(Record)

#: What the script calls by these names.
_NAMES = {
    "WHOLE": f"'{WHOLE}'",
    "LEAST_FAILED": LEAST_FAILED,
    "FAILING_PERCENT": FAILING_PERCENT,
    "NEWEST": NEWEST,
    "CHANCES": _CHANCES,
    "APART": _APART,
    "MINUTE_S": _MINUTE_S,
    "HOUR_S": HOUR_S,
    "KEPT_S": _KEPT_S,
    "LATE_S": _LATE_S,
}
_WRITE = "".join(
    (*(f"local {name} = {value}\n" for name, value in _NAMES.items()), Path(__file__).with_suffix(".lua").read_text())
)


def outcome_of(error: BaseException) -> Outcome | None:
    """The outcome of an operation that raised `error`. None if that says nothing about the bank: the service itself
    held the request back, or broke, or the bank had no time for it."""
    match error:
        case BankFailure(held_back=True) | BankBusy():
            return None
        case LoginRefused():
            return Outcome.LOGIN_REFUSED
        case BankClosed():
            return Outcome.CLOSED
        case BankTimedOut():
            return Outcome.TIMED_OUT
        case ProviderError():
            return Outcome.UNREADABLE
        case BankFailure():
            return Outcome.UNREACHABLE if error.broken else Outcome.FAILED
    return Outcome.ANSWERED if isinstance(error, ApiError) else None


def hardly_fail(calls: int, failed: int, share: float) -> bool:
    """True if so many calls of others show that they do not fail as those do of whom this share of the calls failed."""
    expected = calls * share
    return expected >= _CHANCES and failed * _CHANCES <= expected and failed * 100 < FAILING_PERCENT * calls


def write(bank: str, calls: Mapping[tuple[Outcome, str], int], now: float, good_at: Mapping[str, float]) -> None:
    """Add `calls` that ended until `now`, in seconds since the epoch: first those that succeeded. `good_at` is when the
    last of them ended, by partner. One Redis call. Raises RedisError."""
    ends = [
        (outcome, partner, number, good_at.get(partner, now) if outcome is Outcome.ANSWERED else now)
        for (outcome, partner), number in calls.items()
    ]
    ends.sort(key=lambda each: (each[0] is not Outcome.ANSWERED, each[3]))
    # Lua writes no more digits than milliseconds have.
    arguments = [part for outcome, partner, number, at in ends for part in (outcome, partner, number, round(at, 3))]
    redis().register_script(_WRITE)(keys=[_key(bank)], args=[round(now, 3), *arguments])


def read(banks: Collection[str]) -> dict[str, dict[str, Record]]:
    """The records of each bank: WHOLE, and each partner's by id. One Redis call. Raises RedisError."""
    pipe = redis().pipeline(transaction=False)
    for bank in banks:
        pipe.hgetall(_key(bank))
    found = pipe.execute() if banks else []
    return {
        bank: {name.decode(): _DECODER.decode(raw) for name, raw in fields.items()}
        for bank, fields in zip(banks, found, strict=True)
    }


def count_trial(bank: str, outcome: Outcome) -> None:
    """Count a log-in with the stored credentials that an operator tried."""
    try:
        write(bank, {(outcome, OPERATOR): 1}, time.time(), {})
    except RedisError:
        log.warning("bank_calls_unreachable")


def _key(bank: str) -> str:
    return f"bank-calls:{bank}"
