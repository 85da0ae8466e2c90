"""What runs later: the Celery tasks that take rows which are due (`Leased`).

PostgreSQL says what is due. Every two seconds beat sends a tick, which ends the leases of dead workers and publishes
the task of each kind of rows of which one is due. Whoever commits a due row may also ring, so that its task runs at
once. A lost message therefore costs at most a tick, and without Redis everything waits until Redis is back.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import TypeVar

import gevent
import structlog
from django.apps import apps
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from redis.exceptions import RedisError

from foundation import channels, statements, workers
from foundation.database import give_back_connection
from foundation.leases import Leased, note_silence
from foundation.redis import redis

log = structlog.get_logger(__name__)
T = TypeVar("T")

#: Seconds between two ticks. A task that no worker took until the next tick expires, because that publishes it again.
TICK_S = float(settings.CELERY_BEAT_SCHEDULE["tick"]["schedule"])

#: After an error of Redis nobody rings until then, because every further attempt would cost a full time-out.
_silent_until = 0.0


def tick() -> None:
    """End the leases of dead workers, and publish the tasks of all kinds of rows of which one is due."""
    end_dead_leases()
    due = tasks_due()
    connection.close()
    for task in due:
        workers.publish(task, (), expires_s=TICK_S)


def tasks_due() -> list[str]:
    """The tasks that have a row to take. One statement for all kinds."""
    sql = "SELECT " + ", ".join(rows.is_any_due_sql() for rows in _kinds().values())
    found = statements.fetch_one(sql, {"now": timezone.now()}) or ()
    return [task for task, is_due in zip(_kinds(), found, strict=True) if is_due]


def end_dead_leases() -> None:
    """End the leases of dead workers on all kinds of rows."""
    first, *others = (rows.held().order_by().values_list("worker", flat=True) for rows in _kinds().values())
    dead = note_silence(first.union(*others))
    for rows in _kinds().values() if dead else ():
        rows.end_leases_of(dead)


@cache
def _kinds() -> dict[str, type[Leased]]:
    """All kinds of rows that run later, by the task that takes them."""
    return {rows.task: rows for rows in apps.get_models() if issubclass(rows, Leased)}


def ring(task: str, news: Iterable[str] = ()) -> None:
    """Once the current transaction is committed, publish `task` at once, unless it was rung and has not begun its last
    look yet. Tell everybody who listens to one of `news` in `foundation.channels`."""
    transaction.on_commit(lambda: _ring(task, news), robust=True)  # what is committed must not fail any more


def _ring(task: str, news: Iterable[str]) -> None:
    global _silent_until
    if time.monotonic() < _silent_until:
        return
    try:
        bell = ("SET", _bell(task), 1, "NX", "PX", int(TICK_S * 1000))
        if channels.send(bell, *(channels.message(work, channels.NEWS) for work in news))[0]:
            workers.publish(task, (), expires_s=TICK_S)
    except RedisError:  # the tick publishes it
        _silent_until = time.monotonic() + TICK_S


def drain(task: str, take: Callable[[], object]) -> None:
    """For the Celery task `task`: call `take`, which takes and finishes due rows and returns their number, until none
    is left. After that whoever commits a due row rings again, so a last look follows."""
    while take():
        pass
    _silence(task)
    while take():
        pass


def each(task: str, take: Callable[[], Iterable[T]], work: Callable[[T], object]) -> None:
    """For the Celery task `task`: do `work` for each item that `take` claims, in a greenlet of its own, so that a slow
    one delays no other. Whoever commits a due row meanwhile rings again. Returns when all have ended. An item whose
    work failed is due again when its lease ends."""

    def one(item: T) -> None:
        try:
            work(item)
        except Exception:
            log.exception("later_failed", task=task)
        finally:
            give_back_connection()

    _silence(task)
    items = take()
    give_back_connection()
    gevent.joinall([gevent.spawn(one, item) for item in items])


def _silence(task: str) -> None:
    """Before a look for due rows: whoever commits one from now on rings again."""
    with suppress(RedisError):
        redis().delete(_bell(task))


def _bell(task: str) -> str:
    return f"rung:{task}"
