"""The process's Redis client, for what processes share: replies on their way, breaker state, liveness.

Redis never holds the truth (that is PostgreSQL's part), so every user here survives its loss.
"""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings
from redis import BlockingConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.retry import Retry


@lru_cache(maxsize=1)
def redis() -> Redis:
    """The client. Time-outs are short, since a request must answer also while Redis is frozen."""
    pool = BlockingConnectionPool.from_url(
        settings.REDIS_URL,
        max_connections=128,
        timeout=1,
        socket_connect_timeout=1,
        socket_timeout=3,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 1),
        health_check_interval=30,
    )
    return Redis(connection_pool=pool)
