"""What a partner may use, as its operator set it: calls a minute, queries in flight, distinct CPFs a day.

All web processes count together in Redis, each count in one round trip. Without Redis no limit is applied, and
`partner_limits_not_applied_total` says how often.

Queries in flight are counted by each process for itself. It writes its count with each query that begins, in the step
that adds the other processes' counts up, and soon after a query that ends. Once a second it renews its counts: a count
that is not renewed belongs to a process that died, and its places are free.
"""

from __future__ import annotations

import math
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from datetime import time as time_of_day
from functools import lru_cache
from typing import Any

import prometheus_client
import structlog
from django.db import connection
from django.utils import timezone
from redis.commands.core import Script
from redis.exceptions import RedisError

from foundation.encryption import blind_index
from foundation.errors import RateLimited
from foundation.redis import redis
from partners.models import Partner

log = structlog.get_logger(__name__)

MINUTE_S = 60
DAY_S = 24 * 3600
#: A process renews its counts this often; a count that was not renewed for `DEAD_AFTER_S` counts no longer.
BEAT_S = 1.0
DEAD_AFTER_S = 4.0
#: A query that ended is told within this time, so that many are told together.
TOLD_WITHIN_S = 0.1
#: After an error Redis is left alone for this time, because each further look at a frozen Redis costs a full time-out.
AWAY_S = 1.0

REFUSED = prometheus_client.Counter("partner_limit_refused", "Calls refused by a limit of their partner.", ["limit"])
NOT_APPLIED = prometheus_client.Counter(
    "partner_limits_not_applied", "Looks at a partner's limit that let the call pass, because Redis was away."
)

# Counts a call in the window that began with its first call. Answers the calls of the window, and what is left of it
# in milliseconds.
_CALL = """
local count = redis.call('incr', KEYS[1])
if count == 1 then redis.call('pexpire', KEYS[1], ARGV[1]) end
return {count, redis.call('pttl', KEYS[1])}
"""
# ARGV: process, its count, its count's number, the limit (empty: none), milliseconds after which a count is a dead
# process's. Writes the count, unless the limit forbids it or a later one is there; answers the count of all processes.
_IN_FLIGHT = """
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local total, fields = tonumber(ARGV[2]), redis.call('hgetall', KEYS[1])
local number = 0
for i = 1, #fields, 2 do
    local count, told_at, its_number = string.match(fields[i + 1], '(%d+) (%d+) (%d+)')
    if fields[i] == ARGV[1] then
        number = tonumber(its_number)
    elseif now - told_at < tonumber(ARGV[5]) then
        total = total + count
    else
        redis.call('hdel', KEYS[1], fields[i])
    end
end
if ARGV[4] ~= '' and total > tonumber(ARGV[4]) then return total end
if tonumber(ARGV[3]) > number then
    if ARGV[2] == '0' then
        redis.call('hdel', KEYS[1], ARGV[1])
    else
        redis.call('hset', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. string.format('%.0f', now) .. ' ' .. ARGV[3])
        redis.call('expire', KEYS[1], 60)
    end
end
return total
"""
# ARGV: a digest, the limit, when the set ends. Answers whether the digest may count, and how many do.
_CPF = """
local count = redis.call('scard', KEYS[1])
if redis.call('sismember', KEYS[1], ARGV[1]) == 1 then return {1, count} end
if count >= tonumber(ARGV[2]) then return {0, count} end
redis.call('sadd', KEYS[1], ARGV[1])
redis.call('expireat', KEYS[1], ARGV[3])
return {1, count + 1}
"""


@dataclass(frozen=True)
class Policy:
    """A kind of limit, as the `RateLimit` headers name it, and what a partner reads that has used it up."""

    name: str
    message: str
    window_s: int | None = None
    unit: str | None = None


PER_MINUTE = Policy("per-minute", "O limite de chamadas por minuto foi atingido.", window_s=MINUTE_S)
IN_FLIGHT = Policy(
    "in-flight", "O limite de consultas simultâneas foi atingido: espere que uma termine.", unit="concurrent-requests"
)
CPFS_PER_DAY = Policy(
    "cpfs-per-day", "O limite de CPFs distintos por dia foi atingido. CPFs já consultados hoje valem.", window_s=DAY_S
)


@dataclass(frozen=True)
class Quota:
    """A partner's limit and what is left of it. `resets_in_s`: whole seconds until all of it is there again, None
    where that hangs on the partner's own queries."""

    policy: Policy
    limit: int
    left: int
    resets_in_s: int | None = None


class LimitReached(RateLimited):
    """The partner has used up one of its limits."""

    default_message = PER_MINUTE.message


def headers(quotas: Iterable[Quota]) -> dict[str, str]:
    """`RateLimit-Policy` and `RateLimit` as draft-ietf-httpapi-ratelimit-headers-11 has them; empty without a quota."""
    policies, left = [], []
    for quota in quotas:
        policy = f'"{quota.policy.name}";q={quota.limit}'
        if quota.policy.unit:
            policy += f';qu="{quota.policy.unit}"'
        if quota.policy.window_s:
            policy += f";w={quota.policy.window_s}"
        policies.append(policy)
        reset = "" if quota.resets_in_s is None else f";t={quota.resets_in_s}"
        left.append(f'"{quota.policy.name}";r={quota.left}{reset}')
    return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(left)} if policies else {}


class Usage:
    """What one call uses of its partner's limits. `quotas`: what was looked at, for the headers of the reply."""

    def __init__(self, partner: Partner) -> None:
        self.partner = partner
        self.quotas: list[Quota] = []

    def count_call(self) -> None:
        """Count the call. Raises LimitReached."""
        limit = self.partner.rate_limit
        if not limit:
            return
        counted = _ask(lambda: _script(_CALL)(keys=[_calls_key(self.partner)], args=[MINUTE_S * 1000]))
        if counted is not None:
            count, left_ms = counted
            self._note(Quota(PER_MINUTE, limit, limit - count, math.ceil(left_ms / 1000)))

    def enter(self) -> Callable[[], None]:
        """Take a place for a query; the function that is returned frees it, once. Raises LimitReached."""
        limit = self.partner.in_flight_limit or None
        free, total = in_flight().enter(self.partner.pk, limit)
        if limit is not None and total is not None:
            self._note(Quota(IN_FLIGHT, limit, limit - total))
        return free

    def count_cpf(self, cpf: str) -> None:
        """Count a query for `cpf`, which counts once a day in Brazil's time. Raises LimitReached."""
        limit = self.partner.daily_cpf_limit
        if not limit:
            return
        now = timezone.localtime()
        midnight = _midnight_after(now)
        arguments = (_digest(self.partner, now, cpf), limit, int(midnight.timestamp()) + 3600)
        counted = _ask(lambda: _script(_CPF)(keys=[_cpfs_key(self.partner, now)], args=arguments))
        if counted is not None:
            may, count = counted
            seconds = math.ceil((midnight - now).total_seconds())
            self._note(Quota(CPFS_PER_DAY, limit, limit - count if may else -1, seconds))

    def _note(self, quota: Quota) -> None:
        """Keep `quota` for the headers. Raises LimitReached where less than nothing is left of it."""
        self.quotas.append(Quota(quota.policy, quota.limit, max(0, quota.left), quota.resets_in_s))
        if quota.left < 0:
            REFUSED.labels(quota.policy.name).inc()
            raise LimitReached(quota.policy.message, retry_after_s=quota.resets_in_s or 1)


@dataclass(frozen=True)
class Today:
    """A partner's use: calls of the current minute and distinct CPFs of the current day, as far as a limit has them
    counted, and queries in flight now."""

    calls: int
    in_flight: int
    cpfs: int


def today(partner: Partner) -> Today:
    """What `partner` uses at this moment. Raises RedisError."""
    pipe = redis().pipeline(transaction=False)
    pipe.get(_calls_key(partner))
    pipe.hvals(_in_flight_key(partner.pk))
    pipe.scard(_cpfs_key(partner, timezone.localtime()))
    calls, counts, cpfs = pipe.execute()
    since = (time.time() - DEAD_AFTER_S) * 1000
    told = [[int(part) for part in each.split()] for each in counts]
    return Today(int(calls or 0), sum(count for count, told_at, _ in told if told_at > since), cpfs)


class InFlight:
    """The queries in flight of this process, by partner."""

    def __init__(self) -> None:
        self._process = uuid.uuid4().hex
        self._counts: Counter[uuid.UUID] = Counter()
        self._number = 0
        self._untold: set[uuid.UUID] = set()
        self._crowded: set[uuid.UUID] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._tell, name="queries-in-flight", daemon=True).start()

    def enter(self, partner: uuid.UUID, limit: int | None) -> tuple[Callable[[], None], int | None]:
        """Count a query of `partner`. Returns what ends it, and how many the partner has in all processes, this one
        included, where there is a `limit` and Redis is there. One above `limit` is not counted."""
        with self._lock:
            self._counts[partner] += 1
            self._untold.add(partner)
        end = _once(lambda: self._end(partner))
        if limit is None:
            return end, None
        total: int | None = None
        try:
            total = _ask(lambda: self._write(partner, limit))
        except BaseException:
            end()
            raise
        if total is not None and total > limit:
            end()
        # Near the limit the other processes have to know at once of a query that ends.
        if total is not None and limit - total < max(4, limit // 8):
            self._crowded.add(partner)
        else:
            self._crowded.discard(partner)
        return end, total

    def _end(self, partner: uuid.UUID) -> None:
        with self._lock:
            self._counts[partner] -= 1
            if not self._counts[partner]:
                del self._counts[partner]
            self._untold.add(partner)
        if partner not in self._crowded or _ask(lambda: self._write(partner)) is None:
            self._ended.set()

    def _write(self, partner: uuid.UUID, limit: int | None = None) -> int:
        """Tell the other processes this one's count for `partner`; the count of all. Raises RedisError."""
        with self._lock:
            self._number += 1
            self._untold.discard(partner)
            arguments = (self._process, self._counts[partner], self._number, "" if limit is None else limit)
        total: int = _script(_IN_FLIGHT)(keys=[_in_flight_key(partner)], args=[*arguments, int(DEAD_AFTER_S * 1000)])
        return total

    def _tell(self) -> None:
        """Tell soon of queries that ended, and once a second of all."""
        told_all_at = 0.0
        while True:
            if self._ended.wait(BEAT_S):
                time.sleep(TOLD_WITHIN_S)
                self._ended.clear()
            with self._lock:
                partners = set(self._untold)
                if time.monotonic() - told_all_at >= BEAT_S:
                    partners |= set(self._counts)
                    told_all_at = time.monotonic()
            for partner in partners:
                try:
                    self._write(partner)
                except RedisError:
                    log.warning("queries_in_flight_untold")
                    with self._lock:
                        self._untold |= partners
                    time.sleep(AWAY_S)
                    break


_processes: dict[int, InFlight] = {}
_process_lock = threading.Lock()


def in_flight() -> InFlight:
    """This process's queries in flight; a forked process gets its own."""
    with _process_lock:
        if os.getpid() not in _processes:
            _processes[os.getpid()] = InFlight()
        return _processes[os.getpid()]


_away_until = 0.0


def _ask(look: Callable[[], Any]) -> Any:
    """What `look` finds in Redis, None where Redis is away. Gives the database connection back first."""
    global _away_until
    if time.monotonic() < _away_until:
        NOT_APPLIED.inc()
        return None
    if not connection.in_atomic_block:
        connection.close()
    try:
        return look()
    except RedisError as fault:
        _away_until = time.monotonic() + AWAY_S
        NOT_APPLIED.inc()
        log.warning("partner_limits_not_applied", fault=type(fault).__name__)
        return None


@lru_cache(maxsize=8)
def _script(text: str) -> Script:
    return redis().register_script(text)


def _once(free: Callable[[], None]) -> Callable[[], None]:
    """`free`, whose repeats have no effect."""
    left = [free]

    def freed() -> None:
        if left:
            left.pop()()

    return freed


def _calls_key(partner: Partner) -> str:
    return f"limit:calls:{partner.pk}"


def _in_flight_key(partner: uuid.UUID) -> str:
    return f"limit:in-flight:{partner}"


def _cpfs_key(partner: Partner, now: datetime) -> str:
    return f"limit:cpfs:{partner.pk}:{now:%Y-%m-%d}"


def _digest(partner: Partner, now: datetime, cpf: str) -> str:
    """What stands for `cpf` in the set of a day: another in each set, so that sets can't be compared."""
    return blind_index("daily-cpf", f"{_cpfs_key(partner, now)} {cpf}")[:32]


def _midnight_after(now: datetime) -> datetime:
    return timezone.make_aware(datetime.combine(now.date() + timedelta(days=1), time_of_day.min))
