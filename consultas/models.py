"""Queries with the banks' answers, offers, and the external steps that holders owe banks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import msgspec
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from foundation.encryption import EncryptedJSONField, EncryptedTextField, sealed
from foundation.errors import NotFound
from foundation.formats import to_uuid
from foundation.later import Leased
from partners.models import Partner
from providers.errors import BankFailure, BankTimedOut
from providers.price import CetSource
from providers.reasons import OperatorCode, Reason, ReasonCode, ReasonSource
from providers.types.query import (
    ActionType,
    BankAction,
    BankOffer,
    BankQuery,
    BankResult,
    Employment,
    QueryStatus,
    StepOutcome,
)

#: The assumed term in months, if an amount or an installment is requested without one.
ASSUMED_TERM = 48
#: How long a query waits for a worker before its task counts as lost.
LOST_AFTER = timedelta(seconds=5)
#: How long after its deadline a query may be unfinished: until then the worker or the waiting web process ends it.
LATE = timedelta(seconds=1.5)
#: A query that no worker took for this long asked no bank.
UNTAKEN = timedelta(seconds=10)
#: A query that needs no worker, because it repeats another, ends sooner. One whose task cannot be published ends later.
REPEATED_WITHIN = timedelta(seconds=3)


@dataclass(frozen=True)
class Answer:
    """One bank's answer, or its failure. `reached` is False for an infrastructure failure: the bank was unreachable,
    timed out, answered 5xx or unreadably. `answered_at` is seconds since the epoch. `reasons` are the bank's sentences
    for having no offer. `coded` are the reasons as data, also for a failure or a refusal. `operator_code` is
    set if operators read another code than partners, `operator_words` if they read more."""

    provider: str
    status: QueryStatus
    elapsed_ms: int
    answered_at: float
    reached: bool = True
    offers: tuple[BankOffer, ...] = ()
    employments: tuple[Employment, ...] = ()
    action: BankAction | None = None
    reasons: tuple[str, ...] = ()
    coded: tuple[Reason, ...] = ()
    error: str | None = None
    term_auto_authorized: bool = False
    operator_code: OperatorCode | None = None
    operator_words: str = ""

    @property
    def is_reusable(self) -> bool:
        """True if a repeated query may reuse this answer while it is recent."""
        return self.status in (QueryStatus.OK, QueryStatus.NO_OFFERS)


#: The fields that a bank's result and an answer share.
_SHARED = [each.name for each in fields(BankResult) if each.name in {mine.name for mine in fields(Answer)}]


def answered(bank: str, result: BankResult, coded: Sequence[Reason], elapsed_s: float) -> Answer:
    """The answer with the bank's `result` and its reasons as data, which came after `elapsed_s` seconds."""
    return _answer(bank, elapsed_s, coded=tuple(coded), **{name: getattr(result, name) for name in _SHARED})


def refused(bank: str, message: str, why: Reason, elapsed_s: float) -> Answer:
    return _answer(bank, elapsed_s, status=QueryStatus.ERROR, error=message, coded=(why,))


def failed(bank: str, error: BankFailure, elapsed_s: float) -> Answer:
    """The answer for a bank that failed, `elapsed_s` seconds after it was asked."""
    answer = refused(bank, error.message, error.reason, elapsed_s)
    return replace(answer, reached=False, operator_code=error.operator_code, operator_words=error.operator_words)


def _answer(bank: str, elapsed_s: float, **told: Any) -> Answer:
    return Answer(provider=bank, elapsed_ms=round(elapsed_s * 1000), answered_at=time.time(), **told)


class Query(Leased):
    """One call of a query route. The holder's data and the banks' answers are encrypted.

    `request` is the `BankQuery` that every bank gets. `portfolios` holds the contract's portfolio per bank.
    `fingerprint` is equal for identical parameterless queries of the aggregated route, and empty for others.
    `simulation_group` is set if offers were stored. Before `finished_at`, `answers` holds only those that a repeated
    query reuses: the banks' new answers are kept in Redis and stored once, at the end (consultas/query/end.py).
    `partner_reference` is the partner's own name of the query, or empty. `follows` is the identical query that was
    running when this one came; it asks the banks for both.

    A worker holds a query by a lease until just after the deadline, and `takes` counts the workers that took it. A
    query is due while it has not ended and nobody holds it: some seconds after it was stored, because its task may be
    lost, and again if its worker dies.
    """

    task = "consultas.query.end.take_over"

    class Kind(models.TextChoices):
        AGGREGATED = "aggregated", "agregada"
        STREAM = "stream", "em fluxo"
        INDIVIDUAL = "individual", "individual"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    partner = models.ForeignKey(Partner, models.PROTECT, related_name="queries", verbose_name="parceiro")
    kind = models.CharField("tipo", max_length=10, choices=Kind.choices)
    cpf_index = models.CharField(max_length=64)
    request = EncryptedJSONField("dados")
    banks = models.JSONField("bancos", default=list)
    portfolios = models.JSONField("carteiras", default=dict)
    fingerprint = models.CharField(max_length=64, blank=True)
    authorization_id = models.CharField("sessão de autorização", max_length=64, blank=True)
    evidence_number = models.BigIntegerField("evidência", null=True)
    answers = EncryptedJSONField("respostas", null=True)
    simulation_group = models.UUIDField("grupo de simulação", null=True)
    request_id = models.CharField("id da requisição", max_length=128)
    partner_reference = models.CharField("referência do parceiro", max_length=64, blank=True, default="", db_default="")
    created_at = models.DateTimeField("criada em", default=timezone.now)
    deadline_at = models.DateTimeField("prazo")
    finished_at = models.DateTimeField("concluída em", null=True)
    follows = models.UUIDField("acompanha a consulta", null=True, editable=False)
    takes = models.PositiveSmallIntegerField(default=0, editable=False)

    class Meta:
        verbose_name = "consulta"
        verbose_name_plural = "consultas"
        ordering = ("-created_at",)
        indexes = [
            models.Index(
                fields=("fingerprint", "-created_at"),
                name="query_repeats",
                condition=~models.Q(fingerprint=""),
            ),
            models.Index(fields=("-created_at",), name="query_newest"),
            models.Index(fields=("cpf_index",), name="query_holder"),
            models.Index(fields=("request_id",), name="query_request"),
            models.Index(
                fields=("partner_reference", "-created_at"),
                name="query_by_own_name",
                condition=models.Q(partner_reference__gt=""),
            ),
            models.Index(fields=("due_at",), name="query_due", condition=models.Q(due_at__isnull=False)),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=("fingerprint",),
                name="one_identical_query_runs",
                condition=models.Q(finished_at=None) & ~models.Q(fingerprint=""),
            )
        ]

    def __str__(self) -> str:
        return str(self.id)

    @classmethod
    def of(cls, partner: Partner, query_id: str) -> Query:
        """The partner's query with this id. Raises NotFound, also for another's, and for one of an erased holder."""
        query = cls.objects.filter(partner=partner, pk=to_uuid(query_id)).first()
        if query is None or (query.finished_at is not None and query.answers is None):
            raise NotFound
        query.partner = partner
        return query

    def seconds_left(self) -> float:
        """Seconds until the deadline; negative after it."""
        return (self.deadline_at - timezone.now()).total_seconds()

    @property
    def source(self) -> uuid.UUID:
        """The query that asks the banks for this one: the one that it follows, or itself."""
        return self.follows or self.id

    def follow(self, running: Query) -> None:
        """Before the row is stored: leave the banks to the identical query `running`, whose group of offers this one
        shares. This one is due if nobody ended it at its deadline."""
        self.follows, self.simulation_group = running.pk, running.simulation_group
        self.fingerprint, self.due_at = "", self.deadline_at + LATE

    def reuse(self, answers: list[dict[str, Any]], group: uuid.UUID | None) -> None:
        """Keep `answers` of an identical query, and its group of offers, so that a worker asks the other banks only."""
        self.answers, self.simulation_group = answers, group
        kept = sealed(self, "answers", answers)
        Query.objects.filter(pk=self.pk, finished_at=None).update(answers=kept, simulation_group=group)

    def stored_answers(self) -> list[Answer]:
        """The answers in the row: all of them once the query has ended; before that, those that it reuses."""
        return msgspec.convert(self.answers or [], list[Answer])

    def is_untaken(self) -> bool:
        """True if no worker took the query in time, nor the one that it follows. One that repeats another needs none.
        The row has to be read with `taken`: TAKEN."""
        if vars(self)["taken"]:
            return False
        if self.finished_at is None:
            return timezone.now() - self.created_at > UNTAKEN
        is_late = self.finished_at - self.created_at > REPEATED_WITHIN
        return is_late or any(not answer.reached for answer in self.stored_answers())

    def timed_out(self, banks: Collection[str]) -> dict[str, Answer]:
        """A time-out of each of these banks. The service's own if no worker took the query: then nobody asked a
        bank."""
        elapsed_s = (timezone.now() - self.created_at).total_seconds()
        is_row_new = self.lease_until is not None and self.follows is None  # a web process has it from before
        is_asked = self.takes or (not is_row_new and Query.objects.filter(pk=self.source, takes__gt=0).exists())
        why = Reason.of(ReasonCode.TIMEOUT, source=None if is_asked else ReasonSource.SERVICE)
        return {bank: replace(failed(bank, BankTimedOut(), elapsed_s), coded=(why,)) for bank in banks}

    def is_left_over(self) -> bool:
        """True if nobody has ended the query although its time is over, or the query that it follows has ended."""
        leader = Query.objects.filter(pk=self.source, finished_at__isnull=False)
        is_over = self.seconds_left() < -LATE.total_seconds()
        return self.finished_at is None and (is_over or (self.follows is not None and leader.exists()))

    @cached_property
    def holder(self) -> BankQuery:
        """The holder's data and the request, the same for every bank."""
        return msgspec.convert(self.request, BankQuery)

    def for_bank(self, bank: str) -> BankQuery:
        """`holder` completed for `bank`: with the portfolio that the contract fixes or allows, the term if only an
        amount was requested, and the time at which the holder's authorization was presented."""
        query = self.holder
        by_value = query.loan_value is not None or query.installment_value is not None
        return replace(
            query,
            portfolio=self.portfolios.get(bank),
            installments=query.installments or (ASSUMED_TERM if by_value else None),
            accepted_at=query.accepted_at or self.created_at,
        )


#: How many workers took a query, or the one that it follows.
TAKEN = Coalesce(Subquery(Query.objects.filter(pk=OuterRef("follows")).values("takes")), F("takes"))


class Offer(models.Model):
    """An offer that a partner may submit. `id` is the contract's `offerId`.

    `identity` is a keyed hash of what identifies an offer: CPF, bank, employment, table, term, amounts, rate and
    insurance. A repeated query finds the row again and updates `native`, the bank's identifiers. `earlier_native_ids`
    are the previous values of `native_offer_id`, newest last; partners may still use them.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    partner = models.ForeignKey(Partner, models.PROTECT, related_name="offers", verbose_name="parceiro", db_index=False)
    query = models.ForeignKey(Query, models.PROTECT, related_name="offers", verbose_name="última consulta")
    provider = models.CharField("banco", max_length=40)
    cpf_index = models.CharField(max_length=64)
    identity = models.CharField(max_length=64)
    native_offer_id = models.CharField("id no banco", max_length=200)
    earlier_native_ids = ArrayField(
        models.CharField(max_length=200), verbose_name="ids anteriores no banco", default=list, db_default=[]
    )
    loan_value = models.DecimalField("valor", max_digits=14, decimal_places=2)
    installment_value = models.DecimalField("parcela", max_digits=14, decimal_places=2)
    installments = models.PositiveSmallIntegerField("parcelas")
    interest_rate = models.DecimalField("taxa ao mês (%)", max_digits=10, decimal_places=6)
    total_amount = models.DecimalField("total", max_digits=14, decimal_places=2)
    table_code = models.CharField("tabela", max_length=60)
    with_insurance = models.BooleanField("com seguro")
    first_due_date = models.DateField("primeiro vencimento", null=True)
    employer_cnpj = models.CharField("CNPJ do empregador", max_length=14)
    employer_name = models.CharField("empregador", max_length=200)
    registration = models.CharField("matrícula", max_length=60)
    native = models.JSONField("dados do banco", default=dict)
    cet_monthly = models.DecimalField("CET ao mês (%)", max_digits=10, decimal_places=6, null=True)
    cet_annual = models.DecimalField("CET ao ano (%)", max_digits=8, decimal_places=2, null=True)
    cet_source = models.CharField("origem do CET", max_length=8, null=True)
    iof = models.DecimalField("IOF", max_digits=14, decimal_places=2, null=True)
    insurance_value = models.DecimalField("seguro", max_digits=14, decimal_places=2, null=True)
    quoted_at = models.DateTimeField("cotada em", default=timezone.now)
    valid_until = models.DateTimeField("válida até", null=True)
    created_at = models.DateTimeField("criada em", default=timezone.now)
    refreshed_at = models.DateTimeField("atualizada em", default=timezone.now)
    # The live proposal made from this offer. `proposals` writes this column, because `consultas` may not import it.
    live_proposal_id = models.UUIDField("proposta em andamento", null=True)
    live_proposal_since = models.DateTimeField(null=True)
    # Also written by `proposals`: when the bank said that it no longer knows the offer.
    expired_at = models.DateTimeField("vencida no banco em", null=True)

    class Meta:
        verbose_name = "oferta"
        verbose_name_plural = "ofertas"
        ordering = ("-refreshed_at",)
        constraints = [models.UniqueConstraint(fields=("partner", "identity"), name="one_row_per_offer")]
        indexes = [
            models.Index(fields=("partner", "provider", "native_offer_id"), name="offer_native"),
            GinIndex(
                fields=("earlier_native_ids",),
                name="offer_earlier_native",
                condition=~models.Q(earlier_native_ids=[]),
            ),
            models.Index(fields=("-refreshed_at",), name="offer_newest"),
            models.Index(fields=("cpf_index",), name="offer_holder"),
            models.Index(
                fields=("partner", "provider", "cpf_index", "-live_proposal_since"),
                name="offer_with_proposal",
                condition=models.Q(live_proposal_id__isnull=False),
            ),
            models.Index(fields=("cpf_index",), name="offer_expired", condition=models.Q(expired_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return str(self.id)

    def as_bank_offer(self) -> BankOffer:
        """The offer with its native identifiers, as a bank takes it back."""
        facts = {each.name: getattr(self, each.name) for each in fields(BankOffer)}
        return BankOffer(**facts | {"cet_source": CetSource(self.cet_source) if self.cet_source else None})


class Step(Leased):
    """An external step that the holder owes a bank: liveness, chat message, SMS or confirmation.

    At most one is open per partner, bank and CPF. `query` is the query that opened it. `reference` is the bank's id of
    the step. An open step is due at its next check. `woken_at` is when a callback or an operator asked for a check;
    null once a worker has taken it.
    """

    State = StepOutcome
    task = "consultas.pending.check_due"
    #: The URL is encrypted for this identity, which is known before the row has a key.
    sealed_by = ("partner_id", "provider", "cpf_index")

    partner = models.ForeignKey(Partner, models.PROTECT, related_name="+", verbose_name="parceiro")
    query = models.ForeignKey(Query, models.PROTECT, related_name="+", verbose_name="consulta")
    provider = models.CharField("banco", max_length=40)
    cpf_index = models.CharField(max_length=64)
    type = models.CharField("tipo", max_length=20)
    url = EncryptedTextField("link", null=True)
    detail = models.CharField("detalhe", max_length=300)
    reference = models.CharField("referência no banco", max_length=200)
    state = models.CharField("situação", max_length=10, choices=State.choices, default=State.OPEN)
    opened_at = models.DateTimeField("aberto em", default=timezone.now)
    expires_at = models.DateTimeField("expira em")
    checks = models.PositiveIntegerField("verificações", default=0)
    woken_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField("encerrado em", null=True)
    # The number of offers after the step ended. Null before.
    offers = models.PositiveSmallIntegerField("ofertas", null=True)
    best_offer = models.DecimalField("maior oferta", max_digits=14, decimal_places=2, null=True)

    class Meta:
        verbose_name = "passo do titular"
        verbose_name_plural = "passos do titular"
        ordering = ("-opened_at",)
        constraints = [
            models.UniqueConstraint(
                fields=("partner", "provider", "cpf_index"),
                condition=models.Q(state="open"),
                name="one_open_step",
            )
        ]
        indexes = [
            models.Index(fields=("due_at",), name="step_due", condition=models.Q(due_at__isnull=False)),
            models.Index(fields=("opened_at",), name="step_oldest"),
            models.Index(fields=("closed_at",), name="step_closed", condition=models.Q(closed_at__isnull=False)),
            models.Index(fields=("cpf_index",), name="step_holder"),
        ]

    def __str__(self) -> str:
        return f"{self.provider} {self.type}"

    def is_over(self) -> bool:
        """True if the step's lifetime is over at the bank, whether or not the holder did it."""
        return self.expires_at <= timezone.now()

    def action(self) -> BankAction:
        """The step for the partner. Its URL stays the same while the step is open."""
        return BankAction(ActionType(self.type), self.url, self.detail, self.reference, self.expires_at)
