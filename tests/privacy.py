"""What the broker gets to see, for tests that look for personal data in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis

_END = "the-end"


@contextmanager
def overheard() -> Iterator[list[str]]:
    """A list that holds, once the block has ended, every command that Redis got meanwhile and every key it has."""
    heard: list[str] = []
    with Redis.from_url(os.environ["REDIS_URL"]) as redis, redis.monitor() as monitor:
        yield heard
        redis.set(_END, 1)
        for command in monitor.listen():
            heard.append(command["command"])
            if _END in command["command"]:
                break
        heard += [key.decode(errors="replace") for key in redis.keys("*")]
