"""Workers that hold a lease, for tests: one that lives, and one that is dead for all who ask."""

from __future__ import annotations

import time
import uuid

from foundation import heartbeats
from foundation.redis import redis


def living_worker() -> str:
    """A worker that was heard just now."""
    name = uuid.uuid4().hex
    heartbeats.beat_once(redis(), name)
    return name


def dead_worker() -> str:
    """A worker that has been silent for long."""
    name = uuid.uuid4().hex
    bury(name)
    return name


def bury(name: str) -> None:
    """Let the time pass after which the worker `name`, which is heard no more, counts as dead."""
    heartbeats.beat_once(redis(), heartbeats.worker_id())  # who asks has to be heard, also in a Redis just emptied
    redis().delete(heartbeats.key_of(name))
    redis().set(f"silence:{name}", int((time.time() - heartbeats.LOST_AFTER_S - 1) * 1000), ex=60)
