"""Tells the delivery processes that something is due, so that it need not wait for their next sweep.

It is a hint on a Redis channel that nobody has to hear: the rows are the truth, and the sweep finds them
with Redis wiped, frozen or absent. What is said is empty: no identifiers travel.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import lru_cache

import structlog
from django.conf import settings
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

log = structlog.get_logger("webhooks")

_CHANNEL = "webhooks:due"
_TIMEOUT_S = 0.5
_SILENCE_S = 5.0
_silent_until = 0.0


@lru_cache(maxsize=1)
def _client() -> Redis:
    # Not the shared client: whoever caused an event must not wait for a hint longer than this.
    return Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=_TIMEOUT_S,
        socket_timeout=_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


def ring() -> None:
    """Wake the delivery processes. Never fails, and takes a second at the very most.

    After a failure it does nothing for a while: a frozen Redis costs one request in five seconds, not all.
    """
    global _silent_until
    if time.monotonic() < _silent_until:
        return
    try:
        _client().publish(_CHANNEL, b"")
    except RedisError as error:
        _silent_until = time.monotonic() + _SILENCE_S
        log.warning("webhook doorbell unreachable, the sweep delivers", error=type(error).__name__)


def listen(heard: Callable[[], None], stop: threading.Event) -> None:
    """Call `heard` at every ring, until `stop` is set; survives every absence of Redis."""
    while not stop.is_set():
        try:
            with _client().pubsub(ignore_subscribe_messages=True) as channel:
                channel.subscribe(_CHANNEL)
                while not stop.is_set():
                    if channel.get_message(timeout=1.0):
                        heard()
        except RedisError as error:
            log.warning("webhook doorbell unreachable, the sweep delivers", error=type(error).__name__)
            stop.wait(1.0)
