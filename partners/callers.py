"""Remembers for some weeks from which addresses a partner calls the API. An acceptance from such an address may come
from the partner instead of the holder.

No call waits for this: keyed digests of new addresses are sent to Redis without a look at the reply. Partner and
holder may share an address (NAT, a company's proxy), so nothing is refused because of it.
"""

import time
from uuid import UUID

import structlog
from django.http import HttpRequest
from redis.exceptions import RedisError

from foundation.client_ip import known_ip, network_of
from foundation.encryption import blind_index
from foundation.redis import redis, to_redis

log = structlog.get_logger(__name__)

REMEMBERED_FOR_S = 30 * 24 * 3600
#: A process sends an address again after this many seconds, so that a Redis that was emptied or away knows it soon.
SENT_EVERY_S = 600.0
#: How many sent addresses a process remembers. At this number its memory is emptied.
MOST_REMEMBERED = 10_000

#: A partner, and the address of one of its calls.
Caller = tuple[UUID, str]
#: When this process sent an address, in monotonic seconds.
_sent_at: dict[Caller, float] = {}


def note(partner_id: UUID, request: HttpRequest) -> None:
    caller = (partner_id, known_ip(request))
    if not caller[1] or time.monotonic() - _sent_at.get(caller, -SENT_EVERY_S) < SENT_EVERY_S:
        return
    if len(_sent_at) >= MOST_REMEMBERED:
        _sent_at.clear()
    _sent_at[caller] = time.monotonic()
    to_redis().post(("SET", _key(*caller), 1, "EX", REMEMBERED_FOR_S))


def calls_from(partner_id: UUID, address: str) -> bool | None:
    """True if the partner has recently called from `address` or its IPv6 network. None if Redis is unavailable."""
    try:
        return bool(redis().exists(_key(partner_id, address)))
    except RedisError:
        log.warning("callers_unreachable")
        return None


def _key(partner_id: UUID, address: str) -> str:
    return f"caller:{blind_index('api-caller', f'{partner_id} {network_of(address)}')}"
