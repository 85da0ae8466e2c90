"""Delivers due events: claims rows, makes the attempts outside of any transaction, and stores their outcomes.

A claim is a lease. If a process dies during an attempt, nothing is stored; the lease ends and the event is sent again
under the same id. Delivery is therefore at least once. Several processes may run this at the same time.
"""

import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import lru_cache
from typing import Any

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.utils import timezone

from foundation import database, later
from foundation.later import worker_id
from foundation.redis import per_process
from partners.models import SECRET_FIELDS, Partner
from webhooks import signing, transport
from webhooks.models import SETTLED_BY, SETTLED_FIELDS, Event, reachable_partners_sql
from webhooks.transport import AttemptResult, Fault

log = structlog.get_logger("webhooks")

#: How long a process waits before it tries an unavailable database again, in seconds.
DATABASE_AWAY_S = 1.0
# The pause between two turns, in seconds. Outcomes that arrive within a pause are stored in one transaction.
PAUSE_S = 0.02
# How long a process goes on looking after it claimed an event, in seconds.
LINGER_S = 0.1
# A partner whose last attempt took at least this long gets fewer places, because there may be hundreds of them.
SLOW_MS = 3_000
SLOW_LIMIT = 2
USER_AGENT = "origination-webhooks/1"
_CLAIM_LOCK = 0x77656268  # "webh". Any constant that no other advisory lock of this database uses


# The due events of each partner, up to its free places. The first event of each comes before the second of any.
_CHOSEN = """
SELECT chosen.id FROM (
    SELECT due.id, due.due_at, busy.places + row_number() OVER (PARTITION BY partner.id ORDER BY due.due_at) AS place
    FROM ({partners}) AS partner
    CROSS JOIN LATERAL ({due} AND webhooks_event.partner_id = partner.id ORDER BY webhooks_event.due_at LIMIT 1) first
    CROSS JOIN LATERAL (
        SELECT count(*) AS places FROM webhooks_event WHERE partner_id = first.partner_id AND lease_until > %(now)s
    ) AS busy
    CROSS JOIN LATERAL (
        {due} AND webhooks_event.partner_id = first.partner_id ORDER BY webhooks_event.due_at
        LIMIT greatest(
            0,
            CASE WHEN (
                SELECT duration_ms FROM webhooks_attempt WHERE partner_id = first.partner_id ORDER BY at DESC LIMIT 1
            ) >= %(slow_ms)s THEN %(slow_limit)s::int ELSE %(limit)s::int END - busy.places
        )
    ) AS due
) AS chosen ORDER BY chosen.place, chosen.due_at LIMIT %(room)s::int
"""


#: An event as it was claimed, and the result of the attempt to deliver it. Not yet stored.
Outcome = tuple[Event, AttemptResult]


def claim(room: int) -> list[Event]:
    """Lease up to `room` due events, with their bodies, and the URL and the secrets of the current registration. Events
    of one partner share one object of it, so that its secrets are decrypted once. No partner gets more than
    `WEBHOOK_PARTNER_LIMIT` places over all processes; slow partners get fewer."""
    now, (sql, columns, of_partner) = timezone.now(), _claiming()
    params: dict[str, Any] = {
        "now": now,
        "until": now + timedelta(seconds=settings.WEBHOOK_LEASE_S),
        "worker": worker_id(),
        "room": room,
        "limit": settings.WEBHOOK_PARTNER_LIMIT,
        "slow_ms": SLOW_MS,
        "slow_limit": min(SLOW_LIMIT, settings.WEBHOOK_PARTNER_LIMIT),
    }
    with transaction.atomic():
        # Only one process claims at a time. Otherwise two processes could count the same free places.
        database.execute("SELECT pg_advisory_xact_lock(%s)", [_CLAIM_LOCK])
        rows = database.fetch_all(sql, params)
    events: list[Event] = []
    partners: dict[uuid.UUID, Partner] = {}
    for row in rows:
        event = columns.row(row[: len(columns)])
        event.partner = partners.setdefault(event.partner_id, of_partner.row(row[len(columns) :]))
        events.append(event)
    return events


@lru_cache(maxsize=1)
def _claiming() -> tuple[str, database.Columns[Event], database.Columns[Partner]]:
    """The statement of `claim`, and the columns of its rows. Compiled once, which takes longer than the statement."""
    columns = database.Columns(Event, "c", only=("id", "partner", "body", "due_at", "lease_until"))
    of_partner = database.Columns(Partner, "p", only=("id", "webhook_url", *SECRET_FIELDS))
    chosen = _CHOSEN.format(partners=reachable_partners_sql(), due=Event.due_sql("id", "partner_id", "due_at"))
    due = f"{Event.due_sql('id')} AND webhooks_event.id IN ({chosen})"
    sql = f"""
WITH c AS ({Event.claim_sql(due, "%(until)s", "%(worker)s")})
SELECT {columns.sql}, {of_partner.sql} FROM c JOIN partners_partner p ON p.id = c.partner_id
"""  # noqa: S608 - names of ours
    return sql, columns, of_partner


def attempt(event: Event) -> AttemptResult:
    """Sign and send, once. Uses no database and raises nothing."""
    try:
        body = (event.body or "").encode()
        signed = signing.headers(event.pk, body, event.partner.webhook_secrets(), int(time.time()))
        headers = {"Content-Type": "application/json", "User-Agent": USER_AGENT, **signed}
        return transport.post(event.partner.webhook_url, body, headers)
    except Exception:  # a bug of ours or a wrong key is recorded, and does not affect other events
        log.exception("webhook_attempt_broke", webhook_id=event.pk)
        return AttemptResult(fault=Fault.INTERNAL)


def settle(outcomes: Sequence[Outcome]) -> None:
    """Store the outcomes of attempts in one short transaction."""
    sql, columns = _settling()
    with transaction.atomic():
        found = database.fetch_all(sql, [[claimed.pk for claimed, _ in outcomes]])
        events = {event.pk: event for event in map(columns.row, found)}
        attempts = [events[claimed.pk].settle(result, claim=claimed) for claimed, result in outcomes]
        database.insert(*(each for each in attempts if each.event.purged_at is None))
        database.update(list(events.values()), SETTLED_FIELDS)
    for claimed, result in outcomes:
        log.info(
            "webhook_attempt",
            webhook_id=claimed.pk,
            partner=str(claimed.partner_id),
            status=result.status,
            fault=result.fault,
            ms=result.duration_ms,
            state=events[claimed.pk].state,
        )


@lru_cache(maxsize=1)
def _settling() -> tuple[str, database.Columns[Event]]:
    """The statement that locks the events to be settled, and the columns of its rows."""
    columns = database.Columns(Event, "e", only=("id", *SETTLED_BY, *SETTLED_FIELDS))
    sql = f"SELECT {columns.sql} FROM webhooks_event e WHERE e.id = ANY(%s::text[]) ORDER BY e.id FOR UPDATE"  # noqa: S608 - names of ours
    return sql, columns


class Deliveries:
    """The deliveries of this process. One thread at a time uses the database; many threads only talk to receivers. The
    process needs a single database connection, and no attempt holds it."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(settings.WEBHOOK_CONCURRENCY, thread_name_prefix="webhook")
        self._outcomes: list[Outcome] = []
        self._running = threading.Lock()
        self._woken = threading.Event()
        self._is_stopping = False
        #: The number of attempts whose outcome is not stored.
        self.in_flight = 0
        self._claimed_at = -LINGER_S

    def stop(self) -> None:
        """Let `run` begin no further attempt, and return when those in flight have ended."""
        self._is_stopping = True
        self._woken.set()

    def run(self) -> None:
        """Deliver until nothing is due and no attempt is in flight. If another thread does so already, it looks again,
        and this call returns at once. Continues after any outage of PostgreSQL, and without Redis."""
        self._woken.set()
        # `_woken` is set before the lock is tried, and read after it is given back: no call is overlooked.
        while self._woken.is_set() and self._running.acquire(blocking=False):
            try:
                self._woken.clear()
                later.drain(Event, self._look)
                connection.close()
                if self.in_flight:
                    self._woken.wait()
            except (OperationalError, InterfaceError) as error:
                # Outcomes are kept until the database is back. Leased events become free when their lease ends.
                log.warning("webhook_database_away", error=type(error).__name__)
                connection.close()
                if not self._is_stopping:
                    time.sleep(DATABASE_AWAY_S)
                    self._woken.set()
            finally:
                self._running.release()

    def _look(self) -> bool:
        """One turn. True while events come, and for `LINGER_S` after: under load, a look is cheaper than rings."""
        if self.turn(claiming=not self._is_stopping):
            self._claimed_at = time.monotonic()
        is_busy = time.monotonic() - self._claimed_at < LINGER_S and not self._is_stopping
        if is_busy:
            time.sleep(PAUSE_S)
        return is_busy

    def turn(self, *, claiming: bool = True) -> int:
        """Store the finished outcomes, then claim and start due events. Returns the number of claimed events."""
        outcomes = self._outcomes[:]  # other threads append
        self._store(outcomes)
        del self._outcomes[: len(outcomes)]
        self.in_flight -= len(outcomes)
        room = settings.WEBHOOK_CONCURRENCY - self.in_flight
        # A look is one prepared statement, while a claim takes four round trips.
        if not claiming or room <= 0 or not later.tasks_due(Event):
            return 0
        events = claim(room)
        for event in events:
            self._threads.submit(self._deliver, event)
        self.in_flight += len(events)
        return len(events)

    def _deliver(self, event: Event) -> None:
        self._outcomes.append((event, attempt(event)))
        self._woken.set()

    def _store(self, outcomes: list[Outcome]) -> None:
        try:
            if outcomes:
                settle(outcomes)
        except (OperationalError, InterfaceError):
            raise
        except Exception:  # store each outcome by itself: one that cannot be stored is left to its event's lease
            for outcome in outcomes if len(outcomes) > 1 else ():
                self._store([outcome])
            if len(outcomes) == 1:
                log.exception("webhook_outcome_not_stored", webhook_id=outcomes[0][0].pk)


of_this_process = per_process(Deliveries)
