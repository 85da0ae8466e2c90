"""A partner's limits, set by operators: calls per minute, queries in flight, distinct CPFs per day. All web processes
count together in Redis, each count in one round trip, as docs/decisions/0023-limits-and-breaker.md says. Without Redis
no limit is applied, and `partner_limits_not_applied_total` counts how often.
"""

import math
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from datetime import time as time_of_day
from functools import partial
from typing import Any

import prometheus_client
import structlog
from django.utils import timezone
from redis.exceptions import RedisError

from foundation.database import give_back_connection
from foundation.encryption import blind_index
from foundation.errors import RateLimited
from foundation.redis import Command, per_process, redis, to_redis
from partners.models import Partner

log = structlog.get_logger(__name__)

MINUTE_S = 60
DAY_S = 24 * 3600
#: How often a process renews its queries, in seconds. After `DEAD_AFTER_S` without renewal a query does not count.
BEAT_S = 1.0
DEAD_AFTER_S = 4.0
#: How long Redis is not used after an error, in seconds, because each further attempt would cost a full time-out.
AWAY_S = 1.0

REFUSED = prometheus_client.Counter("partner_limit_refused", "Calls refused by a limit of their partner.", ["limit"])
NOT_APPLIED = prometheus_client.Counter(
    "partner_limits_not_applied", "Looks at a partner's limit that let the call pass, because Redis was away."
)

# Counts a call in a window that begins with its first call. Returns its calls and remaining milliseconds.
_CALL = """
local count = redis.call('incr', KEYS[1])
if count == 1 then redis.call('pexpire', KEYS[1], ARGV[1]) end
return {count, redis.call('pttl', KEYS[1])}
"""
# ARGV: milliseconds without renewal after which a query does not count, the limit (empty: none), and queries that begin
# or are renewed. Writes these, unless the limit forbids one more. Returns how many there are with them.
_IN_FLIGHT = """
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('zremrangebyscore', KEYS[1], '-inf', now - ARGV[1])
local others = redis.call('zcard', KEYS[1])
if ARGV[2] ~= '' and others >= tonumber(ARGV[2]) then return others + 1 end
for i = 3, #ARGV do redis.call('zadd', KEYS[1], now, ARGV[i]) end
redis.call('pexpire', KEYS[1], ARGV[1])
return redis.call('zcard', KEYS[1])
"""
# ARGV: a digest, the limit, when the set expires. Returns whether the digest is counted, and how many are.
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
    """A kind of limit: its name in the `RateLimit` headers, and the message for a partner that has reached it."""

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
    """A partner's limit and the remainder. `resets_in_s` is the number of whole seconds until the full limit is
    available again; None if that depends on the partner's own queries."""

    policy: Policy
    limit: int
    left: int
    resets_in_s: int | None = None


class LimitReached(RateLimited):
    default_message = PER_MINUTE.message


def headers(quotas: Iterable[Quota]) -> dict[str, str]:
    """`RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-11. Empty without a quota."""
    policies, remaining = [], []
    for quota in quotas:
        policy = f'"{quota.policy.name}";q={quota.limit}'
        if quota.policy.unit:
            policy += f';qu="{quota.policy.unit}"'
        if quota.policy.window_s:
            policy += f";w={quota.policy.window_s}"
        policies.append(policy)
        reset = "" if quota.resets_in_s is None else f";t={quota.resets_in_s}"
        remaining.append(f'"{quota.policy.name}";r={quota.left}{reset}')
    return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(remaining)} if policies else {}


class Usage:
    """One call's use of its partner's limits. `quotas` are those that were checked, for the headers of the reply."""

    def __init__(self, partner: Partner) -> None:
        self.partner = partner
        self.quotas: list[Quota] = []

    def count_call(self) -> None:
        """Count the call. Raises LimitReached."""
        if self.partner.rate_limit:
            self.count(PER_MINUTE, self.partner.rate_limit)

    def count(self, policy: Policy, limit: int) -> None:
        """Count one use of what `policy` limits. Raises LimitReached."""
        window_s = policy.window_s or MINUTE_S
        counted = _ask(_run(_CALL, _window_key(policy, self.partner), window_s * 1000))
        if counted is not None:
            count, left_ms = counted
            self._note(Quota(policy, limit, limit - count, math.ceil(left_ms / 1000)))

    def enter(self) -> Callable[[], None]:
        """Take a place for a query. Returns the function that frees it, to be called once. Raises LimitReached."""
        limit = self.partner.in_flight_limit or None
        free, total = in_flight().enter(self.partner.pk, limit)
        if limit is not None and total is not None:
            self._note(Quota(IN_FLIGHT, limit, limit - total))
        return free

    def count_cpf(self, cpf: str) -> None:
        """Count a query for `cpf`. A CPF counts once per day in Brasília's time. Raises LimitReached."""
        limit = self.partner.daily_cpf_limit
        if not limit:
            return
        now = timezone.localtime()
        midnight = timezone.make_aware(datetime.combine(now.date() + timedelta(days=1), time_of_day.min))
        key = _cpfs_key(self.partner, now)
        digest = blind_index("daily-cpf", f"{key} {cpf}")[:32]  # differs per set, so that sets cannot be compared
        counted = _ask(_run(_CPF, key, digest, limit, int(midnight.timestamp()) + 3600))
        if counted is not None:
            may, count = counted
            seconds = math.ceil((midnight - now).total_seconds())
            self._note(Quota(CPFS_PER_DAY, limit, limit - count if may else -1, seconds))

    def _note(self, quota: Quota) -> None:
        """Keep `quota` for the headers. Raises LimitReached if its remainder is negative."""
        self.quotas.append(Quota(quota.policy, quota.limit, max(0, quota.left), quota.resets_in_s))
        if quota.left < 0:
            REFUSED.labels(quota.policy.name).inc()
            policy = quota.policy
            raise LimitReached(policy.message, retry_after_s=quota.resets_in_s or 1, limit=policy.name)


@dataclass(frozen=True)
class Today:
    """A partner's current use: calls this minute and distinct CPFs today, if they have a limit; queries in flight."""

    calls: int
    in_flight: int
    cpfs: int


def today(partner: Partner) -> Today:
    """The current use of `partner`. Raises RedisError."""
    pipe = redis().pipeline(transaction=False)
    pipe.get(_window_key(PER_MINUTE, partner))
    pipe.zcard(_in_flight_key(partner.pk))  # those of dead processes leave it with the next renewal
    pipe.scard(_cpfs_key(partner, timezone.localtime()))
    calls, in_flight, cpfs = pipe.execute()
    return Today(int(calls or 0), in_flight, cpfs)


class InFlight:
    """The queries in flight in this process, by partner."""

    def __init__(self) -> None:
        self._queries: defaultdict[uuid.UUID, set[str]] = defaultdict(set)
        #: Held while a query joins or leaves and while all are renewed, so that no ended query is renewed.
        self._lock = threading.Lock()
        threading.Thread(target=self._renew, name="queries-in-flight", daemon=True).start()

    def enter(self, partner: uuid.UUID, limit: int | None) -> tuple[Callable[[], None], int | None]:
        """Count a query of `partner`. Returns the function that ends it, to be called once, and the partner's queries
        in all processes including this one; None without a `limit` or without Redis. A query above `limit` is not
        counted: its function may not be called."""
        query, total = uuid.uuid4().hex, None
        end = partial(self._end, partner, query)
        if limit is None:
            to_redis().post(_written(partner, [query]))
        else:
            try:
                total = _ask(_written(partner, [query], limit))
            except BaseException:
                end()
                raise
        if limit is None or total is None or total <= limit:
            with self._lock:
                self._queries[partner].add(query)
        return end, total

    def _end(self, partner: uuid.UUID, query: str) -> None:
        with self._lock:
            self._queries[partner].discard(query)
            if not self._queries[partner]:
                del self._queries[partner]
            to_redis().post(("ZREM", _in_flight_key(partner), query))

    def _renew(self) -> None:
        while True:
            time.sleep(BEAT_S)
            with self._lock:
                to_redis().post(*(_written(partner, queries) for partner, queries in self._queries.items()))


in_flight = per_process(InFlight)
_away_until = 0.0


def _written(partner: uuid.UUID, queries: Iterable[str], limit: int | None = None) -> Command:
    """The command that writes `queries` in flight, unless a `limit` forbids one more, and counts them all."""
    told = (int(DEAD_AFTER_S * 1000), "" if limit is None else limit, *queries)
    return _run(_IN_FLIGHT, _in_flight_key(partner), *told)


def _run(script: str, key: str, *arguments: str | int) -> Command:
    """The command that runs `script` for one key."""
    return ("EVAL", script, 1, key, *arguments)


def _ask(command: Command) -> Any:
    """The reply to `command`. None if Redis is unavailable. Gives the database connection back first."""
    global _away_until
    if time.monotonic() < _away_until:
        NOT_APPLIED.inc()
        return None
    give_back_connection()
    try:
        return to_redis().send(command)[0]
    except RedisError as fault:
        _away_until = time.monotonic() + AWAY_S
        NOT_APPLIED.inc()
        log.warning("partner_limits_not_applied", fault=type(fault).__name__)
        return None


def _window_key(policy: Policy, partner: Partner) -> str:
    return f"limit:{policy.name}:{partner.pk}"


def _in_flight_key(partner: uuid.UUID) -> str:
    return f"limit:in-flight:{partner}"


def _cpfs_key(partner: Partner, now: datetime) -> str:
    return f"limit:cpfs:{partner.pk}:{now:%Y-%m-%d}"
