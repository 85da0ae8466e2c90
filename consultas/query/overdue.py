"""Queries that are due: their task was lost, their worker died, or nobody ended them."""

from __future__ import annotations

from uuid import UUID

import structlog
from django.db.models import QuerySet
from django.utils import timezone
from gevent.pool import Pool

from consultas.models import LATE, UNSTARTED, Query
from consultas.query import end
from consultas.query.listen import TASK
from foundation import workers
from foundation.database import give_back_connection

log = structlog.get_logger(__name__)

#: How many queries are read at once, and how many of them are ended at the same time.
_READ_AT_ONCE = 200
_ENDED_AT_ONCE = 16


def run() -> None:
    """Have due queries asked by a worker, and end those whose time is over, until none is left that can be ended."""
    publish_lost()
    unended: set[UUID] = set()
    # A query that cannot be ended, for whatever reason, is read once and does not block the others.
    while queries := list(_over().exclude(pk__in=unended).select_related("partner")[:_READ_AT_ONCE]):
        give_back_connection()
        has_ended = Pool(_ENDED_AT_ONCE).map(_end, queries)
        unended |= {query.pk for query, is_done in zip(queries, has_ended, strict=True) if not is_done}


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


def _end(query: Query) -> bool:
    """End an overdue query. False if that failed."""
    try:
        result = end.end(query)
    except Exception:
        log.exception("query_not_ended", query=str(query.id))
        return False
    finally:
        give_back_connection()
    answered = sum(answer.reached for answer in result.answers)
    log.warning("query_ended_by_sweep", query=str(query.id), answered=answered, banks=len(result.answers))
    return True
