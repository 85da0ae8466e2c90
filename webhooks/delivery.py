"""Delivers due events: claims rows, tries each outside any transaction, stores what came of it.

A claim is a lease. A process that dies in the middle of an attempt stores nothing; its lease ends and the
event is tried again under the same id, so delivery is at least once. Any number of processes may run this
side by side.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.utils import timezone

from providers.encryption import WrongKey

from . import doorbell, signing, transport
from .models import Event
from .transport import Answer, Fault

log = structlog.get_logger("webhooks")

SWEEP_S = 1.0
# Longer than an attempt: its own limit, the name look-up that no time-out bounds, storing the outcome.
LEASE = timedelta(seconds=60)
# A partner whose last attempt took this long gets few places: hundreds of dead endpoints fit in one process.
SLOW_MS = 3_000
SLOW_LIMIT = 2
USER_AGENT = "origination-webhooks/1"
_CLAIM_LOCK = 0x77656268  # "webh": any constant that no other advisory lock of this database uses

# Every partner's due rows up to the places it has left; then each partner's first before anyone's second.
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
    WHERE partner.webhook_url <> '' AND partner.webhook_secret IS NOT NULL
)
UPDATE webhooks_event SET claim = %(token)s, claimed_until = %(until)s
WHERE id IN (SELECT id FROM claimable ORDER BY place, next_attempt_at LIMIT %(room)s)
RETURNING id, partner_id
"""


@dataclass(frozen=True)
class Claim:
    """A leased event. `token` tells this claim from a later one."""

    event_id: str
    partner_id: uuid.UUID
    token: uuid.UUID


@dataclass(frozen=True)
class Letter:
    """All that an attempt needs; address and secrets are the registration's at this moment."""

    event_id: str
    url: str
    body: bytes
    secrets: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What came of an attempt made under `claim`."""

    claim: Claim
    url: str
    started_at: datetime
    answer: Answer


def claim(room: int, slow: Collection[uuid.UUID] = ()) -> list[Claim]:
    """Lease up to `room` due events.

    No partner gets more places than `WEBHOOK_PARTNER_LIMIT` over all processes, those in `slow` fewer.
    Events of a partner without address or secret wait.
    """
    token, now = uuid.uuid4(), timezone.now()
    with transaction.atomic(), connection.cursor() as cursor:
        # One claimer at a time, or two would count the same free places.
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_CLAIM_LOCK])
        cursor.execute(
            _CLAIM,
            {
                "now": now,
                "until": now + LEASE,
                "token": token,
                "room": room,
                "limit": settings.WEBHOOK_PARTNER_LIMIT,
                "slow": list(slow),
                "slow_limit": min(SLOW_LIMIT, settings.WEBHOOK_PARTNER_LIMIT),
            },
        )
        return [Claim(event_id, partner_id, token) for event_id, partner_id in cursor.fetchall()]


def load(event_id: str) -> Letter:
    """What to send, where, signed with what. Raises `providers.encryption.WrongKey`."""
    event = Event.objects.select_related("partner").defer("external_reference").get(pk=event_id)
    partner = event.partner
    return Letter(event_id, partner.webhook_url, event.body.encode(), tuple(partner.webhook_secrets()))


def attempt(letter: Letter) -> Answer:
    """Sign and post, once. Touches no database; raises nothing."""
    try:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
            **signing.headers(letter.event_id, letter.body, letter.secrets, int(time.time())),
        }
        return transport.post(letter.url, letter.body, headers)
    except Exception:  # whatever our own fault is, it must be recorded, and no other event may suffer from it
        log.exception("webhook attempt broke", webhook_id=letter.event_id)
        return Answer(fault=Fault.INTERNAL)


def settle(outcome: Outcome) -> None:
    """Store the outcome of an attempt, in a short transaction of its own."""
    answer = outcome.answer
    with transaction.atomic():
        unread = ("body", "external_reference")
        event = Event.objects.select_for_update().defer(*unread).get(pk=outcome.claim.event_id)
        event.settle(answer, claim=outcome.claim.token, url=outcome.url, started_at=outcome.started_at)
    log.info(
        "webhook attempt",
        webhook_id=event.pk,
        partner=str(outcome.claim.partner_id),
        attempt=event.attempts,
        status=answer.status,
        fault=answer.fault,
        ms=answer.duration_ms,
        state=event.state,
    )


class Courier:
    """One delivery process: a thread that talks to the database, and many that only talk to receivers.

    So a process needs a single database connection, and none is held by an attempt.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(settings.WEBHOOK_CONCURRENCY, thread_name_prefix="webhook")
        self._outcomes: deque[Outcome] = deque()
        self._woken = threading.Event()
        self._in_flight = 0
        self._slow: set[uuid.UUID] = set()

    def wake(self) -> None:
        """Look for due events now. May be called from any thread."""
        self._woken.set()

    def run(self, stop: threading.Event) -> None:
        """Deliver until `stop` is set and `wake` called, then finish what is in flight.

        Sweeps every second, also unwoken. Outlives every absence of PostgreSQL and Redis.
        """
        threading.Thread(target=doorbell.listen, args=(self.wake, stop), daemon=True).start()
        while not (stop.is_set() and self._in_flight == 0):
            self._woken.clear()
            try:
                self.turn(claiming=not stop.is_set())
            except (OperationalError, InterfaceError) as error:
                # Outcomes are kept until the database is back; what was only claimed is free after its lease.
                log.warning("webhook delivery waits for the database", error=type(error).__name__)
                connection.close()
                if stop.is_set():
                    break
            self._woken.wait(SWEEP_S)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def turn(self, *, claiming: bool = True) -> int:
        """Store the outcomes that came, then claim and start what is due. Returns how many are in flight."""
        while self._outcomes:
            self._store(self._outcomes[0])
            self._outcomes.popleft()
            self._in_flight -= 1
        room = settings.WEBHOOK_CONCURRENCY - self._in_flight
        if claiming and room > 0:
            for claimed in claim(room, self._slow):
                self._start(claimed)
        return self._in_flight

    def _start(self, claimed: Claim) -> None:
        started_at = timezone.now()
        try:
            letter = load(claimed.event_id)
        except WrongKey:
            log.exception("webhook event unreadable", webhook_id=claimed.event_id)
            self._outcomes.append(Outcome(claimed, "", started_at, Answer(fault=Fault.INTERNAL)))
        else:
            self._threads.submit(self._deliver, claimed, letter, started_at)
        self._in_flight += 1

    def _deliver(self, claimed: Claim, letter: Letter, started_at: datetime) -> None:
        self._outcomes.append(Outcome(claimed, letter.url, started_at, attempt(letter)))
        self.wake()

    def _store(self, outcome: Outcome) -> None:
        partner = outcome.claim.partner_id
        (self._slow.add if outcome.answer.duration_ms >= SLOW_MS else self._slow.discard)(partner)
        try:
            settle(outcome)
        except (OperationalError, InterfaceError):
            raise
        except Exception:  # one outcome that can't be stored must not stop the others; its lease runs out
            log.exception("webhook outcome not stored", webhook_id=outcome.claim.event_id)
