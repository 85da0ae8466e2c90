"""The process's Redis clients, for data that processes share: messages, breaker state, heartbeats.

PostgreSQL holds the authoritative data. Redis may be lost at any time: all users continue without it.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import structlog
from django.conf import settings
from redis import BlockingConnectionPool, Connection, ConnectionError, Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from foundation.sockets import has_something_to_read

log = structlog.get_logger(__name__)
T = TypeVar("T")
#: A command in the form of redis-py's `execute_command`.
Command = tuple[Any, ...]
#: A command fails after this many seconds without an answer. A request sends one or two, and its task.
TIMEOUT_S = 1.0
_RETRY_S = 0.2


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


def redis_answers() -> bool:
    """True if Redis answers now."""
    try:
        return bool(redis().ping())
    except RedisError:
        return False


def own_connection(url: str, timeout_s: float = TIMEOUT_S) -> Connection:
    """A connection to the server at `url` for one thread, whose reads end after `timeout_s` seconds. It connects with
    its first command, and again with the next one after it broke."""
    pool = _pool(connections=1, timeout_s=timeout_s, url=url, protocol=2)  # 3 hands messages to a callback
    connection: Connection = pool.make_connection()
    return connection


class QuietConnection(Connection):
    """A connection without TLS. The pool's check that no data arrived while it was idle needs no event loop."""

    def can_read(self, timeout: float = 0) -> bool:
        """True if data can be read or the connection was closed, within `timeout` seconds."""
        if timeout == 0 and self._sock is not None and not has_something_to_read(self._sock.fileno()):
            return False
        return super().can_read(timeout)


def _pool(connections: int, timeout_s: float, url: str = "", **options: Any) -> BlockingConnectionPool:
    url = url or settings.REDIS_URL
    is_plain = url.startswith("redis://")  # with TLS, redis-py's own class is used
    return BlockingConnectionPool.from_url(
        url,
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


class Sender:
    """Sends commands of all tasks of this process to the Redis server at `url`: what waits, in one pipeline; what comes
    meanwhile, in the next one. It has a connection of its own, because a thousand tasks share the pool."""

    def __init__(self, url: str) -> None:
        self._connection = own_connection(url)
        self._waiting: queue.SimpleQueue[tuple[Sequence[Command], queue.SimpleQueue[Any] | None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="redis-sender", daemon=True).start()

    def send(self, *commands: Command, patience_s: float = 0) -> list[Any]:
        """Send `commands` in this order. Returns Redis's replies as they are.

        Repeated for up to `patience_s` seconds while Redis is away; the commands may then run twice. Raises RedisError.
        """
        end = time.monotonic() + patience_s
        while True:
            replies: queue.SimpleQueue[list[Any] | Exception] = queue.SimpleQueue()  # costs half as much as a Future
            self._waiting.put((commands, replies))
            found = replies.get()
            if not isinstance(found, Exception):
                return found
            if not isinstance(found, RedisError) or time.monotonic() >= end:
                raise found
            log.warning("redis_away")
            time.sleep(_RETRY_S)

    def post(self, *commands: Command) -> None:
        """Send `commands` before those of any later call, and wait for nothing. They are lost if Redis is away."""
        if commands:
            self._waiting.put((commands, None))

    def _run(self) -> None:
        while True:
            batch = [self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            try:
                found = iter(self._replies([command for commands, _ in batch for command in commands]))
            except Exception as fault:  # the waiting callers raise it; the sender continues with the next batch
                if any(caller is None for _, caller in batch):
                    log.warning("redis_commands_lost", fault=type(fault).__name__)
                for _, caller in batch:
                    if caller is not None:
                        caller.put(fault)
                continue
            for commands, caller in batch:
                replies = [next(found) for _ in commands]
                if caller is not None:
                    caller.put(next((each for each in replies if isinstance(each, ResponseError)), replies))

    def _replies(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to `commands`, errors among them. Raises RedisError if there are none."""
        try:
            return self._exchange(commands)
        except ConnectionError:  # it broke while it was idle; a time-out is not tried again, which may take as long
            return self._exchange(commands)

    def _exchange(self, commands: Sequence[Command]) -> list[Any]:
        connection = self._connection
        connection.send_packed_command(connection.pack_commands(commands))
        return [self._reply() for _ in commands]

    def _reply(self) -> Any:
        try:
            return self._connection.read_response()
        except ResponseError as error:
            return error


#: The sender to the Redis server that all processes of the service share.
to_redis = per_process(lambda: Sender(settings.REDIS_URL))


@per_process
def to_broker() -> Sender:
    """The sender to the broker, which may be another server."""
    is_other = settings.CELERY_BROKER_URL != settings.REDIS_URL
    return Sender(settings.CELERY_BROKER_URL) if is_other else to_redis()
