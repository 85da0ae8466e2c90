"""What is submitted to a bank, and the attempts to send it. Every change between their states is a method here.

The states, a diagram and the reasons are in docs/decisions/0030-exactly-once-submission.md.
"""

import uuid
from datetime import datetime, timedelta
from typing import Any, Self

import msgspec
from django.conf import settings
from django.db import models, transaction
from django.db.models import QuerySet
from django.utils import timezone

from consultas import query_json
from consultas.models import Offer
from foundation.database import outlasts_restart
from foundation.encryption import EncryptedJSONField, sealed
from foundation.errors import ApiError
from foundation.later import Leased, released, worker_id
from partners.models import Partner
from providers.models import Provider

#: Values of `Submittable.submission` that mean that the bank certainly does not have the submission.
NEVER_ACCEPTED = ("not_sent", "refused")
#: Seconds before each check of a submission of unknown outcome. The last value repeats.
RECONCILE_AFTER_S = (5, 30, 120, 600, 3600)
#: A worker may ask the bank first and then send, so an attempt lasts this many time-outs of the bank, plus some seconds
#: to store the outcome.
TIMEOUTS_PER_ATTEMPT = 3
MARGIN = timedelta(seconds=5)


def new_reference() -> str:
    """A reference of our own for a submission, the same for every attempt."""
    return uuid.uuid4().hex


def next_look(looks: int) -> datetime:
    """The time of the next check of a submission of unknown outcome, after `looks` checks."""
    return timezone.now() + timedelta(seconds=RECONCILE_AFTER_S[min(looks, len(RECONCILE_AFTER_S) - 1)])


class Submittable(Leased):
    """The submission of one offer to its bank. The row is committed before the bank is called.

    `submission` is the state of the sending. `reference` identifies the submission at the bank. `attempts` numbers the
    attempts: a worker whose attempt was overtaken changes nothing, unless the bank accepted. `taken_at` is when a
    worker took the current attempt; until `lease_until` no other request begins one. `sent_until` is the last time at
    which a sent request can still arrive at the bank; None if nothing was ever sent. `dataset` and `terms` are the body
    and the offer as they were sent. `next_dataset` is the body of a retry while an earlier attempt may still be at the
    bank. `origin_query_id` is the query that gave the offer as it was sent; the offer itself refers to its newest
    query. `partner_reference` is the partner's own name of the proposal, or empty.
    """

    class Submission(models.TextChoices):
        SENDING = "sending", "em envio"
        UNKNOWN = "unknown", "resultado desconhecido"
        NOT_SENT = "not_sent", "não chegou ao banco"
        ACCEPTED = "accepted", "aceita"
        REFUSED = "refused", "recusada"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    partner = models.ForeignKey(Partner, models.PROTECT, related_name="proposals", verbose_name="parceiro")
    offer = models.ForeignKey(Offer, models.PROTECT, related_name="proposals", verbose_name="oferta")
    # No foreign key: it would lock the query's row at each submission. Retention keeps the query.
    origin_query_id = models.UUIDField("consulta de origem", editable=False)
    provider = models.CharField("banco", max_length=40)
    cpf_index = models.CharField(max_length=64)
    reference = models.CharField("nossa referência", max_length=64, unique=True, default=new_reference)
    dataset = EncryptedJSONField("dados enviados")
    next_dataset = EncryptedJSONField(null=True)
    terms = EncryptedJSONField("oferta")
    channel = models.CharField("envio do link", max_length=10, blank=True)
    submission = models.CharField("envio", max_length=10, choices=Submission.choices, default=Submission.SENDING)
    error = EncryptedJSONField("erro", null=True)
    attempts = models.PositiveIntegerField("tentativas", default=1)
    taken_at = models.DateTimeField(null=True)
    sent_until = models.DateTimeField(null=True)
    reconciles = models.PositiveSmallIntegerField("conciliações sem resposta", default=0)
    partner_reference = models.CharField("referência do parceiro", max_length=64, blank=True, default="", db_default="")
    request_id = models.CharField("id da requisição", max_length=128)
    created_at = models.DateTimeField("criada em", default=timezone.now)
    updated_at = models.DateTimeField("atualizada em", auto_now=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return str(self.id)

    @staticmethod
    def columns_to_send(dataset: dict[str, Any]) -> dict[str, Any]:
        """The columns for what is sent to the bank: `dataset`, without a `next_dataset`."""
        return {"dataset": dataset, "channel": dataset["evidencia"].get("tipo_envio") or "", "next_dataset": None}

    def _sealed_to_send(self, dataset: dict[str, Any]) -> dict[str, Any]:
        """`columns_to_send` in the form that `update()` takes."""
        return {**self.columns_to_send(dataset), "dataset": sealed(self, "dataset", dataset)}

    @staticmethod
    def _reserved(until: datetime) -> dict[str, Any]:
        """The columns that reserve an attempt until `until`, and make the sweep check it after that."""
        return {"lease_until": until, "due_at": until, "worker": ""}

    def is_held(self, now: datetime) -> bool:
        """True while a request or a worker is working on the current attempt. No other may begin one."""
        return self.submission == self.Submission.SENDING and self.lease_until is not None and self.lease_until > now

    def is_replaceable(self, now: datetime) -> bool:
        """True if the bank certainly has nothing of the submission and no process is about to send it. Other data may
        then replace its data."""
        if self.submission == self.Submission.NOT_SENT:
            return True
        is_unsent = self.submission == self.Submission.SENDING and self.sent_until is None
        return is_unsent and not self.is_held(now)

    def bank_timeout_s(self) -> float:
        """The time-out of the bank's calls, in seconds."""
        row = Provider.objects.only("timeout_s").filter(name=self.provider).first()
        return float((row and row.timeout_s) or settings.BANK_TIMEOUT_S)

    # --- Web: a request claims an attempt, and gives it back ----------------------------------------------------

    @classmethod
    def begin_first_attempt(
        cls, offer: Offer, dataset: dict[str, Any], request_id: str, until: datetime, name: str
    ) -> Self:
        """Create a row, SENDING `dataset` for `offer`. No other request may begin an attempt before `until`. `name` is
        the partner's own name. Raises IntegrityError if the offer has a live proposal."""
        return cls._rows().create(
            partner_id=offer.partner_id,
            offer=offer,
            origin_query_id=offer.query_id,
            provider=offer.provider,
            cpf_index=offer.cpf_index,
            terms=msgspec.to_builtins(
                query_json.offer(offer.provider, offer.as_bank_offer(), offer.query.holder, offer.pk)
            ),
            request_id=request_id,
            partner_reference=name,
            **cls.columns_to_send(dataset),
            **cls._reserved(until),
        )

    def begin_next_attempt(self, dataset: dict[str, Any], request_id: str, until: datetime, name: str) -> bool:
        """Set the row to SENDING with `dataset` and the next number, for the request `request_id`. No other
        request may begin an attempt before `until`. `name` is the partner's own name; an empty one keeps the earlier.
        Returns False if another request was first."""
        # While the bank may have an earlier attempt, the row keeps showing that attempt's data.
        kept = (
            self._sealed_to_send(dataset)
            if self.sent_until is None
            else {"next_dataset": sealed(self, "next_dataset", dataset)}
        )
        unchanged = self._rows().filter(pk=self.pk, attempts=self.attempts, submission=self.submission)
        begun = unchanged.update(
            **kept,
            **self._reserved(until),
            submission=self.Submission.SENDING,
            attempts=self.attempts + 1,
            taken_at=None,
            error=None,
            request_id=request_id,
            partner_reference=name or self.partner_reference,
        )
        if begun:
            self.attempts += 1
        return bool(begun)

    def rename(self, name: str) -> None:
        """Store the partner's own name. The newest counts; an empty one is ignored."""
        if name and name != self.partner_reference:
            self.partner_reference = name
            self._rows().filter(pk=self.pk).update(partner_reference=name, updated_at=timezone.now())

    def give_back_attempt(self) -> None:
        """Give back an attempt that no worker took, so that a repeat need not wait until the lease expires. NOT_SENT if
        no earlier attempt was sent, otherwise UNKNOWN."""
        untaken = self._current_attempt().filter(taken_at__isnull=True)
        untaken.filter(sent_until__isnull=True).update(submission=self.Submission.NOT_SENT, **released(None))
        untaken.filter(sent_until__isnull=False).update(submission=self.Submission.UNKNOWN, **released(timezone.now()))

    # --- Worker: takes the attempt, and records its outcome ------------------------------------------------------

    @classmethod
    @outlasts_restart
    def take(cls, key: str) -> Self | None:
        """Take the current attempt of the row `key` for this worker. Returns the row, or None if there is no attempt to
        take. The same commit records that something may have been sent: from here on only the bank knows the outcome.
        The returned object's `sent_until` is still that of the earlier attempts, None if nothing was ever sent."""
        worker = worker_id()
        with transaction.atomic():
            rows = cls._rows().select_for_update(of=("self",)).select_related("offer__query")
            row = rows.get(pk=key)
            now = timezone.now()
            if row.taken_at is not None or not row.is_held(now):
                return None
            until = now + timedelta(seconds=TIMEOUTS_PER_ATTEMPT * row.bank_timeout_s()) + MARGIN
            earlier = row.sent_until
            taken = {**cls._reserved(until), "worker": worker, "taken_at": now, "sent_until": earlier or until}
            if earlier is None:
                taken["origin_query_id"] = row.offer.query_id
            for name, value in taken.items():
                setattr(row, name, value)
            row.save(update_fields=[*taken, "updated_at"])
        row.sent_until = earlier
        return row

    def prepare_resend(self, *, is_first_gone: bool) -> bool:
        """Before the taken attempt is sent, when the bank has nothing of the earlier one: make the row show this
        attempt's data. `is_first_gone` is True if nothing of the earlier one can arrive any more. Returns False if
        another attempt overtook this one: nothing may be sent then."""
        if is_first_gone:
            self.sent_until = None
        self.dataset = self.next_dataset or self.dataset
        sending = self._sealed_to_send(self.dataset)
        until = self._not_before_earlier(self.lease_until or timezone.now())
        changes = {"sent_until": until, "origin_query_id": self.offer.query_id, **sending}
        return bool(self._current_attempt().update(**changes))

    @outlasts_restart
    def mark_not_sent(self, error: ApiError) -> None:
        """Nothing of this attempt was sent, because of `error`. NOT_SENT if nothing of an earlier attempt can arrive
        either: the next attempt may then be sent at once. Otherwise UNKNOWN."""
        if self.sent_until is None:
            self._current_attempt().update(
                submission=self.Submission.NOT_SENT,
                error=sealed(self, "error", error.as_dict()),
                sent_until=None,
                **released(None),
            )
        else:
            self.return_to_unknown()

    @outlasts_restart
    def mark_unknown(self) -> None:
        """UNKNOWN: this attempt was sent, and its outcome is not known."""
        self._current_attempt().update(
            submission=self.Submission.UNKNOWN,
            sent_until=self._not_before_earlier(timezone.now()),
            reconciles=0,
            **released(next_look(0)),
        )

    def _not_before_earlier(self, moment: datetime) -> datetime:
        """`moment`, or the last time at which a request of an earlier attempt can arrive, whichever is later."""
        return max(moment, self.sent_until or moment)

    def return_to_unknown(self) -> None:
        """UNKNOWN as before this attempt, of which nothing was sent: an earlier one may still arrive."""
        self._current_attempt().update(
            submission=self.Submission.UNKNOWN,
            sent_until=self.sent_until,
            **released(next_look(self.reconciles)),
        )

    # --- Sweep: checks submissions without an outcome -----------------------------------------------------------

    @classmethod
    def end_expired_attempts(cls) -> None:
        """End the attempts that are SENDING after their lease: NOT_SENT if no worker took them, otherwise UNKNOWN,
        because their worker died. `sent_until` stays: a worker that was believed dead may continue its attempt until
        then, so a "not found" is final no earlier than if its lease had lasted."""
        lapsed = cls.due().filter(submission=cls.Submission.SENDING)
        lapsed.filter(sent_until__isnull=True).update(submission=cls.Submission.NOT_SENT, **released(None))
        unknown = {"submission": cls.Submission.UNKNOWN, "reconciles": 0}
        lapsed.filter(sent_until__isnull=False).update(**unknown, **released(timezone.now()))

    def look_again_later(self) -> None:
        """Still UNKNOWN after a check: schedule the next one after a longer pause."""
        unknown = self._rows().filter(pk=self.pk, attempts=self.attempts, submission=self.Submission.UNKNOWN)
        looks = self.reconciles + 1
        unknown.update(reconciles=looks, **released(next_look(looks)))

    @classmethod
    def _rows(cls) -> QuerySet[Self]:
        return cls._default_manager.all()

    def _current_attempt(self) -> QuerySet[Self]:
        """The row, only while this object's attempt is the current one and has no outcome."""
        return self._rows().filter(pk=self.pk, attempts=self.attempts, submission=self.Submission.SENDING)
