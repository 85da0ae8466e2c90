"""A proposal at a bank with every change of its state; and the erasures of holders' data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone

from consultas.models import Offer
from foundation.database import outlasts_restart
from foundation.later import released
from partners.models import Partner
from proposals import reasons
from proposals.attempts import NEVER_ACCEPTED, next_look
from proposals.envelope import Told, event
from proposals.killpoints import die_at
from proposals.statuses import NOT_LIVE, STAGES, WITHDRAWN, moves_between
from proposals.trail import BankCall, Cause, Move
from providers import registry
from providers.errors import OfferExpired, ProviderRejected, ProviderUnavailable, native_code
from providers.reasons import Reason, ReasonCode
from providers.types.proposal import BankProposal, ProposalStatus, Stage, StageReport
from webhooks import outbox

__all__ = ["BankCall", "Cause", "Erasure", "ErasureRequest", "Move", "Proposal"]

log = structlog.get_logger(__name__)

SOONEST_REFRESH = timedelta(seconds=10)
SLOWEST_REFRESH = timedelta(minutes=10)
SLOWEST_WATCH = timedelta(hours=6)


class Proposal(Told):
    """One proposal at one bank, made from one offer. Partners see proposals that the bank accepted, refused or may
    have. Every change of a row is a method, which stores it under the row's lock or a condition."""

    task = "proposals.sweep.check_due"
    _changed: frozenset[str] = frozenset()

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
            models.Index(fields=("partner", "status", "-created_at", "-id"), name="proposal_by_status"),
            models.Index(fields=("partner", "provider", "-created_at", "-id"), name="proposal_by_bank"),
            models.Index(fields=("partner", "updated_at"), name="proposal_by_change"),
            models.Index(
                fields=("partner_reference", "partner", "-created_at", "-id"),
                name="proposal_by_own_name",
                condition=Q(partner_reference__gt=""),
            ),
            models.Index(fields=("native_id",), name="proposal_native"),
            models.Index(fields=("contract_number",), name="proposal_contract", condition=Q(contract_number__gt="")),
            models.Index(fields=("request_id",), name="proposal_request"),
            models.Index(fields=("partner", "cpf_index"), name="proposal_holder"),
            models.Index(fields=("-created_at", "-id"), name="proposal_newest_of_all"),
            models.Index(fields=("cpf_index",), name="proposal_holder_of_all"),
            # Submissions that the bank does not have, or may not have: few of all rows.
            models.Index(
                fields=("-created_at", "-id"),
                name="proposal_not_accepted",
                condition=~Q(submission="accepted"),
            ),
            models.Index(
                fields=("due_at",),
                name="proposal_due",
                condition=Q(due_at__isnull=False),
            ),
            models.Index(
                fields=("updated_at",),
                name="proposal_never_accepted",
                condition=Q(submission__in=NEVER_ACCEPTED),
            ),
            # The paid proposals whose holders withdrew: few of all rows.
            models.Index(
                fields=("-created_at", "-id"),
                name="proposal_withdrawn",
                condition=Q(withdrawn_at__isnull=False),
            ),
            models.Index(fields=("origin_query_id",), name="proposal_origin"),
        ]

    @classmethod
    def of(cls, partner: Partner) -> models.QuerySet[Proposal]:
        """The proposals that `partner` may see: its own at its contract's banks, accepted, refused or unknown."""
        allowed = [bank.name for bank in partner.allowed_banks()]
        answered = (cls.Submission.ACCEPTED, cls.Submission.REFUSED)
        visible = Q(submission__in=answered) | cls.is_unknown()
        return cls.objects.filter(visible, partner=partner, provider__in=allowed)

    @classmethod
    def is_unknown(cls) -> Q:
        """The condition of a submission that may have reached the bank, as far as anybody knows."""
        return Q(submission=cls.Submission.UNKNOWN) | Q(submission=cls.Submission.SENDING, sent_until__isnull=False)

    def was_found(self) -> bool:
        """True if the bank had the proposal already, under our reference, when it was asked."""
        return self.moves.filter(from_status="").exclude(cause=Cause.SUBMIT).exists()

    # --- What a bank answers to a submission --------------------------------------------------------------------

    @outlasts_restart
    def adopt(self, reported: BankProposal, cause: Cause) -> None:
        """ACCEPTED: the bank has the proposal as `reported`. This counts regardless of who asked for it, for which
        attempt and how late. Only a refusal prevents it."""
        with self._locked() as row:
            row._accept(reported, cause)
            die_at("before_settle")

    def _accept(self, reported: BankProposal, cause: Cause) -> None:
        if self.submission == self.Submission.ACCEPTED:
            if reported.native_id != self.native_id:
                log.error("proposal_has_two_contracts", proposal=str(self.pk), bank=self.provider)
            return
        if self.submission == self.Submission.REFUSED:
            log.error("proposal_accepted_after_refusal", proposal=str(self.pk), bank=self.provider)
            return
        self._change(
            submission=self.Submission.ACCEPTED,
            native_id=reported.native_id,
            next_dataset=None,
            **released(None),
        )
        Offer.objects.filter(pk=self.offer_id).update(live_proposal_id=self.pk, live_proposal_since=timezone.now())
        self._keep(reported)
        self._record("", ProposalStatus.CREATED, cause, reported)
        self._take_over(reported, cause)
        self.plan_refresh()

    @outlasts_restart
    def refuse(self, error: ProviderRejected | OfferExpired) -> None:
        """REFUSED: the bank refused this attempt, or no longer knows its offer. While an earlier attempt may still
        arrive and be accepted, the row is UNKNOWN instead: the refusal is shown now, and takes effect once the bank's
        "not found" is final."""
        with self._locked() as row:
            if row.attempts != self.attempts or row.submission != self.Submission.SENDING:
                return
            kept = {**error.as_dict(), "native_code": native_code(error)}
            if self.sent_until is None:
                row._end_as_refused(kept)
            else:
                row._change(
                    submission=self.Submission.UNKNOWN,
                    sent_until=self.sent_until,
                    error=kept,
                    **released(next_look(row.reconciles)),
                )
            die_at("before_settle")

    def settle_as_not_arrived(self) -> None:
        """After the bank's final "not found" for a submission of UNKNOWN outcome: REFUSED if the bank refused the last
        attempt, otherwise NOT_SENT."""
        with self._locked() as row:
            if row.attempts != self.attempts or row.submission != self.Submission.UNKNOWN:
                return
            if row.error:
                row._end_as_refused(row.error)
            else:
                row._change(submission=self.Submission.NOT_SENT, **released(None))

    def _end_as_refused(self, error: Mapping[str, Any]) -> None:
        self._change(submission=self.Submission.REFUSED, error=error, **released(None))
        self._record("", ProposalStatus.CREATED, Cause.SUBMIT)
        if is_expired := error["code"] == OfferExpired.code:
            Offer.objects.filter(pk=self.offer_id).update(expired_at=timezone.now())
        end = ProposalStatus.EXPIRED if is_expired else ProposalStatus.REJECTED
        self._move(end, Cause.SUBMIT, why=reasons.of_refusal(self.provider, error))

    # --- Reports of a bank about a proposal that it accepted ----------------------------------------------------

    def claim_look(self, every: timedelta) -> bool:
        """Record that this request asks the bank for the status. Returns False if another did within `every`."""
        now = timezone.now()
        if self.last_status_at is not None and self.last_status_at >= now - every:
            return False
        not_lately = Q(last_status_at__isnull=True) | Q(last_status_at__lt=now - every)
        return bool(Proposal.objects.filter(not_lately, pk=self.pk).update(last_status_at=now))

    @outlasts_restart
    def absorb(self, reported: BankProposal, cause: Cause, *, channel: str | None = None) -> None:
        """Store the bank's report. `channel` is the one by which the bank was asked to deliver the URL, or None."""
        with self._locked() as row:
            if channel:
                row._change(channel=channel)
            row._take_over(reported, cause)
            row.plan_refresh(self)

    def mark_unanswered(self, cause: Cause) -> None:
        """The bank did not report the status. Shows the error to a partner who asked, and schedules a later check."""
        with self._locked() as row:
            if cause == Cause.STATUS and not row.is_final:
                row._change(error=ProviderUnavailable().as_dict())
            row.plan_refresh(self)

    @outlasts_restart
    def hasten_refresh(self) -> None:
        """Have a proposal that the service still follows checked by the next sweep."""
        Proposal.hasten(Proposal.objects.filter(pk=self.pk, due_at__isnull=False))

    def plan_refresh(self, asked: Proposal | None = None) -> None:
        """Schedule the next status check: soon after a move, then less and less often. After the payment only while the
        holder may withdraw, and after another end never. `asked` is the row as it was before the bank was asked: a row
        that something made due since then stays due."""
        now = timezone.now()
        age, due_at = now - self.moved_at, None
        if not self.is_final:
            due_at = now + max(SOONEST_REFRESH, min(SLOWEST_REFRESH, age / 10))
        elif self.is_watched(age):
            due_at = now + max(settings.WITHDRAWAL_WATCH_EVERY, min(SLOWEST_WATCH, age / 30))
        if due_at and asked and self.due_at and self.due_at != asked.due_at and self.due_at <= now:
            due_at = self.due_at
        self._change(**released(due_at))

    def is_watched(self, age: timedelta) -> bool:
        """True if the bank may still tell that the holder withdrew, `age` after the payment."""
        bank = registry.get(self.provider)
        may_tell = self.status == ProposalStatus.DISBURSED and bool(bank and bank.tells_withdrawals)
        return may_tell and not self.withdrawn_at and age < timedelta(days=settings.WITHDRAWAL_WATCH_DAYS)

    def _take_over(self, reported: BankProposal, cause: Cause) -> None:
        self._change(error=None)
        # After the end, the answer to a check that began before it could bring back earlier values.
        if not self.is_final:
            self._keep(reported)
        if reported.status is not None:
            self._move(reported.status, cause, reported, why=reasons.of_refused(self.provider, reported))
        if self._enter_stage(reported.stage):
            self._send("proposal.stage_changed")
        if self.status == ProposalStatus.DISBURSED:
            self._take_withdrawal(reported, cause)

    def _take_withdrawal(self, reported: BankProposal, cause: Cause) -> None:
        """Store until when the holder may withdraw from the paid contract, and that it happened. The status stays."""
        self._change(withdrawal_until=reported.withdrawal_until or self.withdrawal_until)
        if reported.withdrawn_at and not self.withdrawn_at:
            self._change(withdrawn_at=reported.withdrawn_at, reason=Reason.of(ReasonCode.WITHDRAWN).as_dict())
            self._note_move(self.status, WITHDRAWN, cause, reported.native_status)
            self._send("proposal.withdrawn")

    def _keep(self, reported: BankProposal) -> None:
        """Store the report's values except the status. Earlier values that it does not repeat stay."""
        self._change(
            native_status=reported.native_status[:60],
            data={**self.data, **reported.data},
            **{name: getattr(reported, name) or getattr(self, name) for name in self.KEPT},
        )
        if reported.signature_url:
            # Some banks give the URL's expiry only once: a later report without it keeps the earlier one.
            if reported.signature_expires_at or reported.signature_url != self.signature_url:
                self._change(signature_expires_at=reported.signature_expires_at)
            self._change(signature_url=reported.signature_url)

    # --- Statuses -----------------------------------------------------------------------------------------------

    def _move(
        self, status: ProposalStatus, cause: Cause, reported: BankProposal | None = None, *, why: Reason | None = None
    ) -> None:
        """Change the status to `status`, which the bank `reported`, or None if it refused the submission: the only
        place where the status changes. Call inside `_locked`. Each status on the way is stored and sent to the partner
        as an event. An end has a reason: `why`, or the move's own. A status that lies behind changes nothing."""
        steps = moves_between(ProposalStatus(self.status), status)
        native_word = reported.native_status if reported else ""
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
            previous = self.status
            reason = why or reasons.of_move(previous, step, by_partner=cause == Cause.CANCEL, word=native_word)
            if reason and step in NOT_LIVE:
                self._change(reason=reason.as_dict())
            self._record(previous, step, cause, reported)
        if self.status in NOT_LIVE:
            freed = Offer.objects.filter(pk=self.offer_id, live_proposal_id=self.pk)
            freed.update(live_proposal_id=None, live_proposal_since=None)

    def _record(
        self, previous: str, status: ProposalStatus, cause: Cause, reported: BankProposal | None = None
    ) -> None:
        """Store the move from `previous` (empty for the first one) to `status`, and the events about it."""
        self._change(status=status.value, moved_at=timezone.now())
        is_new_stage = self._enter_stage(reported.stage if reported else None)
        self._note_move(previous, status.value, cause, reported.native_status if reported else "")
        self._send(f"proposal.{status.value}", previous)
        if is_new_stage:
            self._send("proposal.stage_changed")

    def _note_move(self, before: str, after: str, cause: Cause, native_word: str) -> None:
        Move.objects.create(
            proposal=self,
            from_status=before,
            to_status=after,
            cause=cause,
            native_word=native_word[:60],
            reason=self.reason,
        )

    def _send(self, name: str, previous: str = "") -> None:
        """Send the partner the event `name` about the row as it is now, which was in the status `previous` before."""
        outbox.send(self.partner, name, str(self.pk), event(self, previous))

    def _enter_stage(self, told: StageReport | None) -> bool:
        """Set the stage of the present status, and why it lasts, as the bank `told` them; what it does not repeat
        stays. A stage that lies behind changes nothing, because the answers to two checks may come in the wrong order.
        Returns True at a new stage and at a new reason."""
        possible = STAGES.get(self.status, ())
        if told is None or told.stage not in possible:
            if self.stage in possible:
                return False
            told = StageReport(possible[0]) if len(possible) == 1 else None
        elif self.stage in possible and possible.index(told.stage) < possible.index(Stage(self.stage)):
            return False
        if told is None:
            self._change(stage="", stage_since=None, stage_reason=None)
            return False
        before, reason_before = self.stage, self.stage_reason
        reason = reasons.of_stage(self.provider, told)
        self._change(
            stage=told.stage.value,
            stage_since=told.since or (self.stage_since if told.stage == before else timezone.now()),
            stage_reason=reason and reason.as_dict(),
        )
        return self.stage != before or self.stage_reason not in (None, reason_before)

    @contextmanager
    def _locked(self) -> Iterator[Proposal]:
        """The row, read again and locked until the end of the context, when the columns set by `_change` are stored.
        `updated_at` tells the partner that something changed, the time of the next check aside."""
        with transaction.atomic():
            row = Proposal.objects.select_for_update(of=("self",)).select_related("partner").get(pk=self.pk)
            yield row
            if row._changed:
                is_news = not row._changed <= released(None).keys()
                row.save(update_fields=[*row._changed, *(["updated_at"] if is_news else [])])

    def _change(self, **columns: Any) -> None:
        """Set the columns, and remember those whose value differs."""
        for name, value in columns.items():
            if getattr(self, name) != value:
                setattr(self, name, value)
                self._changed |= {name}


class Erasure(models.Model):
    """A record that one holder's data were erased. `cpf_index` is the CPF's keyed hash; the CPF is not stored."""

    cpf_index = models.CharField("hash do CPF", max_length=64, db_index=True)
    #: The keyed hash by which the events about the holder are found.
    event_index = models.CharField(max_length=64, editable=False)
    by = models.CharField("feito por", max_length=150)
    at = models.DateTimeField("quando", default=timezone.now)
    erased = models.JSONField("apagados")
    kept = models.JSONField("mantidos como prova")
    left = models.JSONField("deixados para repetir")
    #: Names of the partners that had rows of the holder. None: erased before this was stored.
    partners = models.JSONField("parceiros a avisar", null=True)

    class Meta:
        verbose_name = "exclusão de dados"
        verbose_name_plural = "exclusões de dados"
        ordering = ("-at",)
        default_permissions = ("view",)
        permissions = [("erase_holder", "Pode apagar os dados de um titular")]

    def __str__(self) -> str:
        return f"exclusão {self.pk}"


class ErasureRequest(models.Model):
    """A request to erase a holder, without the CPF: who confirms types it again. `erasure` is set once done."""

    #: A request that is not confirmed within this time must be made again.
    VALID = timedelta(days=7)

    cpf_index = models.CharField("hash do CPF", max_length=64, db_index=True)
    asked_by = models.CharField("pedido por", max_length=150)
    asked_at = models.DateTimeField("pedido em", default=timezone.now)
    erasure = models.OneToOneField(
        Erasure, models.PROTECT, null=True, related_name="asked", verbose_name="exclusão feita"
    )

    class Meta:
        verbose_name = "pedido de exclusão"
        verbose_name_plural = "pedidos de exclusão"
        ordering = ("-asked_at",)
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"pedido {self.pk}"

    @property
    def is_waiting(self) -> bool:
        """True while another person may confirm the request."""
        return self.erasure_id is None and self.asked_at > timezone.now() - self.VALID
