"""The process's Redis client, for what processes share: replies on their way, breaker state, liveness.

Redis never holds the truth (that is PostgreSQL's part), so every user here survives its loss.
"""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings
from redis import BlockingConnectionPool, ConnectionError, Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

#: So long one look at a Redis that does not answer takes. A request makes one or two beside publishing its task.
TIMEOUT_S = 1.0


@lru_cache(maxsize=1)
def redis() -> Redis:
    """The client. Time-outs are short, since a request must answer also while Redis is frozen."""
    return _client(connections=128, timeout_s=TIMEOUT_S)


@lru_cache(maxsize=1)
def waiting_redis() -> Redis:
    """The client for the process's one reader, whose reads wait for up to 2 s on purpose."""
    return _client(connections=1, timeout_s=3.0)


def _client(connections: int, timeout_s: float) -> Redis:
    pool = BlockingConnectionPool.from_url(
        settings.REDIS_URL,
        max_connections=connections,
        timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        socket_timeout=timeout_s,
        socket_keepalive=True,
        # A connection that broke while it lay idle is made anew. A time-out is final: the next may last as long.
        retry=Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
        health_check_interval=30,
    )
    return Redis(connection_pool=pool)
