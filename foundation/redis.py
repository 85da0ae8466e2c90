"""The process's Redis clients, for data that processes share: messages, breaker state, heartbeats.

PostgreSQL holds the authoritative data. Redis may be lost at any time, and all users of this module continue without
it.
"""

import os
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from django.conf import settings
from redis import BlockingConnectionPool, Connection, ConnectionError, Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from foundation.sockets import has_something_to_read

T = TypeVar("T")
#: A command fails after this many seconds without an answer. A request sends one or two commands besides publishing its
#: task.
TIMEOUT_S = 1.0


def per_process(make: Callable[[], T]) -> Callable[[], T]:
    """`make`, called once in each process: a forked process gets a result of its own."""
    made: dict[int, T] = {}
    lock = threading.Lock()

    def get() -> T:
        with lock:
            if os.getpid() not in made:
                made[os.getpid()] = make()
            return made[os.getpid()]

    return get


@lru_cache(maxsize=1)
def redis() -> Redis:
    """The shared client. Its time-outs are short, because requests must be answered even while Redis hangs."""
    return Redis(connection_pool=_pool(connections=128, timeout_s=TIMEOUT_S))


def listening_connection(timeout_s: float) -> Connection:
    """A connection of its own for the process's one listener, whose reads end after `timeout_s` seconds. Raises
    RedisError."""
    return _pool(connections=1, timeout_s=timeout_s, protocol=2).get_connection()  # 3 hands messages to a callback


def reserved_redis() -> Redis:
    """A client with one connection for a thread whose commands must not wait for the pool of `redis`."""
    return Redis(connection_pool=_pool(connections=1, timeout_s=TIMEOUT_S))


class QuietConnection(Connection):
    """A connection without TLS. The pool's check that no data arrived while it was idle needs no event loop."""

    def can_read(self, timeout: float = 0) -> bool:
        """True if data can be read or the connection was closed, within `timeout` seconds."""
        if timeout == 0 and self._sock is not None and not has_something_to_read(self._sock.fileno()):
            return False
        return super().can_read(timeout)


def _pool(connections: int, timeout_s: float, **options: Any) -> BlockingConnectionPool:
    is_plain = settings.REDIS_URL.startswith("redis://")  # with TLS, redis-py's own class is used
    return BlockingConnectionPool.from_url(
        settings.REDIS_URL,
        max_connections=connections,
        timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        socket_timeout=timeout_s,
        socket_keepalive=True,
        # Reopen a connection that broke while idle. A time-out is not retried, because the next may take as long.
        retry=Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
        health_check_interval=30,
        **({"connection_class": QuietConnection} if is_plain else {}),
        **options,
    )
