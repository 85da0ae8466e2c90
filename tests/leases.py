"""Workers that hold a lease, for tests: a living one, and a dead one."""

import time
import uuid

from foundation import leases
from foundation.redis import redis


def living_worker() -> str:
    """The id of a worker with a recent heartbeat."""
    name = uuid.uuid4().hex
    leases.beat_once(redis(), name)
    return name


def dead_worker() -> str:
    """The id of a worker that has been silent for a long time."""
    name = uuid.uuid4().hex
    bury(name)
    return name


def bury(name: str) -> None:
    """Let the worker `name`, which sends no heartbeat any more, count as dead."""
    leases.beat_once(redis(), leases.worker_id())  # the asking worker needs a heartbeat, too
    redis().delete(leases.key_of(name))
    redis().set(f"silence:{name}", int((time.time() - leases.LOST_AFTER_S - 1) * 1000), ex=60)
