"""Sends a worker's commands to Redis: all waiting commands in one pipeline, repeated while Redis is unavailable."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import structlog
from redis.exceptions import RedisError

from foundation.redis import reserved_redis

log = structlog.get_logger(__name__)
T = TypeVar("T")

_RETRY_S = 0.2
_lock = threading.Lock()
_senders: dict[int, _Sender] = {}


def send(*commands: tuple[Any, ...], patience_s: float = 0) -> None:
    """Send `commands` in this order, each in the form of redis-py's `execute_command`. Returns when Redis has executed
    them.

    Repeated for up to `patience_s` seconds while Redis is unavailable; the commands may then run twice. Raises
    RedisError.
    """
    patiently(lambda: _sender().add(*commands), patience_s)


def patiently(work: Callable[[], T], patience_s: float) -> T:
    """The result of `work`, repeated for up to `patience_s` seconds while Redis is unavailable. Raises RedisError."""
    end = time.monotonic() + patience_s
    while True:
        try:
            return work()
        except RedisError:
            if time.monotonic() >= end:
                raise
            log.warning("redis_away")
            time.sleep(_RETRY_S)


class _Sender:
    """Sends this process's commands: all waiting commands in one pipeline; further ones wait until it returns. The
    sender has its own connection, because a thousand tasks share the pool."""

    def __init__(self) -> None:
        self._redis = reserved_redis()
        self._next = _Batch()
        self._lock = threading.Lock()
        self._filled = threading.Event()
        threading.Thread(target=self._send, name="replies-send", daemon=True).start()

    def add(self, *commands: tuple[Any, ...]) -> None:
        """Send `commands` in this order. Returns when Redis has executed them. Raises RedisError."""
        with self._lock:
            batch = self._next
            batch.commands += commands
        self._filled.set()
        batch.done.wait()
        if batch.fault is not None:
            raise batch.fault

    def _send(self) -> None:
        while True:
            self._filled.wait()
            self._filled.clear()
            with self._lock:
                batch, self._next = self._next, _Batch()
            if not batch.commands:
                continue
            try:
                pipe = self._redis.pipeline(transaction=False)
                for command in batch.commands:
                    pipe.execute_command(*command)
                pipe.execute()
            except Exception as fault:  # the waiting callers raise it; the sender continues with the next batch
                batch.fault = fault
            batch.done.set()


class _Batch:
    """Commands that are sent together, and the result."""

    def __init__(self) -> None:
        self.commands: list[tuple[Any, ...]] = []
        self.done = threading.Event()
        self.fault: Exception | None = None


def _sender() -> _Sender:
    """This process's sender. A forked process gets its own."""
    with _lock:
        if os.getpid() not in _senders:
            _senders[os.getpid()] = _Sender()
        return _senders[os.getpid()]
