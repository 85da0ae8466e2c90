"""Leases of workers that died. A row under a lease names the worker that took it, in its column `worker`; the name is
emptied with the lease.

A lease ends by itself after its time. That of a dead worker can be ended sooner, within some 12 seconds of its death.
A worker may live although nobody hears it, so whoever ends its lease must bear that it goes on.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from django.db import connection, models
from redis.exceptions import RedisError

from foundation.heartbeats import dead_among

log = structlog.get_logger(__name__)


def worker_field() -> models.CharField[str, str]:
    """The column `worker`: the id of the worker that holds the row's lease (`heartbeats.worker_id`), empty without
    one, and for a lease that a process of the release before took."""
    return models.CharField(max_length=32, default="", db_default="", blank=True, editable=False)


def dead_holders(named: Iterable[str]) -> set[str]:
    """The dead ones of the workers that rows name. None are where Redis can't tell: the leases then last their time.

    `named` may be a queryset: no database connection is held while Redis is asked.
    """
    workers = set(named)
    if not workers:
        return set()
    if not connection.in_atomic_block:
        connection.close()
    try:
        return dead_among(workers)
    except RedisError:
        log.warning("heartbeats_unreadable")
        return set()
