"""What runs later: rows that are due at some time, and the Celery tasks that take them.

PostgreSQL says what is due. Every two seconds beat sends a tick, which publishes the task of each kind of rows of which
one is due. Whoever commits a due row may also ring, so that its task runs at once. A lost message therefore costs at
most a tick, and without Redis everything waits until Redis is back.

A worker takes due rows by a lease, so that no other works on them. It gives a row back with the time when it is due
again, or none. A lease expires by itself. Each worker writes a key of Redis every second, its heartbeat, which expires
by itself, so the tick ends the lease of a dead worker sooner, 5 to 8 seconds after its death. A worker without
heartbeats may still be alive, so everything that it writes about the row is fenced by its lease.
"""

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, ClassVar, Self, TypeVar

import gevent
import structlog
from django.apps import apps
from django.conf import settings
from django.db import connection, models, transaction
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Least
from django.utils import timezone
from redis.exceptions import RedisError

from foundation import database, workers
from foundation.database import give_back_connection
from foundation.redis import per_process, redis, to_broker, to_redis

log = structlog.get_logger(__name__)
T = TypeVar("T")
Row = TypeVar("Row", bound=models.Model)

#: Seconds between two ticks. A task that no worker took until the next tick expires, because that publishes it again.
TICK_S = float(settings.CELERY_BEAT_SCHEDULE["tick"]["schedule"])
BEAT_S = 1.0
#: A worker without a heartbeat for this long is dead, in seconds: so long its key lasts.
DEAD_AFTER_S = 6
#: Only who has sent heartbeats for this long judges others, in seconds. After Redis was emptied or away, a living
#: worker has no key until its next beat, which a busy machine may delay.
SURE_AFTER_S = 3.0
#: The condition of a row that nobody holds, for the one statement by hand that takes a row before it is due.
FREE = "(lease_until IS NULL OR lease_until <= now())"
_NOW = datetime(1, 1, 1, tzinfo=UTC)  # stands for the parameter of `due_sql`

#: Publishes a task if its bell did not ring. KEYS: the bell, the queue. ARGV: how long the bell rings at most, in
#: milliseconds, the message.
_RING = "if redis.call('set', KEYS[1], 1, 'NX', 'PX', ARGV[1]) then redis.call('lpush', KEYS[2], ARGV[2]) end"


def released(due_at: datetime | Combinable | None) -> dict[str, Any]:
    """The columns of a row that nobody holds and that is due at `due_at`, or never if that is None."""
    return {"due_at": due_at, "lease_until": None, "worker": ""}


def lock_free(rows: QuerySet[Row]) -> QuerySet[Row]:
    """`rows`, to be locked when they are read, without those that another transaction has locked. For changes that fit
    into one short transaction: they need no lease. Inside a transaction."""
    return rows.select_for_update(skip_locked=True, of=("self",))


class Leased(models.Model):
    """A row that is due at some time. `due_at` is that time, null if nothing is left to do. `lease_until` is the end of
    the lease, and `worker` the id of the worker that holds it (`worker_id`), empty without a lease. A class names the
    Celery `task` that takes due rows, whose queue stands in CELERY_TASK_ROUTES, and adds an index on `due_at` for the
    rows that have one.
    """

    task: ClassVar[str]

    due_at = models.DateTimeField("próxima verificação", null=True, editable=False)
    lease_until = models.DateTimeField(null=True, editable=False)
    worker = models.CharField(max_length=32, default="", db_default="", blank=True, editable=False)

    class Meta:
        abstract = True

    @classmethod
    def is_due(cls, now: datetime) -> Q:
        """The condition of a row that is due at `now` and that nobody holds. Claims, the tick, lists and
        figures all use it. A class may add to it."""
        return Q(due_at__lte=now) & (Q(lease_until=None) | Q(lease_until__lte=now))

    @classmethod
    def due(cls, now: datetime | None = None) -> QuerySet[Self]:
        return cls._default_manager.filter(cls.is_due(now or timezone.now()))

    @classmethod
    def is_any_due_sql(cls) -> str:
        """The SQL condition that a row is due, with the parameter `%(now)s`. A class may ask the same in a way that its
        indexes answer sooner."""
        return f"EXISTS ({cls.due_sql('pk')})"

    @classmethod
    def held(cls) -> QuerySet[Self]:
        """The rows that a worker has taken and not given back, its lease expired or not."""
        return cls._default_manager.filter(due_at__isnull=False).exclude(worker="")

    @classmethod
    def claim(
        cls, rows: QuerySet[Self], room: int, lease: timedelta, order: Sequence[str | Combinable] = ("due_at",)
    ) -> list[Self]:
        """Take at most `room` of `rows`, which are part of `due()`, for this worker until `lease` has passed, in the
        given order. One statement. Returns them."""
        if room <= 0:
            return []
        chosen, params = rows.order_by(*order).values("pk")[:room].query.sql_with_params()
        return list(cls._default_manager.raw(cls.claim_sql(chosen), (timezone.now() + lease, worker_id(), *params)))

    @classmethod
    def claim_sql(cls, chosen: str, until: str = "%s", worker: str = "%s") -> str:
        """The statement that leases the rows which the SELECT `chosen` finds, and returns them. `until` and `worker`
        are the places of its parameters.

        The rows are chosen in an array: PostgreSQL may run a subquery after IN several times, each of which takes as
        many further rows.
        """
        table, key = cls._meta.db_table, cls._meta.pk.column
        return (
            f'UPDATE "{table}" SET lease_until = {until}, worker = {worker} WHERE "{key}" = ANY(ARRAY('  # noqa: S608 - ours
            f'{chosen} FOR UPDATE OF "{table}" SKIP LOCKED)) RETURNING *'
        )

    @classmethod
    def due_sql(cls, *columns: str) -> str:
        """The SELECT of these columns of `due()`, without an order, for statements written by hand: a class that claims
        often compiles it once. Its one parameter is `%(now)s`."""
        return database.written_out(cls.due(_NOW).order_by().values_list(*columns), now=_NOW)

    def release(self, due_at: datetime | None) -> bool:
        """Give back this row, which this worker holds: it is due again at `due_at`, or never if that is None. Returns
        False if the lease with which it was loaded was lost meanwhile; nothing is changed then.

        If something made the row due while it was held (`hasten`), it stays due, because this worker may have looked
        before that happened.
        """
        again = Case(When(due_at=self.due_at, then=Value(due_at)), default=F("due_at"))
        mine = type(self)._default_manager.filter(pk=self.pk, worker=self.worker, lease_until=self.lease_until)
        return bool(mine.exclude(worker="").update(**released(again)))

    @classmethod
    def hasten(cls, rows: QuerySet[Self], **changes: Any) -> int:
        """Make `rows` due now, also those that a worker holds: they are due again once it gives them back. Returns
        their number."""
        return rows.update(due_at=timezone.now(), **changes)

    @classmethod
    def end_leases_of(cls, workers: Collection[str]) -> None:
        """End the leases of these dead workers. Their rows are due at once, so that others take them."""
        cls.held().filter(worker__in=workers).update(**released(Least(F("due_at"), Value(timezone.now()))))


# --- Workers that hold rows ---------------------------------------------------------------------------------------


def _begin() -> str:
    name = uuid.uuid4().hex
    beat_once(name)
    threading.Thread(target=_beat, args=(name,), name="heartbeat", daemon=True).start()
    return name


#: The id of this worker process. The first call starts its heartbeat.
worker_id = per_process(_begin)


def _beat(name: str) -> None:
    was_heard = True
    while True:
        time.sleep(BEAT_S)
        was_heard = beat_once(name, goes_on=was_heard)


def beat_once(name: str, *, goes_on: bool = False) -> bool:
    """Write a heartbeat of the worker `name`. Returns False if Redis is unavailable.

    The key's value is when the heartbeats without a gap began, in monotonic seconds: now, unless they `goes_on` and the
    key is still there.
    """
    try:
        if not (goes_on and to_redis().send(("EXPIRE", key_of(name), DEAD_AFTER_S))[0]):
            to_redis().send(("SET", key_of(name), time.monotonic(), "EX", DEAD_AFTER_S))
    except RedisError:
        log.warning("heartbeat_unreachable")
        return False
    return True


def key_of(name: str) -> str:
    """The Redis key that exists while the worker `name` sends heartbeats."""
    return f"worker:{name}"


def dead_workers(named: Iterable[str]) -> set[str]:
    """Those of the workers `named` in rows that send no heartbeat any more. Empty if Redis is unavailable, or was until
    `SURE_AFTER_S` ago: leases then expire by themselves.

    A worker that cannot reach Redis counts as dead and may still be alive. `named` may be a queryset. No database
    connection is held while Redis is asked.
    """
    names = sorted(set(named))
    give_back_connection()
    if not names:
        return set()
    try:
        found: Any = redis().mget(key_of(worker_id()), *map(key_of, names))
    except RedisError:
        log.warning("heartbeats_unreadable")
        return set()
    since, *beats = found
    if since is None or time.monotonic() - float(since) < SURE_AFTER_S:
        return set()
    dead = {name for name, beat in zip(names, beats, strict=True) if beat is None}
    for worker in dead:
        log.warning("worker_dead", worker=worker)
    return dead


# --- Tasks that take rows -----------------------------------------------------------------------------------------


def tick() -> None:
    """End the leases of dead workers, and publish the tasks of all kinds of rows of which one is due."""
    end_dead_leases()
    due = tasks_due()
    connection.close()
    for task in due:
        workers.publish(task, (), expires_s=TICK_S)


def tasks_due(*kinds: type[Leased]) -> list[str]:
    """The tasks of these kinds of rows, by default of all, that have a row to take. One statement."""
    kinds = kinds or _all_kinds()
    found = database.fetch_one(_any_due_sql(kinds), {"now": timezone.now()}) or ()
    return [rows.task for rows, is_due in zip(kinds, found, strict=True) if is_due]


@cache
def _any_due_sql(kinds: tuple[type[Leased], ...]) -> str:
    return "SELECT " + ", ".join(rows.is_any_due_sql() for rows in kinds)


def end_dead_leases() -> None:
    """End the leases of dead workers on all kinds of rows."""
    first, *others = (rows.held().order_by().values_list("worker", flat=True) for rows in _all_kinds())
    dead = dead_workers(first.union(*others))
    for rows in _all_kinds() if dead else ():
        rows.end_leases_of(dead)


@cache
def _all_kinds() -> tuple[type[Leased], ...]:
    return tuple(rows for rows in apps.get_models() if issubclass(rows, Leased))


def ring(rows: type[Leased], news: Iterable[str] = ()) -> None:
    """Once the current transaction is committed, publish the task of `rows`, unless it was rung and has not begun its
    last look yet. Tell everybody who listens to one of `news` in `foundation.workers`. Nobody waits for that."""

    def tell() -> None:
        queue, message = workers.task_message(rows.task, (), TICK_S)
        to_broker().post(("EVAL", _RING, 2, _bell(rows), queue, int(TICK_S * 1000), message))
        to_redis().post(*(workers.message(work, workers.NEWS) for work in news))

    transaction.on_commit(tell, robust=True)  # what is committed must not fail any more


def drain(rows: type[Leased], take: Callable[[], object]) -> None:
    """For the task of `rows`: call `take`, which takes and finishes due rows and returns their number, until none
    is left. After that whoever commits a due row rings again, so a last look follows."""
    while take():
        pass
    _silence(rows)
    while take():
        pass


def each(rows: type[Leased], take: Callable[[], Sequence[T]], work: Callable[[T], object]) -> int:
    """For the task of `rows`: do `work` for each item that `take` claims, in a greenlet of its own, so that a slow
    one delays no other. Whoever commits a due row meanwhile rings again. Returns their number when all have ended. An
    item whose work failed is due again when its lease ends."""

    def one(item: T) -> None:
        try:
            work(item)
        except Exception:
            log.exception("later_failed", task=rows.task)
        finally:
            give_back_connection()

    _silence(rows)
    items = take()
    give_back_connection()
    gevent.joinall([gevent.spawn(one, item) for item in items])
    return len(items)


def _silence(rows: type[Leased]) -> None:
    """Before a look for due rows: whoever commits one from now on rings again."""
    with suppress(RedisError):
        to_broker().send(("DEL", _bell(rows)))


def _bell(rows: type[Leased]) -> str:
    return f"rung:{rows.task}"
