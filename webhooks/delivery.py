"""Delivers due events: claims rows, makes the attempts outside of any transaction, and stores their outcomes.

A claim is a lease. If a process dies during an attempt, nothing is stored; the lease expires and the event is sent
again under the same id. Delivery is therefore at least once. Several processes may run this at the same time.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from foundation import statements
from foundation.encryption import WrongKey
from foundation.heartbeats import worker_id
from partners.models import SECRETS_OF_PARTNER
from webhooks import signing, transport
from webhooks.models import SETTLED_FIELDS, Attempt, Event
from webhooks.transport import Answer, Fault

log = structlog.get_logger("webhooks")

#: How often a process checks for due events, in seconds.
SWEEP_S = 0.2
#: The same while the database is unavailable.
DATABASE_AWAY_S = 1.0
# The pause between two turns, in seconds. Outcomes that arrive within a pause are stored in one transaction.
PAUSE_S = 0.02
# A partner whose last attempt took at least this long gets fewer places, so that one process can serve hundreds of dead
# endpoints.
SLOW_MS = 3_000
SLOW_LIMIT = 2
USER_AGENT = "origination-webhooks/1"
_CLAIM_LOCK = 0x77656268  # "webh". Any constant that no other advisory lock of this database uses

# The due rows of every partner, up to its free places. The first row of each partner comes before the second row of
# any.
_CLAIM = """
WITH claimable AS (
    SELECT due.id, due.next_attempt_at, busy.places + row_number() OVER (
        PARTITION BY partner.id ORDER BY due.next_attempt_at
    ) AS place
    FROM partners_partner AS partner
    CROSS JOIN LATERAL (
        SELECT count(*) AS places FROM webhooks_event
        WHERE partner_id = partner.id AND claimed_until > %(now)s
    ) AS busy
    CROSS JOIN LATERAL (
        SELECT id, next_attempt_at FROM webhooks_event
        WHERE partner_id = partner.id AND state = 'due' AND next_attempt_at <= %(now)s
          AND (claimed_until IS NULL OR claimed_until <= %(now)s)
        ORDER BY next_attempt_at
        LIMIT greatest(
            0, CASE WHEN partner.id = ANY(%(slow)s) THEN %(slow_limit)s ELSE %(limit)s END - busy.places
        )
        FOR UPDATE SKIP LOCKED
    ) AS due
    WHERE partner.webhook_url <> '' AND partner.webhook_secret IS NOT NULL AND NOT partner.deliveries_held
)
UPDATE webhooks_event SET claim = %(token)s, claimed_until = %(until)s, worker = %(worker)s
WHERE id IN (SELECT id FROM claimable ORDER BY place, next_attempt_at LIMIT %(room)s)
RETURNING id, partner_id
"""

# True if `_CLAIM` may find a row. Asks the index of due events once for each partner with a URL.
_ANY_DUE = """
SELECT EXISTS (
    SELECT FROM partners_partner AS partner
    WHERE partner.webhook_url <> '' AND partner.webhook_secret IS NOT NULL AND EXISTS (
        SELECT FROM webhooks_event
        WHERE partner_id = partner.id AND state = 'due' AND next_attempt_at <= %(now)s
          AND (claimed_until IS NULL OR claimed_until <= %(now)s)
    )
)
"""


@dataclass(frozen=True)
class Claim:
    """A leased event. `token` distinguishes this claim from a later one."""

    event_id: str
    partner_id: uuid.UUID
    token: uuid.UUID


@dataclass(frozen=True)
class Delivery:
    """The data of one attempt. URL and secrets are those of the current registration."""

    event_id: str
    url: str
    body: bytes
    secrets: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """The result of the attempt made under `claim`."""

    claim: Claim
    url: str
    started_at: datetime
    answer: Answer


def is_any_due() -> bool:
    """True if there may be an event to claim. This is one prepared statement, while a claim takes four round trips. It
    is the only query while nothing is due."""
    row = statements.fetch_one(_ANY_DUE, {"now": timezone.now()})
    return row is not None and bool(row[0])


def claim(room: int, slow: Collection[uuid.UUID] = ()) -> list[Claim]:
    """Lease up to `room` due events.

    No partner gets more than `WEBHOOK_PARTNER_LIMIT` places over all processes; partners in `slow` get fewer. Events
    wait while their partner has no URL or secret, or while its deliveries are held.
    """
    token, worker, now = uuid.uuid4(), worker_id(), timezone.now()
    with transaction.atomic(), connection.cursor() as cursor:
        # Only one process claims at a time. Otherwise two processes could count the same free places.
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_CLAIM_LOCK])
        cursor.execute(
            _CLAIM,
            {
                "now": now,
                "until": now + timedelta(seconds=settings.WEBHOOK_LEASE_S),
                "token": token,
                "worker": worker,
                "room": room,
                "limit": settings.WEBHOOK_PARTNER_LIMIT,
                "slow": list(slow),
                "slow_limit": min(SLOW_LIMIT, settings.WEBHOOK_PARTNER_LIMIT),
            },
        )
        return [Claim(event_id, partner_id, token) for event_id, partner_id in cursor.fetchall()]


def held() -> QuerySet[Event]:
    """The events that some process is delivering now."""
    return Event.objects.filter(claimed_until__isnull=False).exclude(worker="")


def end_leases_of(processes: Collection[str]) -> None:
    """End the leases of these dead processes. A process that is alive after all may deliver its event a second time,
    under the same id; its success is recorded."""
    held().filter(worker__in=processes).update(claimed_until=timezone.now(), worker="")


def load(event_ids: Iterable[str]) -> list[Delivery]:
    """The deliveries of these events. An event that was erased after it was claimed is left out.

    Raises `foundation.encryption.WrongKey`.
    """
    needed = ("body", "partner__webhook_url", *SECRETS_OF_PARTNER)
    events = Event.objects.filter(pk__in=list(event_ids), body__isnull=False).select_related("partner").only(*needed)
    deliveries = []
    for event in events:
        assert event.body is not None  # noqa: S101 - asked for above
        partner = event.partner
        secrets_now = tuple(partner.webhook_secrets())
        deliveries.append(Delivery(event.pk, partner.webhook_url, event.body.encode(), secrets_now))
    return deliveries


def attempt(delivery: Delivery) -> Answer:
    """Sign and send, once. Uses no database and raises nothing."""
    try:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
            **signing.headers(delivery.event_id, delivery.body, delivery.secrets, int(time.time())),
        }
        return transport.post(delivery.url, delivery.body, headers)
    except Exception:  # a bug of ours is recorded, and does not affect other events
        log.exception("webhook_attempt_broke", webhook_id=delivery.event_id)
        return Answer(fault=Fault.INTERNAL)


def settle(outcomes: Sequence[Outcome]) -> None:
    """Store the outcomes of attempts in one short transaction."""
    by_event = {outcome.claim.event_id for outcome in outcomes}
    with transaction.atomic():
        rows = Event.objects.filter(pk__in=by_event).defer("body", "external_reference").order_by("pk")
        events = {event.pk: event for event in rows.select_for_update()}
        attempts = [
            events[outcome.claim.event_id].settle(
                outcome.answer, claim=outcome.claim.token, url=outcome.url, started_at=outcome.started_at
            )
            for outcome in outcomes
        ]
        Attempt.objects.bulk_create(each for each in attempts if each.event.purged_at is None)
        for event in events.values():
            event.save(update_fields=SETTLED_FIELDS)
    for outcome in outcomes:
        log.info(
            "webhook_attempt",
            webhook_id=outcome.claim.event_id,
            partner=str(outcome.claim.partner_id),
            status=outcome.answer.status,
            fault=outcome.answer.fault,
            ms=outcome.answer.duration_ms,
            state=events[outcome.claim.event_id].state,
        )


class DeliveryProcess:
    """One delivery process. One thread uses the database; many threads only talk to receivers.

    The process therefore needs a single database connection, and no attempt holds one.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(settings.WEBHOOK_CONCURRENCY, thread_name_prefix="webhook")
        self._outcomes: deque[Outcome] = deque()
        self._woken = threading.Event()
        self._in_flight = 0
        self._slow: set[uuid.UUID] = set()

    def wake(self) -> None:
        """Check for due events at once. May be called from any thread."""
        self._woken.set()

    def run(self, stop: threading.Event) -> None:
        """Deliver until `stop` is set and `wake` is called, then finish the attempts in flight.

        Checks for due events every `SWEEP_S` seconds and after each attempt. Continues after any outage of PostgreSQL.
        Does not use Redis.
        """
        while not (stop.is_set() and self._in_flight == 0):
            self._woken.clear()
            try:
                self.turn(claiming=not stop.is_set())
            except (OperationalError, InterfaceError) as error:
                # Outcomes are kept until the database is back. Claimed events become free when their lease expires.
                log.warning("webhook_database_away", error=type(error).__name__)
                connection.close()
                if stop.wait(DATABASE_AWAY_S):
                    break
            stop.wait(PAUSE_S)
            self._woken.wait(SWEEP_S)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def turn(self, *, claiming: bool = True) -> int:
        """Store the finished outcomes, then claim and start due events. Returns the number of attempts in flight."""
        outcomes = [self._outcomes[position] for position in range(len(self._outcomes))]
        self._store(outcomes)
        for outcome in outcomes:
            self._outcomes.popleft()
            self._in_flight -= 1
            is_slow = outcome.answer.duration_ms >= SLOW_MS
            (self._slow.add if is_slow else self._slow.discard)(outcome.claim.partner_id)
        room = settings.WEBHOOK_CONCURRENCY - self._in_flight
        if claiming and room > 0 and (self._in_flight or is_any_due()):
            self._start(claim(room, self._slow))
        return self._in_flight

    def _start(self, claims: list[Claim]) -> None:
        started_at = timezone.now()
        try:
            deliveries = load(claimed.event_id for claimed in claims)
        except WrongKey:
            if len(claims) > 1:  # load each event by itself, so that an unreadable row affects no other
                for claimed in claims:
                    self._start([claimed])
                return
            log.exception("webhook_event_unreadable", webhook_id=claims[0].event_id)
            self._outcomes.append(Outcome(claims[0], "", started_at, Answer(fault=Fault.INTERNAL)))
            self._in_flight += 1
            return
        by_event = {claimed.event_id: claimed for claimed in claims}
        for delivery in deliveries:
            self._threads.submit(self._deliver, by_event[delivery.event_id], delivery, started_at)
            self._in_flight += 1

    def _deliver(self, claimed: Claim, delivery: Delivery, started_at: datetime) -> None:
        self._outcomes.append(Outcome(claimed, delivery.url, started_at, attempt(delivery)))
        self.wake()

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
                log.exception("webhook_outcome_not_stored", webhook_id=outcomes[0].claim.event_id)
