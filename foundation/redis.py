"""The process's Redis client, for what processes share: replies on their way, breaker state, liveness.

PostgreSQL holds the truth. Redis may be lost at any moment, and every user of it here goes on without it.
"""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings
from redis import BlockingConnectionPool, ConnectionError, Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

#: Seconds after which a command to a Redis that does not answer fails. A request sends one or two beside publishing its
#: task.
TIMEOUT_S = 1.0


@lru_cache(maxsize=1)
def redis() -> Redis:
    """The client. Time-outs are short, since a request must answer also while Redis is frozen."""
    return Redis(connection_pool=_pool(connections=128, timeout_s=TIMEOUT_S))


def waiting_redis() -> Redis:
    """A client with one connection for a process's one reader, whose reads wait for up to 2 s on purpose. The reader
    keeps the connection: to take it from a pool costs a look at it each time. Raises RedisError."""
    return Redis(connection_pool=_pool(connections=1, timeout_s=3.0), single_connection_client=True)


def reserved_redis() -> Redis:
    """A client with one connection, for a process's one thread that must get through: where all connections of `redis`
    are taken, its commands do not wait for one."""
    return Redis(connection_pool=_pool(connections=1, timeout_s=TIMEOUT_S))


def _pool(connections: int, timeout_s: float) -> BlockingConnectionPool:
    return BlockingConnectionPool.from_url(
        settings.REDIS_URL,
        max_connections=connections,
        timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        socket_timeout=timeout_s,
        socket_keepalive=True,
        # A connection that broke while idle is opened again. A time-out is not retried: the next may last as long.
        retry=Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
        health_check_interval=30,
    )
