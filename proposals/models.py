"""A proposal at a bank, every move it made, and every call to the bank about it."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import structlog
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone

from consultas.models import Offer
from foundation.encryption import EncryptedJSONField, EncryptedTextField
from foundation.errors import ApiError
from partners.models import Partner
from proposals import reasons
from proposals.statuses import MOVES, NOT_LIVE, way
from proposals.tries import NEVER_ACCEPTED, Submittable
from providers.errors import OfferExpired
from providers.reasons import Reason
from providers.types import BankProposal, ProposalStatus
from webhooks import outbox

log = structlog.get_logger(__name__)

SOONEST_REFRESH = timedelta(seconds=10)
SLOWEST_REFRESH = timedelta(minutes=10)


class Cause(models.TextChoices):
    """What made a proposal move."""

    SUBMIT = "submit", "envio"
    RECONCILE = "reconcile", "conciliação"
    FORMALIZE = "formalize", "formalização"
    STATUS = "status", "consulta de situação"
    REFRESH = "refresh", "atualização automática"
    CANCEL = "cancel", "cancelamento"


class Proposal(Submittable):
    """One proposal at one bank, made from one offer.

    `status` is the contract's. Partners see only proposals that the bank accepted or refused: before, nothing is known
    that could be shown.
    """

    status = models.CharField(
        "situação",
        max_length=20,
        choices=[
            ("created", "criada"),
            ("in_analysis", "em análise"),
            ("awaiting_signature", "aguardando assinatura"),
            ("signed", "assinada"),
            ("disbursed", "paga"),
            ("rejected", "recusada"),
            ("cancelled", "cancelada"),
            ("expired", "expirada"),
        ],
        default="created",
    )
    native_id = models.CharField("id no banco", max_length=200, blank=True)
    native_status = models.CharField("situação no banco", max_length=60, blank=True)
    data = EncryptedJSONField("dados do banco", default=dict)
    signature_url = EncryptedTextField("link de assinatura", null=True)
    signature_expires_at = models.DateTimeField("link válido até", null=True)
    reason = EncryptedJSONField("motivo do fim", null=True)
    moved_at = models.DateTimeField("última mudança", default=timezone.now)
    last_status_at = models.DateTimeField(null=True)
    next_refresh_at = models.DateTimeField("próxima atualização", null=True)

    class Meta:
        verbose_name = "proposta"
        verbose_name_plural = "propostas"
        ordering = ("-created_at", "-id")
        constraints = [
            models.UniqueConstraint(
                fields=("partner", "offer"),
                condition=~Q(status__in=[status.value for status in NOT_LIVE]),
                name="one_live_proposal_per_offer",
            )
        ]
        indexes = [
            models.Index(fields=("partner", "-created_at", "-id"), name="proposal_newest"),
            models.Index(fields=("native_id",), name="proposal_native"),
            models.Index(fields=("request_id",), name="proposal_request"),
            models.Index(fields=("partner", "cpf_index"), name="proposal_holder"),
            models.Index(fields=("-created_at", "-id"), name="proposal_newest_of_all"),
            models.Index(fields=("cpf_index",), name="proposal_holder_of_all"),
            models.Index(
                fields=("next_reconcile_at",),
                name="proposal_unsettled",
                condition=Q(next_reconcile_at__isnull=False),
            ),
            models.Index(
                fields=("provider", "next_refresh_at"),
                name="proposal_due",
                condition=Q(next_refresh_at__isnull=False),
            ),
            models.Index(
                fields=("updated_at",),
                name="proposal_never_accepted",
                condition=Q(submission__in=NEVER_ACCEPTED),
            ),
        ]

    @classmethod
    @contextmanager
    def locked(cls, proposal_id: uuid.UUID) -> Iterator[Proposal]:
        """The row, as it is now and nobody else's until the end, when what was changed on it is saved. `updated_at`
        is the partner's: when to look next is none of it."""
        with transaction.atomic():
            proposal = cls.objects.select_for_update(of=("self",)).select_related("partner").get(pk=proposal_id)
            before = copy.deepcopy(proposal._values())  # a value changed in its place differs too
            yield proposal
            proposal.save(update_fields=["next_refresh_at"] if proposal._values() == before else None)

    @classmethod
    def of(cls, partner: Partner) -> models.QuerySet[Proposal]:
        """What `partner` may see: its own proposals, at banks of its contract, that the bank took or refused."""
        allowed = [bank.name for bank in partner.allowed_banks()]
        answered = (cls.Submission.ACCEPTED, cls.Submission.REFUSED)
        return cls.objects.filter(partner=partner, provider__in=allowed, submission__in=answered)

    @property
    def is_final(self) -> bool:
        """Whether the status can't change any more."""
        return self.status not in MOVES

    def _values(self) -> dict[str, Any]:
        """All that is stored of it, `next_refresh_at` aside."""
        names = {field.attname for field in self._meta.concrete_fields} - {"next_refresh_at"}
        return {name: getattr(self, name) for name in names}

    def accept(self, found: BankProposal, cause: Cause) -> None:
        """The bank has it. Inside `locked`; whatever the row believed before, the bank's word counts."""
        if self.submission == self.Submission.ACCEPTED:
            if found.native_id != self.native_id:
                log.error("proposal_has_two_contracts", proposal=str(self.pk), bank=self.provider)
            return
        if self.submission == self.Submission.REFUSED:
            log.error("proposal_accepted_after_refusal", proposal=str(self.pk), bank=self.provider)
            return
        now = timezone.now()
        self.submission = self.Submission.ACCEPTED
        self.native_id = found.native_id
        self.lease_until = self.next_reconcile_at = self.next_dataset = None
        Offer.objects.filter(pk=self.offer_id).update(live_proposal_id=self.pk, live_proposal_since=now)
        self._record("", ProposalStatus.CREATED, cause, found.native_status)
        self.absorb(found, cause)

    def refuse(self, error: ApiError) -> None:
        """The bank said no to the submission, or knows the offer no longer (OfferExpired). Inside `locked`."""
        self.submission = self.Submission.REFUSED
        self.error = error.as_dict()
        self.lease_until = self.next_reconcile_at = None
        self._record("", ProposalStatus.CREATED, Cause.SUBMIT, "")
        if is_expired := isinstance(error, OfferExpired):
            Offer.objects.filter(pk=self.offer_id).update(expired_at=timezone.now())
        end = ProposalStatus.EXPIRED if is_expired else ProposalStatus.REJECTED
        self.move(end, Cause.SUBMIT, why=reasons.of_refusal(self.provider, error))

    def absorb(self, found: BankProposal, cause: Cause) -> None:
        """Take over how the bank says that the proposal stands. Inside `locked`."""
        self.error = None
        # A look that was asked before the last move may be answered after it; nobody would look again.
        if not self.is_final:
            self.native_status = found.native_status[:60]
            self.data = {**self.data, **found.data}
            if found.signature_url:
                # Some banks tell the expiry of a link only once: a later look without one keeps the earlier.
                if found.signature_expires_at or found.signature_url != self.signature_url:
                    self.signature_expires_at = found.signature_expires_at
                self.signature_url = found.signature_url
        if found.status is not None:
            self.move(found.status, cause, found.native_status)
        self.plan_refresh()

    def move(self, status: ProposalStatus, cause: Cause, native_word: str = "", *, why: Reason | None = None) -> None:
        """Bring the status to `status`: the one place where it changes. Inside `locked`.

        Each step on the way is kept and told to the partner, an end with its reason: `why`, else what the move tells.
        A status that lies behind changes nothing.
        """
        steps = way(ProposalStatus(self.status), status)
        if steps is None:
            log.warning(
                "proposal_status_kept",
                proposal=str(self.pk),
                bank=self.provider,
                status=self.status,
                word=native_word[:60],
            )
            return
        for step in steps:
            previous, self.status = self.status, step.value
            found = why or reasons.of_move(previous, step, by_partner=cause == Cause.CANCEL, word=native_word)
            if found and step in NOT_LIVE:
                self.reason = found.as_dict()
            self._record(previous, step, cause, native_word)
        if self.status in NOT_LIVE:
            freed = Offer.objects.filter(pk=self.offer_id, live_proposal_id=self.pk)
            freed.update(live_proposal_id=None, live_proposal_since=None)

    def _record(self, previous: str, status: ProposalStatus, cause: Cause, native_word: str) -> None:
        self.moved_at = timezone.now()
        Move.objects.create(
            proposal=self,
            from_status=previous,
            to_status=status.value,
            cause=cause,
            native_word=native_word[:60],
            at=self.moved_at,
        )
        payload = {
            "provider": self.provider,
            "status": status.value,
            "previous_status": previous or None,
            "reason": self.reason if status in NOT_LIVE else None,
        }
        outbox.send(self.partner, f"proposal.{status.value}", str(self.pk), payload)

    def plan_refresh(self) -> None:
        """When to ask the bank next: soon after a move, ever more seldom after that, never once it is final."""
        now = timezone.now()
        wait = max(SOONEST_REFRESH, min(SLOWEST_REFRESH, (now - self.moved_at) / 10))
        self.next_refresh_at = None if self.is_final else now + wait

    def usable_link(self) -> str | None:
        """The signature link, while the contract awaits the signature and the link has not expired."""
        usable = self.signature_expires_at is None or self.signature_expires_at > timezone.now()
        awaited = self.status == ProposalStatus.AWAITING_SIGNATURE
        return self.signature_url if awaited and usable else None


class Move(models.Model):
    """One change of a proposal's status. `from_status` is empty for the first one."""

    proposal = models.ForeignKey(Proposal, models.CASCADE, related_name="moves", verbose_name="proposta")
    from_status = models.CharField("de", max_length=20, blank=True)
    to_status = models.CharField("para", max_length=20)
    cause = models.CharField("causa", max_length=10, choices=Cause.choices)
    native_word = models.CharField("palavra do banco", max_length=60, blank=True)
    at = models.DateTimeField("quando", default=timezone.now)

    class Meta:
        verbose_name = "mudança"
        verbose_name_plural = "mudanças"
        ordering = ("at", "pk")
        indexes = [models.Index(fields=("at",), name="move_at")]

    def __str__(self) -> str:
        return f"{self.from_status} → {self.to_status}"


class BankCall(models.Model):
    """One call to the bank about a proposal, looks at its status aside: what the operator's timeline shows, and
    how a request of the partner travels to the worker and back, since neither its argument nor a bank's words
    may pass through the broker. `outcome` is `ok`, `not_found`, an error's code, or empty while nothing is known.
    """

    class Operation(models.TextChoices):
        SUBMIT = "submit", "envio"
        FIND = "find", "busca pela referência"
        FORMALIZE = "formalize", "formalização"
        STATUS = "status", "consulta de situação"
        CANCEL = "cancel", "cancelamento"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    proposal = models.ForeignKey(Proposal, models.CASCADE, related_name="calls", verbose_name="proposta")
    operation = models.CharField("operação", max_length=10, choices=Operation.choices)
    argument = EncryptedTextField(null=True)
    error = EncryptedJSONField(null=True)
    outcome = models.CharField("resultado", max_length=40, blank=True)
    ms = models.PositiveIntegerField("duração (ms)", null=True)
    request_id = models.CharField("id da requisição", max_length=128)
    at = models.DateTimeField("quando", default=timezone.now)
    taken_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "chamada ao banco"
        verbose_name_plural = "chamadas ao banco"
        ordering = ("at",)
        indexes = [models.Index(fields=("request_id",), name="bankcall_request")]

    def __str__(self) -> str:
        return f"{self.operation} {self.outcome or 'sem resposta'}"


class Erasure(models.Model):
    """One erasure of a holder's data, for who has to show that it was done. The CPF is not in it: `cpf_index` is
    its keyed hash, by which the row is found again."""

    cpf_index = models.CharField("hash do CPF", max_length=64, db_index=True)
    by = models.CharField("feito por", max_length=150)
    at = models.DateTimeField("quando", default=timezone.now)
    erased = models.JSONField("apagados")
    kept = models.JSONField("mantidos como prova")
    left = models.JSONField("deixados para repetir")

    class Meta:
        verbose_name = "exclusão de dados"
        verbose_name_plural = "exclusões de dados"
        ordering = ("-at",)
        default_permissions = ("view",)
        permissions = [("erase_holder", "Pode apagar os dados de um titular")]

    def __str__(self) -> str:
        return f"exclusão {self.pk}"
