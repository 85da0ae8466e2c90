"""Workers that hold a lease, for tests: a living one, and a dead one."""

import time
import uuid

from foundation import later
from foundation.redis import redis


def living_worker() -> str:
    """The id of a worker with a recent heartbeat."""
    name = uuid.uuid4().hex
    later.beat_once(name)
    return name


def dead_worker() -> str:
    """The id of a worker that sends no heartbeat, where this process judges others."""
    be_sure()
    return uuid.uuid4().hex


def be_sure() -> None:
    """Let this process have sent heartbeats for long, so that it judges others."""
    redis().set(later.key_of(later.worker_id()), time.monotonic() - later.SURE_AFTER_S, ex=later.DEAD_AFTER_S)
