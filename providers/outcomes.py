"""How calls to banks ended: counts by minute and partner, of the last twelve hours, in Redis.

A process writes them together with its counts for the breaker (`providers.breaker`). They say what happened to calls
that went out. A call that the service itself held back is not counted. Calls from before a change of a bank's settings
count no more, nor do log-ins that it refused before it let us in again.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum

import structlog
from redis.exceptions import RedisError

from foundation.errors import ApiError
from foundation.redis import redis
from providers.errors import BankBusy, BankClosed, BankFailure, BankTimedOut, LoginRefused, ProviderError

log = structlog.get_logger(__name__)

#: A Redis hash holds the counts of a bank in this many minutes.
BLOCK_MIN = 10
#: How many hashes of a bank are kept.
BLOCKS = 72
#: The blocks that hold the last hour.
LAST_HOUR = range(60 // BLOCK_MIN + 1)
#: In place of a partner's id, for a log-in that an operator tried (`Testar conexão`).
OPERATOR = ""


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


#: Many thousand words are read; calling the enum takes four times as long.
_BY_WORD = {each.value: each for each in Outcome}
#: The number of calls by outcome and partner's id.
Calls = Counter[tuple[Outcome, str]]
#: The calls of each minute. Minutes are counted since the epoch.
Minutes = Mapping[int, Calls]


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


def write(bank: str, calls: Calls, now: float) -> None:
    """Add `calls` of this minute. `now` is in seconds since the epoch. Raises RedisError."""
    if not calls:
        return
    minute = int(now) // 60
    key = _key(bank, minute // BLOCK_MIN)
    pipe = redis().pipeline(transaction=False)
    for (outcome, partner), count in calls.items():
        pipe.hincrby(key, f"{minute}:{outcome}:{partner}", count)
    pipe.expire(key, BLOCKS * BLOCK_MIN * 60)
    pipe.execute()


def read(banks: Collection[str], now: float, blocks: range) -> dict[str, dict[int, Calls]]:
    """The calls of each bank in those `blocks` of BLOCK_MIN minutes, the current one being number 0. One Redis call.
    Raises RedisError."""
    current = int(now) // 60 // BLOCK_MIN
    keys = [(bank, _key(bank, current - age)) for bank in banks for age in blocks]
    pipe = redis().pipeline(transaction=False)
    for _, key in keys:
        pipe.hgetall(key)
    found: dict[str, dict[int, Calls]] = {bank: defaultdict(Counter) for bank in banks}
    for (bank, _), fields in zip(keys, pipe.execute() if keys else [], strict=True):
        for name, count in fields.items():
            minute, outcome, partner = name.decode().split(":", 2)
            if int(count) > 0:  # calls that count no more leave a zero
                found[bank][int(minute)][_BY_WORD[outcome], partner] = int(count)
    return found


def put_before(bank: str, changed_at: float) -> None:
    """Count the calls of the minute of `changed_at` (seconds since the epoch) in the minute before it. The minute of a
    change counts for the new settings, and the calls before the change must not."""
    minute = int(changed_at) // 60
    with _if_redis_answers():
        calls = read([bank], changed_at, range(1))[bank].get(minute, Counter())
        write(bank, calls, (minute - 1) * 60)
        write(bank, _negative(calls), minute * 60)


def forget_refused_logins(bank: str) -> None:
    """Count no log-in that the bank refused in the last hour, because it accepts the same credentials now."""
    with _if_redis_answers():
        for minute, calls in read([bank], time.time(), LAST_HOUR)[bank].items():
            refused = Counter({each: count for each, count in calls.items() if each[0] is Outcome.LOGIN_REFUSED})
            write(bank, _negative(refused), minute * 60)


def count_refused_login(bank: str) -> None:
    """Count a log-in with the stored credentials that an operator tried and the bank refused."""
    with _if_redis_answers():
        write(bank, Counter({(Outcome.LOGIN_REFUSED, OPERATOR): 1}), time.time())


@contextmanager
def _if_redis_answers() -> Iterator[None]:
    try:
        yield
    except RedisError:
        log.warning("bank_calls_unreachable")


def _negative(calls: Calls) -> Calls:
    return Counter({each: -count for each, count in calls.items()})


def _key(bank: str, block: int) -> str:
    return f"bank-calls:{bank}:{block}"
