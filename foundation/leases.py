"""Leases of workers that died. A leased row names its worker in the column `worker`, which is emptied when the lease
ends.

A lease expires by itself. The lease of a dead worker can be ended sooner, about 12 seconds after its death. A worker
without heartbeats may still be alive, so the code that ends its lease must tolerate that the worker continues.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from django.db import connection, models
from redis.exceptions import RedisError

from foundation.heartbeats import dead_among

log = structlog.get_logger(__name__)


def worker_field() -> models.CharField[str, str]:
    """The column `worker`: the id of the worker that holds the row's lease (`heartbeats.worker_id`). Empty without a
    lease, and for a lease taken by the previous release."""
    return models.CharField(max_length=32, default="", db_default="", blank=True, editable=False)


def dead_holders(named: Iterable[str]) -> set[str]:
    """Those of the workers named in rows that are dead. Empty if Redis is unavailable: leases then expire by
    themselves.

    `named` may be a queryset. No database connection is held while Redis is asked.
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
