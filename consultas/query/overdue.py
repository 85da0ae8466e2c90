"""Queries that are due: their task was lost, their worker died, or nobody ended them."""

from collections.abc import Sequence
from datetime import timedelta

import structlog
from django.db import InterfaceError, OperationalError
from django.db.models import QuerySet
from django.utils import timezone
from gevent.pool import Pool

from consultas.models import LATE, UNSTARTED, Query
from consultas.query import end
from consultas.query.listen import TASK
from foundation import workers
from foundation.database import give_back_connection

log = structlog.get_logger(__name__)

#: How many queries are ended in one transaction, and of how many the kept answers are read at the same time.
_ENDED_AT_ONCE = 200
_READ_AT_ONCE = 16
#: How long a sweep may take for them. After that, another one tries those that could not be ended.
_LEASE = timedelta(seconds=10)


def run() -> None:
    """Have due queries asked by a worker, and end those whose time is over. Several workers share them by leases."""
    publish_lost()
    for is_first in (True, False):  # a query that follows another repeats what the end of that one stored
        while queries := _claim(_over().filter(follows__isnull=is_first)):
            give_back_connection()
            _end([ending for ending in Pool(_READ_AT_ONCE).map(_prepared, queries) if ending])


def publish_lost() -> None:
    """Publish the tasks of the due queries that still have time. Each is due again after `UNSTARTED`."""
    now = timezone.now()
    lost = list(Query.due(now).filter(deadline_at__gt=now).values_list("pk", "deadline_at"))
    Query.objects.filter(pk__in=[key for key, _ in lost]).update(due_at=now + UNSTARTED)
    give_back_connection()
    for key, deadline in lost:
        log.warning("query_published_again", query=str(key))
        workers.publish(TASK, (str(key),), expires_s=(deadline - now).total_seconds())


def _over() -> QuerySet[Query]:
    return Query.due().filter(deadline_at__lte=timezone.now() - LATE)


def _claim(rows: QuerySet[Query]) -> list[Query]:
    taken = Query.claim(rows, _ENDED_AT_ONCE, _LEASE)
    return list(Query.objects.filter(pk__in=taken).select_related("partner")) if taken else []


def _prepared(query: Query) -> end.Ending | None:
    """What is stored at the end of an overdue query. None if that failed. No database connection is held while Redis is
    asked for the kept answers."""
    try:
        return end.prepared(query)
    except Exception:
        log.exception("query_not_ended", query=str(query.id))
        return None
    finally:
        give_back_connection()


def _end(endings: Sequence[end.Ending]) -> None:
    """Store these ends together. If that fails, halves of them, so that a query that cannot be ended blocks no other.
    Raises the database's error if the database stays away: a later sweep takes them again."""
    try:
        results = end.store(endings) if endings else {}
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        if len(endings) == 1:
            log.exception("query_not_ended", query=str(endings[0].query.id))
            return
        middle = len(endings) // 2
        _end(endings[:middle])
        _end(endings[middle:])
        return
    for key, result in results.items():
        answered = sum(answer.reached for answer in result.answers)
        log.warning("query_ended_by_sweep", query=str(key), answered=answered, banks=len(result.answers))
