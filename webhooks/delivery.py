"""Delivers due events: claims rows, makes the attempts outside of any transaction, and stores their outcomes.

A claim is a lease. If a process dies during an attempt, nothing is stored; the lease ends and the event is sent again
under the same id. Delivery is therefore at least once. Several processes may run this at the same time.
"""

import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.utils import timezone

from foundation import database, later
from foundation.later import worker_id
from partners.models import SECRET_FIELDS, Partner
from webhooks import signing, transport
from webhooks.models import DELIVER, SETTLED_BY, SETTLED_FIELDS, Claim, Event, reachable_partners_sql
from webhooks.transport import AttemptResult, Fault

log = structlog.get_logger("webhooks")

#: How long a process waits before it tries an unavailable database again, in seconds.
DATABASE_AWAY_S = 1.0
# The pause between two turns, in seconds. Outcomes that arrive within a pause are stored in one transaction.
PAUSE_S = 0.02
# How long a process goes on looking after it claimed an event, in seconds.
LINGER_S = 0.1
# A partner whose last attempt took at least this long gets fewer places, so that one process can serve hundreds of dead
# endpoints.
SLOW_MS = 3_000
SLOW_LIMIT = 2
USER_AGENT = "origination-webhooks/1"
_CLAIM_LOCK = 0x77656268  # "webh". Any constant that no other advisory lock of this database uses


# The due events of every partner, up to its free places. The first event of each partner comes before the second event
# of any.
_CHOSEN = """
SELECT chosen.id FROM (
    SELECT due.id, due.due_at, busy.places + row_number() OVER (PARTITION BY partner.id ORDER BY due.due_at) AS place
    FROM (PARTNERS) AS partner
    CROSS JOIN LATERAL (
        SELECT count(*) AS places FROM webhooks_event WHERE partner_id = partner.id AND lease_until > %(now)s
    ) AS busy
    CROSS JOIN LATERAL (
        DUE AND webhooks_event.partner_id = partner.id ORDER BY webhooks_event.due_at
        LIMIT greatest(
            0,
            CASE WHEN partner.id = ANY(%(slow)s::uuid[]) THEN %(slow_limit)s::int ELSE %(limit)s::int END - busy.places
        )
    ) AS due
) AS chosen ORDER BY chosen.place, chosen.due_at LIMIT %(room)s::int
"""


@dataclass(frozen=True)
class FinishedAttempt:
    """An attempt made under `claim`, not yet stored."""

    claim: Claim
    url: str
    started_at: datetime
    result: AttemptResult


def is_any_due() -> bool:
    """True if there may be an event to claim. This is one prepared statement, while a claim takes four round trips."""
    row = database.fetch_one(_is_any_due_sql(), {"now": timezone.now()})
    return row is not None and bool(row[0])


def claim(room: int, slow: Collection[uuid.UUID] = ()) -> list[Claim]:
    """Lease up to `room` due events.

    No partner gets more than `WEBHOOK_PARTNER_LIMIT` places over all processes; partners in `slow` get fewer.
    """
    now = timezone.now()
    params: dict[str, Any] = {
        "now": now,
        "until": now + timedelta(seconds=settings.WEBHOOK_LEASE_S),
        "worker": worker_id(),
        "room": room,
        "limit": settings.WEBHOOK_PARTNER_LIMIT,
        "slow": list(slow),
        "slow_limit": min(SLOW_LIMIT, settings.WEBHOOK_PARTNER_LIMIT),
    }
    with transaction.atomic(), database.cursor() as cursor:
        # Only one process claims at a time. Otherwise two processes could count the same free places.
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_CLAIM_LOCK])
        cursor.execute(_claim_sql(), params)
        return [Claim(*row) for row in cursor.fetchall()]


# Each is made of the definition of due, and compiled once, because that takes longer than the statement does.
@lru_cache(maxsize=1)
def _is_any_due_sql() -> str:
    return f"SELECT {Event.is_any_due_sql()}"


@lru_cache(maxsize=1)
def _claim_sql() -> str:
    places = {"PARTNERS": reachable_partners_sql(), "DUE": Event.due_sql("id", "due_at")}
    chosen = re.sub("PARTNERS|DUE", lambda word: places[word[0]], _CHOSEN)
    due = f"{Event.due_sql('id')} AND webhooks_event.id IN ({chosen})"
    return Event.claim_sql(due, "%(until)s", "%(worker)s", ("id", "partner_id", "due_at", "lease_until"))


def load(claims: Iterable[Claim]) -> dict[str, Event]:
    """The claimed events by id, with their bodies and the URL and the secrets of the current registration. An event
    that was erased after it was claimed is left out. Events of one partner share one object of it, so that its secrets
    are decrypted once."""
    sql, columns, of_partner = _loading()
    loaded: dict[str, Event] = {}
    partners: dict[uuid.UUID, Partner] = {}
    for row in database.fetch_all(sql, [[claimed.event_id for claimed in claims]]):
        event = columns.row(row[: len(columns)])
        if event.partner_id not in partners:
            partners[event.partner_id] = of_partner.row(row[len(columns) :])
        event.partner = partners[event.partner_id]
        loaded[event.pk] = event
    return loaded


@lru_cache(maxsize=1)
def _loading() -> tuple[str, database.Columns[Event], database.Columns[Partner]]:
    """The statement of `load`, and the columns of its rows."""
    columns = database.Columns(Event, "e", only=("id", "partner", "body"))
    of_partner = database.Columns(Partner, "p", only=("id", "webhook_url", *SECRET_FIELDS))
    sql = f"""
SELECT {columns.sql}, {of_partner.sql} FROM webhooks_event e JOIN partners_partner p ON p.id = e.partner_id
WHERE e.id = ANY(%s::text[]) AND e.body IS NOT NULL
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


def settle(outcomes: Sequence[FinishedAttempt]) -> None:
    """Store the outcomes of attempts in one short transaction."""
    sql, columns = _settling()
    with transaction.atomic():
        found = database.fetch_all(sql, [[outcome.claim.event_id for outcome in outcomes]])
        events = {event.pk: event for event in map(columns.row, found)}
        attempts = [
            events[outcome.claim.event_id].settle(
                outcome.result, claim=outcome.claim, url=outcome.url, started_at=outcome.started_at
            )
            for outcome in outcomes
        ]
        database.insert(*(each for each in attempts if each.event.purged_at is None))
        database.update(list(events.values()), SETTLED_FIELDS)
    for outcome in outcomes:
        log.info(
            "webhook_attempt",
            webhook_id=outcome.claim.event_id,
            partner=str(outcome.claim.partner_id),
            status=outcome.result.status,
            fault=outcome.result.fault,
            ms=outcome.result.duration_ms,
            state=events[outcome.claim.event_id].state,
        )


@lru_cache(maxsize=1)
def _settling() -> tuple[str, database.Columns[Event]]:
    """The statement that locks the events to be settled, and the columns of its rows."""
    columns = database.Columns(Event, "e", only=("id", *SETTLED_BY, *SETTLED_FIELDS))
    sql = f"SELECT {columns.sql} FROM webhooks_event e WHERE e.id = ANY(%s::text[]) ORDER BY e.id FOR UPDATE"  # noqa: S608 - names of ours
    return sql, columns


class Deliveries:
    """The deliveries of this process. One thread at a time uses the database; many threads only talk to receivers.

    The process therefore needs a single database connection, and no attempt holds one.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(settings.WEBHOOK_CONCURRENCY, thread_name_prefix="webhook")
        self._outcomes: deque[FinishedAttempt] = deque()
        self._running = threading.Lock()
        self._woken = threading.Event()
        self._is_stopping = False
        #: The number of attempts whose outcome is not stored.
        self.in_flight = 0
        self._claimed_at = -LINGER_S
        self._slow: set[uuid.UUID] = set()

    def stop(self) -> None:
        """Let `run` begin no further attempt, and return when those in flight have ended."""
        self._is_stopping = True
        self._woken.set()

    def run(self) -> None:
        """Deliver until nothing is due and no attempt is in flight. If another thread does so already, it looks again,
        and this call returns at once.

        Continues after any outage of PostgreSQL. Without Redis it delivers what it finds.
        """
        self._woken.set()
        # `_woken` is set before the lock is tried, and read after it is given back: no call is overlooked.
        while self._woken.is_set() and self._running.acquire(blocking=False):
            try:
                self._run()
            finally:
                self._running.release()

    def _run(self) -> None:
        while True:
            self._woken.clear()
            try:
                later.drain(DELIVER, self._look)
                connection.close()
            except (OperationalError, InterfaceError) as error:
                # Outcomes are kept until the database is back. Leased events become free when their lease ends.
                log.warning("webhook_database_away", error=type(error).__name__)
                connection.close()
                if self._is_stopping:
                    return
                time.sleep(DATABASE_AWAY_S)
                continue
            if not self.in_flight:
                return
            self._woken.wait()

    def _look(self) -> bool:
        """One turn. True while events come, and for `LINGER_S` after the last one: under load, a look is cheaper than a
        ring for each event."""
        if self.turn(claiming=not self._is_stopping):
            self._claimed_at = time.monotonic()
        is_busy = time.monotonic() - self._claimed_at < LINGER_S and not self._is_stopping
        if is_busy:
            time.sleep(PAUSE_S)
        return is_busy

    def turn(self, *, claiming: bool = True) -> int:
        """Store the finished outcomes, then claim and start due events. Returns the number of claimed events."""
        # By position: a deque that grows while it is iterated over raises RuntimeError, and other threads append.
        outcomes = [self._outcomes[position] for position in range(len(self._outcomes))]
        self._store(outcomes)
        for outcome in outcomes:
            self._outcomes.popleft()
            self.in_flight -= 1
            if outcome.result.duration_ms >= SLOW_MS:
                self._slow.add(outcome.claim.partner_id)
            else:
                self._slow.discard(outcome.claim.partner_id)
        room = settings.WEBHOOK_CONCURRENCY - self.in_flight
        if not claiming or room <= 0 or not is_any_due():
            return 0
        claims = claim(room, self._slow)
        self._start(claims)
        return len(claims)

    def _start(self, claims: list[Claim]) -> None:
        started_at, events = timezone.now(), load(claims)
        for claimed in claims:
            if claimed.event_id in events:
                self._threads.submit(self._deliver, claimed, events[claimed.event_id], started_at)
                self.in_flight += 1

    def _deliver(self, claimed: Claim, event: Event, started_at: datetime) -> None:
        self._outcomes.append(FinishedAttempt(claimed, event.partner.webhook_url, started_at, attempt(event)))
        self._woken.set()

    def _store(self, outcomes: list[FinishedAttempt]) -> None:
        try:
            if outcomes:
                settle(outcomes)
        except (OperationalError, InterfaceError):
            raise
        except Exception:  # store each outcome by itself: one that cannot be stored is left to its event's lease
            for outcome in outcomes if len(outcomes) > 1 else ():
                self._store([outcome])
            if len(outcomes) == 1:
                log.exception("webhook_outcome_not_stored", webhook_id=outcomes[0].claim.event_id)


@lru_cache(maxsize=1)
def of_this_process() -> Deliveries:
    """This process's deliveries."""
    return Deliveries()
