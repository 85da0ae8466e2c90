"""How calls to banks ended: for each bank one record of all calls and one of each partner's, in Redis.

A process writes its calls together with its counts for the breaker (`providers.breaker`), and one script brings the
records up to date, so that the order of the calls is kept. A call that the service itself held back is not counted.

A record's series are its failures with the calls in between. The series fails from when at least LEAST_FAILED, and
FAILING_PERCENT percent of the newest calls, failed: of the last minute's, or of the newest NEWEST if those are more. It
ends when enough calls in a row succeeded (`_CHANCES`), for a minute, or when less than FAILING_PERCENT percent fail.
Log-ins alone end with one that the bank accepts.
"""

import time
from collections import Counter
from collections.abc import Collection, Mapping
from enum import StrEnum

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
#: At a series' rate, this many of the good calls that end it would have failed; NEWEST good calls end any.
_CHANCES = 5
#: So many good calls divide failures that are too rare to be told.
_APART = 10
_MINUTE_S, _HOUR_S, _KEPT_S = 60, 3600, 12 * 3600
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
    did. Times are seconds since the epoch.

    Of a partner: `others` counts the calls of all other partners between its first and its last failure, and
    `others_failed` those that failed."""

    began: float = 0
    failed_at: float = 0
    calls: int = 0
    failed: int = 0
    ends: dict[Outcome, int] = {}
    good: int = 0
    good_at: float = 0
    others: int = 0
    others_failed: int = 0

    @property
    def back_at(self) -> float:
        """When good calls began after the last failure; 0 if none has come."""
        return self.good_at if self.good or self.good_at > self.failed_at else 0


class Record(Series):
    """The present series, or the last one. `failing` is true once it fails, until another one begins; then `ended` is
    the last one that failed. The series is over after `needs` good calls and `needs_s` seconds. `at` is the time of the
    newest call, `outcome` its end, and `since` is since when calls end so. `all` counts calls since Redis keeps them,
    and `all_failed` those that failed. `base` is what these were for the other partners when the series began."""

    at: float = 0
    outcome: Outcome = Outcome.ANSWERED
    since: float = 0
    failing: bool = False
    needs: int = 0
    needs_s: float = 0
    all: int = 0
    all_failed: int = 0
    base: tuple[int, int] = (0, 0)
    ended: Series | None = None

    @property
    def is_of_logins(self) -> bool:
        """True if all failures are log-ins that the bank refused."""
        return self.ends.keys() == {Outcome.LOGIN_REFUSED}

    def is_over(self, now: float) -> bool:
        """True if the calls since the last failure are enough to say that the bank is back."""
        return self.good >= self.needs and now - self.good_at >= self.needs_s

    def is_failing(self, now: float) -> bool:
        """True if the series fails, and goes on. What failed more than an hour ago tells nothing."""
        return self.failing and now - self.failed_at < _HOUR_S and not self.is_over(now)

    def over(self, now: float) -> Series | None:
        """The last series of the hour that failed, if it is over."""
        found = self if self.failing else self.ended
        is_over = found is not self or self.is_over(now)
        return found if found and is_over and now - found.failed_at < _HOUR_S else None

    def has_failed(self, now: float) -> bool:
        """True if a call failed within the hour."""
        return self.failed > 0 and now - self.failed_at < _HOUR_S


_DECODER = msgspec.json.Decoder(Record)

#: Arguments: the time, that of the last good call, and then outcome, partner and number of calls. `weight` is the
#: number of the newest calls, and `bad` of those that failed; `base` is what others had called when the series began.
_WRITE = f"""
local now, good_at = tonumber(ARGV[1]), tonumber(ARGV[2])
local records = {{}}
local function record(name)
  if not records[name] then
    local raw = redis.call('HGET', KEYS[1], name)
    records[name] = raw and cjson.decode(raw) or {{at = 0, since = 0, failed_at = 0, began = 0, calls = 0, failed = 0,
      ends = {{}}, good = 0, good_at = 0, weight = 0, bad = 0, all = 0, all_failed = 0, needs = 0, needs_s = 0}}
  end
  return records[name]
end

local function begin(r)
  if r.failing then
    r.ended = {{began = r.began, failed_at = r.failed_at, calls = r.calls, failed = r.failed, ends = r.ends,
      good = r.good, good_at = r.good > 0 and r.good_at or now, others = r.others, others_failed = r.others_failed}}
  end
  r.failing, r.began, r.calls, r.failed, r.ends, r.good, r.base = false, now, 0, 0, {{}}, 0, nil
end

local function fail(r, outcome, number)
  local share, is_over = r.bad * 100 / r.weight, r.good >= r.needs and now - r.good_at >= r.needs_s
  local calls, failed = r.calls + r.good + number, r.failed + number
  local is_rare = share < {FAILING_PERCENT} or failed * 100 < {FAILING_PERCENT} * calls
  local is_other = (outcome == 'login_refused') ~= (r.ends.login_refused == r.failed)
  local is_apart = r.good >= {_APART} or now - r.failed_at > {_HOUR_S} or is_other
  if r.failed == 0 or (r.failing and (is_over or is_rare)) or (not r.failing and is_apart) then
    begin(r)
  end
  r.calls, r.failed, r.failed_at = r.calls + r.good + number, r.failed + number, now
  r.ends[outcome] = (r.ends[outcome] or 0) + number
  r.good = 0
  r.failing = r.failing or (r.failed >= {LEAST_FAILED} and share >= {FAILING_PERCENT})
  r.needs, r.needs_s = math.min({NEWEST}, math.ceil({_CHANCES} * r.calls / r.failed)), {_MINUTE_S}
  if r.ends.login_refused == r.failed then
    r.needs, r.needs_s = 1, 0
  end
end

local function add(r, outcome, number)
  local at = outcome == 'answered' and good_at or now
  if at >= r.at then
    if r.outcome ~= outcome then
      r.outcome, r.since = outcome, at
    end
  end
  if outcome ~= 'closed' then
    local keep = 1
    if r.weight > {NEWEST} then
      keep = math.max({NEWEST} / r.weight, math.exp(math.min(r.at - at, 0) / {_MINUTE_S}))
    end
    r.weight, r.bad, r.all = r.weight * keep + number, r.bad * keep, r.all + number
    if outcome ~= 'answered' then
      r.bad, r.all_failed = r.bad + number, r.all_failed + number
      fail(r, outcome, number)
    elseif at >= r.failed_at then
      r.good_at = r.good > 0 and r.good_at or at
      r.good = r.good + number
    end
  end
  r.at = math.max(r.at, at)
end

for each = 3, #ARGV, 3 do
  local outcome, partner, number = ARGV[each], ARGV[each + 1], tonumber(ARGV[each + 2])
  local whole, own = record('{WHOLE}'), record(partner)
  add(whole, outcome, number)
  add(own, outcome, number)
  if outcome ~= 'answered' and outcome ~= 'closed' then
    local others, failed = whole.all - own.calls, whole.all_failed - own.failed
    if not own.base or now - own.began < {_LATE_S} then
      own.base = {{others, failed}}
    end
    own.others, own.others_failed = others - own.base[1], failed - own.base[2]
  end
end
for name, r in pairs(records) do
  redis.call('HSET', KEYS[1], name, cjson.encode(r))
end
redis.call('EXPIRE', KEYS[1], {_KEPT_S})
"""


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


def write(bank: str, calls: Mapping[tuple[Outcome, str], int], now: float, good_at: float | None = None) -> None:
    """Add `calls` that ended until `now`, in seconds since the epoch: first those that succeeded, the last of them at
    `good_at`. One Redis call. Raises RedisError."""
    ends = sorted(calls.items(), key=lambda each: each[0][0] is not Outcome.ANSWERED)
    now, good_at = round(now, 3), round(now if good_at is None else good_at, 3)  # Lua writes no more digits
    arguments = [part for (outcome, partner), number in ends for part in (str(outcome), partner, number)]
    redis().register_script(_WRITE)(keys=[_key(bank)], args=[now, good_at, *arguments])


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
        write(bank, {(outcome, OPERATOR): 1}, time.time())
    except RedisError:
        log.warning("bank_calls_unreachable")


def _key(bank: str) -> str:
    return f"bank-calls:{bank}"
