"""Records what the broker receives, for tests that search it for personal data."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis

_END = "the-end"


@contextmanager
def overheard() -> Iterator[list[str]]:
    """A list that contains, after the block, every command that Redis received during the block and every key that it
    holds."""
    heard: list[str] = []
    with Redis.from_url(os.environ["REDIS_URL"]) as redis, redis.monitor() as monitor:
        yield heard
        redis.set(_END, 1)
        for command in monitor.listen():
            heard.append(command["command"])
            if _END in command["command"]:
                break
        heard += [key.decode(errors="replace") for key in redis.keys("*")]
