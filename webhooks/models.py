"""Events for partners, the attempts to deliver them, and when the next attempt is due."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import models, transaction
from django.db.models import F, Q, Value
from django.db.models.expressions import RawSQL
from django.utils import timezone

from foundation import database, later
from foundation.encryption import EncryptedTextField, blind_index
from foundation.errors import InvalidState
from foundation.later import Leased
from partners.models import Partner
from webhooks.transport import AttemptResult, Fault

# Seconds from a failed attempt to the next one: nine attempts in about 28 hours.
RETRY_AFTER_S = (10, 60, 300, 1_800, 7_200, 18_000, 36_000, 36_000)
JITTER = 0.1
#: After a failure of our own (a wrong key, a bug), the delay is a tenth of the event's age, within these seconds.
OUR_FAULT_FIRST_S, OUR_FAULT_LONGEST_S = 60, 3_600
_WHY_NOT = {"webhook_url": "", "webhook_secret__isnull": True, "deliveries_held": True}
#: Partners to which nothing can be sent: they have no URL or no secret, or an operator holds their deliveries.
UNREACHABLE_PARTNER = Q(**_WHY_NOT, _connector=Q.OR)
#: Their events.
UNREACHABLE = Q(**{f"partner__{name}": value for name, value in _WHY_NOT.items()}, _connector=Q.OR)
#: How many attempts of an event are shown.
SHOWN = 50
#: How many events one transaction erases.
BATCH = 500


def reachable_partners_sql() -> str:
    """The SELECT of the ids of all partners to which events can be sent."""
    return database.written_out(Partner.objects.exclude(UNREACHABLE_PARTNER).order_by().values_list("id"))


class AlreadyPurged(InvalidState):
    """The event's body was erased at the end of its retention, so it cannot be sent."""

    default_message = "O conteúdo do evento já foi apagado e não pode ser reenviado."


def new_id() -> str:
    """A new `webhook-id`. It contains no dot, because a dot separates the parts of the signed content."""
    return f"evt_{uuid.uuid4().hex}"


def reference_index(external_reference: str) -> str:
    """The keyed hash by which an event is found. The reference itself may be a CPF and is stored encrypted."""
    return blind_index("webhook_reference", external_reference)


class Event(Leased):
    """A message to a partner, written in the transaction that caused it. The rows are the outbox.

    `due_at` is the time of the next attempt. `failures` is the position in the retry schedule and starts again with a
    resend. `attempts` counts all finished attempts. An attempt that failed by our own fault (`Fault.INTERNAL`) does not
    count as a failure of the receiver.

    `resent` is true from a resend until the end of an attempt that was claimed after it. Until then the outcomes of
    earlier attempts decide nothing.
    """

    task = "webhooks.tasks.deliver"

    class State(models.TextChoices):
        DUE = "due", "a entregar"
        DELIVERED = "delivered", "entregue"
        FAILED = "failed", "falhou"

    id = models.CharField("webhook-id", primary_key=True, max_length=40, default=new_id, editable=False)
    partner = models.ForeignKey(Partner, models.PROTECT, related_name="events", verbose_name="parceiro", db_index=False)
    name = models.CharField("evento", max_length=60)
    external_reference = EncryptedTextField("referência externa", null=True)
    reference_index = models.CharField(max_length=64, blank=True)
    body = EncryptedTextField("corpo", null=True)
    state = models.CharField("estado", max_length=10, choices=State.choices, default=State.DUE)
    attempts = models.PositiveIntegerField("tentativas", default=0)
    failures = models.PositiveSmallIntegerField("falhas seguidas", default=0)
    fault = models.CharField("falha atual", max_length=12, choices=Fault.choices, blank=True)
    due_at = models.DateTimeField("próxima tentativa", null=True, default=timezone.now)
    lease_until = models.DateTimeField("em entrega até", null=True, editable=False)
    resent = models.BooleanField(default=False, db_default=False, editable=False)
    created_at = models.DateTimeField("criado em", default=timezone.now, editable=False)
    delivered_at = models.DateTimeField("entregue em", null=True)
    purged_at = models.DateTimeField("conteúdo apagado em", null=True)
    partner_reference = models.CharField("referência do parceiro", max_length=64, blank=True, default="", db_default="")
    #: The number of the transaction that wrote the row: the order of `events.page_in_order`.
    xact_id = models.BigIntegerField(editable=False, db_default=RawSQL("pg_current_xact_id()::text::bigint", ()))

    class Meta:
        verbose_name = "evento"
        verbose_name_plural = "eventos"
        ordering = ("-created_at", "-id")
        indexes = [
            models.Index(fields=("partner", "due_at"), name="event_due", condition=Q(due_at__isnull=False)),
            models.Index(fields=("partner",), name="event_leased", condition=Q(lease_until__isnull=False)),
            models.Index(fields=("partner",), name="event_failed", condition=Q(state="failed")),
            models.Index(fields=("partner", "-created_at"), name="event_newest"),
            models.Index(fields=("partner", "name", "-created_at"), name="event_by_name"),
            models.Index(fields=("reference_index",), name="event_reference"),
            models.Index(fields=("-created_at", "-id"), name="event_newest_of_all"),
            models.Index(fields=("partner", "xact_id", "created_at", "id"), name="event_in_order"),
            models.Index(
                fields=("partner", "partner_reference", "-created_at"),
                name="event_by_own_name",
                condition=Q(partner_reference__gt=""),
            ),
            models.Index(fields=("created_at",), name="event_unpurged", condition=Q(purged_at__isnull=True)),
        ]
        constraints = [
            models.CheckConstraint(
                name="event_due_has_its_time",
                condition=Q(state="due", due_at__isnull=False) | Q(~Q(state="due"), due_at__isnull=True),
            )
        ]

    def __str__(self) -> str:
        return f"{self.id} ({self.name})"

    @classmethod
    def is_due(cls, now: datetime) -> Q:
        """An event is due only while it can be sent."""
        return super().is_due(now) & ~UNREACHABLE

    @classmethod
    def is_any_due_sql(cls) -> str:
        """Asks the index of due events for each partner, so that the events of a held partner are not read."""
        mine = f"{cls.due_sql('pk')} AND webhooks_event.partner_id = partner.id ORDER BY webhooks_event.due_at LIMIT 1"
        return f"EXISTS (SELECT FROM ({reachable_partners_sql()}) AS partner CROSS JOIN LATERAL ({mine}) AS due)"

    @property
    def parsed(self) -> Any:
        """The body as it is sent, parsed. None once it is erased."""
        return json.loads(self.body) if self.body is not None else None

    def settle(self, result: AttemptResult, *, claim: Event) -> Attempt:
        """Update this event with the result of an attempt made under `claim`, and return the attempt's record. Neither
        is saved; the caller holds the row's lock. If another process has taken over the expired claim, or the content
        was erased meanwhile, a success is still recorded and a failure is not: the later attempt decides. After a
        resend, not even a success of an earlier attempt is recorded: it only ends its lease."""
        self.attempts += 1
        is_mine = self.lease_until == claim.lease_until
        if self.resent and self.due_at != claim.due_at:
            if is_mine:
                self.lease_until, self.worker = None, ""
        elif result.fault is None:
            self._set_state(self.State.DELIVERED, fault="")
            self.delivered_at = timezone.now()
        elif is_mine and result.fault is Fault.INTERNAL:
            wait = our_fault_delay(timezone.now() - self.created_at)
            self._set_state(self.State.DUE, fault=result.fault, due_at=timezone.now() + wait)
        elif is_mine and self.failures >= len(RETRY_AFTER_S):
            self._set_state(self.State.FAILED, fault=result.fault)
        elif is_mine:
            wait = retry_delay(self.failures, result.retry_after)
            self._set_state(self.State.DUE, fault=result.fault, due_at=timezone.now() + wait)
            self.failures += 1
        return Attempt(
            event=self,
            partner_id=self.partner_id,
            number=self.attempts,
            at=result.started_at,
            url=claim.partner.webhook_url,
            status=result.status,
            fault=result.fault or "",
            duration_ms=result.duration_ms,
            excerpt=result.excerpt or None,
        )

    def _set_state(self, state: State, *, fault: str, due_at: datetime | None = None) -> None:
        self.state, self.fault, self.due_at = state, fault, due_at
        self.lease_until, self.worker, self.resent = None, "", False

    def resend(self) -> None:
        """Queue the event again under its id, with a new retry schedule. At least one attempt begins after this; a
        running one is only noted. Raises AlreadyPurged."""
        if not resend_all(Event.objects.filter(pk=self.pk)):
            raise AlreadyPurged


def undelivered(partner_id: uuid.UUID) -> models.QuerySet[Event]:
    """The partner's events that failed, or that wait for a later attempt, with their content. Events that are due now
    are left out, because they are sent anyway."""
    waits = Q(due_at__gt=timezone.now())
    return Event.objects.filter(Q(state=Event.State.FAILED) | waits, partner=partner_id, purged_at=None)


def between(partner_id: uuid.UUID, begin: datetime, end: datetime, *, only_failed: bool) -> models.QuerySet[Event]:
    """The partner's events from `begin` to before `end` that were not delivered, or also those that were."""
    events = undelivered(partner_id)
    if not only_failed:
        events |= Event.objects.filter(partner=partner_id, state=Event.State.DELIVERED, purged_at=None)
    return events.filter(created_at__gte=begin, created_at__lt=end)


def resend_all(events: models.QuerySet[Event]) -> int:
    """Like `Event.resend`, for those of `events` that have their content. Returns their number."""
    # A running attempt keeps its lease, so that no two run at the same time.
    changes = {"state": Event.State.DUE, "failures": 0, "delivered_at": None, "resent": True}
    with transaction.atomic():  # locked in the order of deliveries' outcomes
        ids = list(events.filter(purged_at=None).order_by("pk").select_for_update().values_list("pk", flat=True))
        queued = Event.hasten(Event.objects.filter(pk__in=ids), **changes)
        later.ring(Event)
    return queued


#: The fields that `Event.settle` changes, and those that it only reads. Others, the encrypted above all, are left.
SETTLED_FIELDS = ("attempts", "failures", "fault", "state", "due_at", "delivered_at", "worker", "lease_until", "resent")
SETTLED_BY = ("partner", "created_at", "purged_at")


class Attempt(models.Model):
    sealed_by = ("event_id", "number")

    event = models.ForeignKey(Event, models.CASCADE, verbose_name="evento")
    #: The event's, so that an index finds a partner's last attempts.
    partner = models.ForeignKey(Partner, models.PROTECT, related_name="+", db_index=False, editable=False)
    number = models.PositiveIntegerField("nº")
    at = models.DateTimeField("início")
    url = models.CharField("URL", max_length=500)
    status = models.PositiveSmallIntegerField("status HTTP", null=True)
    fault = models.CharField("falha", max_length=12, choices=Fault.choices, blank=True)
    duration_ms = models.PositiveIntegerField("duração (ms)")
    excerpt = EncryptedTextField("início da resposta", null=True)

    class Meta:
        verbose_name = "tentativa"
        verbose_name_plural = "tentativas"
        ordering = ("event", "number")
        indexes = [
            models.Index(fields=("partner", "-at"), name="attempt_newest"),
            models.Index(fields=("partner", "-at"), name="attempt_newest_success", condition=Q(fault="")),
            models.Index(fields=("partner", "-at"), name="attempt_newest_failure", condition=~Q(fault="")),
        ]
        constraints = [models.UniqueConstraint(fields=("event", "number"), name="one_attempt_per_number")]

    def __str__(self) -> str:
        return f"{self.event_id} #{self.number}"


def newest_attempts(events: Collection[Event]) -> models.QuerySet[Attempt]:
    """The newest `SHOWN` attempts of each of `events`, by number."""
    return Attempt.objects.filter(event__in=events, number__gt=F("event__attempts") - SHOWN).order_by("event", "number")


def retry_delay(failures: int, retry_after: float | None = None) -> timedelta:
    """The delay after a failed attempt that `failures` others preceded: the schedule's step ±10 %, or the receiver's
    `Retry-After` (seconds) between once and twice the step."""
    step = RETRY_AFTER_S[failures]
    if retry_after is not None:
        return timedelta(seconds=min(max(retry_after, step), 2 * step))
    return timedelta(seconds=step * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311 - spreads load, no secret


def our_fault_delay(age: timedelta) -> timedelta:
    """The delay for an event of that age after an attempt that failed by our own fault."""
    step = min(max(age.total_seconds() / 10, OUR_FAULT_FIRST_S), OUR_FAULT_LONGEST_S)
    return timedelta(seconds=step * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311 - spreads load, no secret


def purge(before: datetime) -> int:
    """Erase bodies, references and attempts of events created before `before`. Returns the number of events. Events
    with attempts still to come are left; one that waited all that time for its partner's URL and secret, or because of
    our own fault, becomes failed."""
    waiting = Q(state=Event.State.DUE)
    stuck = UNREACHABLE | Q(fault=Fault.INTERNAL)
    unleased = Q(lease_until=None) | Q(lease_until__lt=timezone.now())
    old = Event.objects.filter(unleased, created_at__lt=before, purged_at=None).filter(~waiting | stuck)
    purged = 0
    while batch := list(old.order_by("created_at").values_list("pk", flat=True)[:BATCH]):
        purged += _erase_content(old.filter(pk__in=batch))
    return purged


def lock(indexes: Sequence[str]) -> None:
    """Lock the events whose external references have these indexes (`reference_index`), in the order of deliveries'
    outcomes. Inside a transaction."""
    list(Event.objects.filter(reference_index__in=indexes).order_by("pk").select_for_update(of=("self",)).only("pk"))


def erase(indexes: Sequence[str]) -> int:
    """Erase the events whose external references have these indexes (`reference_index`), in any state. Returns their
    number. An undelivered event becomes failed. Of a running attempt only the outcome is noted."""
    return sum(
        _erase_content(Event.objects.filter(reference_index__in=indexes[start : start + BATCH], purged_at=None))
        for start in range(0, len(indexes), BATCH)
    )


def unname(indexes: Sequence[str]) -> int:
    """Remove the partner's own references from the events whose external references have these indexes
    (`reference_index`). They stay in the bodies, encrypted, as sent, until these are purged. Returns the number of
    events that still have theirs."""
    events = Event.objects.filter(reference_index__in=indexes)
    events.exclude(partner_reference="").update(partner_reference="")
    return events.filter(purged_at=None).count()


def _erase_content(events: models.QuerySet[Event]) -> int:
    """Erase bodies, references and attempts of `events`, and end their leases. Returns the number of events."""
    with transaction.atomic():
        # Locked in the same order as by deliveries, and before the attempts.
        ids = [event.pk for event in events.order_by("pk").select_for_update(of=("self",)).only("pk")]
        Attempt.objects.filter(event__in=ids).delete()
        return Event.objects.filter(pk__in=ids).update(
            state=models.Case(models.When(state=Event.State.DUE, then=Value(Event.State.FAILED)), default="state"),
            due_at=None,
            lease_until=None,
            worker="",
            resent=False,
            body=None,
            external_reference=None,
            reference_index="",
            partner_reference="",
            purged_at=timezone.now(),
        )
