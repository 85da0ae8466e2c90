"""Rows of work that run later: when a row is due, which worker holds it, and what happens if that worker dies.

A worker takes due rows by a lease, so that no other works on them. It gives a row back with the time when it is due
again, or none. A lease expires by itself. Each worker writes a key of Redis every second, its heartbeat, which expires
by itself, so the lease of a dead worker ends sooner, about 8 seconds after its death. A worker without heartbeats may
still be alive, so everything that it writes about the row is fenced by its lease.
"""

import threading
import time
import uuid
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Self, TypeVar

import structlog
from django.db import connection, models
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.expressions import Combinable
from django.utils import timezone
from redis import Redis
from redis.exceptions import RedisError

from foundation import statements
from foundation.database import give_back_connection
from foundation.redis import per_process, redis, reserved_redis

log = structlog.get_logger(__name__)

#: The condition, in SQL, of a row that nobody holds.
FREE = "(lease_until IS NULL OR lease_until <= now())"
Row = TypeVar("Row", bound=models.Model)
_NOW = datetime(1, 1, 1, tzinfo=UTC)  # stands for the parameter of `due_sql`

BEAT_S = 1.0
_BEAT_TTL_S = 3
#: A worker without a heartbeat for this long is lost, in seconds. After Redis is emptied, a living worker has no key
#: until its next beat, which a busy machine may delay.
LOST_AFTER_S = 3.0
#: How long the start of a worker's silence is remembered, in seconds, unless it is asked for again.
_SILENCE_TTL_S = 60
#: ARGV: the silence that counts as death in milliseconds, the time to live of a recorded silence in seconds, the asking
#: worker, then the workers asked about. The asking worker must have a heartbeat, too: if it has none, Redis was emptied
#: a moment ago, and a missing heartbeat says nothing.
_DEAD = """
local dead = {}
if redis.call('exists', 'worker:' .. ARGV[3]) == 0 then return dead end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 4, #ARGV do
  local silence = 'silence:' .. ARGV[i]
  if redis.call('exists', 'worker:' .. ARGV[i]) == 1 then
    redis.call('del', silence)
  elseif not redis.call('set', silence, now, 'NX', 'EX', ARGV[2]) then
    if now - tonumber(redis.call('get', silence)) >= tonumber(ARGV[1]) then dead[#dead + 1] = ARGV[i] end
  end
end
return dead
"""


def _begin() -> str:
    name = uuid.uuid4().hex
    client = reserved_redis()
    beat_once(client, name)
    threading.Thread(target=_beat, args=(client, name), name="heartbeat", daemon=True).start()
    return name


#: The id of this worker process. The first call starts its heartbeat.
worker_id = per_process(_begin)


def note_silence(named: Iterable[str]) -> set[str]:
    """Record which of the workers `named` in rows are silent now. Returns those that have been silent for
    `LOST_AFTER_S` or longer: a worker is found dead by the second call at the earliest. Empty if Redis is unavailable:
    leases then expire by themselves.

    A worker that cannot reach Redis is silent and may still be alive. `named` may be a queryset. No database connection
    is held while Redis is asked.
    """
    workers = set(named)
    give_back_connection()
    if not workers:
        return set()
    asks = worker_id()
    arguments: list[str | int] = [int(LOST_AFTER_S * 1000), _SILENCE_TTL_S, asks, *(workers - {asks})]
    try:
        dead = {name.decode() for name in redis().eval(_DEAD, 0, *arguments)}
    except RedisError:
        log.warning("heartbeats_unreadable")
        return set()
    for worker in dead:
        log.warning("worker_dead", worker=worker)
    return dead


def beat_once(client: Redis, name: str) -> None:
    """Write a heartbeat of the worker `name`."""
    try:
        client.set(key_of(name), 1, ex=_BEAT_TTL_S)
    except RedisError:
        log.warning("heartbeat_unreachable")


def key_of(name: str) -> str:
    """The Redis key that exists while the worker `name` sends heartbeats."""
    return f"worker:{name}"


def _beat(client: Redis, name: str) -> None:
    while True:
        time.sleep(BEAT_S)
        beat_once(client, name)


def released(due_at: datetime | None) -> dict[str, Any]:
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
        """The condition of a row that is due at `now` and that nobody holds. The only definition: claims, the tick,
        lists and figures use it. A class may add to it."""
        return Q(due_at__lte=now) & (Q(lease_until=None) | Q(lease_until__lte=now))

    @classmethod
    def due(cls, now: datetime | None = None) -> QuerySet[Self]:
        """The rows that are due and that nobody holds."""
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
    ) -> list[Any]:
        """Take at most `room` of `rows`, which are part of `due()`, for this worker until `lease` has passed, in the
        given order. One statement. Returns their keys."""
        if room <= 0:
            return []
        chosen, params = rows.order_by(*order).values("pk")[:room].query.sql_with_params()
        with connection.cursor() as cursor:
            cursor.execute(cls.claim_sql(chosen), [timezone.now() + lease, worker_id(), *params])
            return [key for (key,) in cursor.fetchall()]

    @classmethod
    def claim_sql(cls, chosen: str, until: str = "%s", worker: str = "%s", returning: Sequence[str] = ()) -> str:
        """The statement that leases the rows which the SELECT `chosen` finds, and returns their columns `returning`, or
        their keys. `until` and `worker` are the places of its parameters.

        The rows are chosen in an array: PostgreSQL may run a subquery after IN several times, each of which takes as
        many further rows.
        """
        table, key = cls._meta.db_table, cls._meta.pk.column
        columns = ", ".join(f'"{column}"' for column in returning or [str(key)])
        return (
            f'UPDATE "{table}" SET lease_until = {until}, worker = {worker} WHERE "{key}" = ANY(ARRAY('  # noqa: S608 - ours
            f'{chosen} FOR UPDATE OF "{table}" SKIP LOCKED)) RETURNING {columns}'
        )

    @classmethod
    def due_sql(cls, *columns: str) -> str:
        """The SELECT of these columns of `due()`, without an order, for statements written by hand: a class that claims
        often compiles it once. Its one parameter is `%(now)s`."""
        return statements.written_out(cls.due(_NOW).order_by().values_list(*columns), now=_NOW)

    def release(self, due_at: datetime | None) -> bool:
        """Give back this row, which this worker holds: it is due again at `due_at`, or never if that is None. Returns
        False if the lease with which it was loaded was lost meanwhile; nothing is changed then.

        If something made the row due while it was held (`hasten`), it stays due, because this worker may have looked
        before that happened.
        """
        again = Case(When(due_at=self.due_at, then=Value(due_at)), default=F("due_at"))
        mine = type(self)._default_manager.filter(pk=self.pk, worker=self.worker, lease_until=self.lease_until)
        return bool(mine.exclude(worker="").update(due_at=again, lease_until=None, worker=""))

    @classmethod
    def hasten(cls, rows: QuerySet[Self], **changes: Any) -> int:
        """Make `rows` due now, also those that a worker holds: they are due again once it gives them back. Returns
        their number."""
        return rows.update(due_at=timezone.now(), **changes)

    @classmethod
    def end_leases_of(cls, workers: Collection[str]) -> None:
        """End the leases of these dead workers, so that others take their rows."""
        cls.held().filter(worker__in=workers).update(lease_until=None, worker="")
