"""Hourly counts of events, from which the back office's plots and tables are made.

Only `figures.sweep` writes the rows. They contain no personal data and stay when the counted rows are deleted. Hours
are full hours of UTC; amounts are in reais.
"""

from __future__ import annotations

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models

from partners.models import Partner


class Stage(models.TextChoices):
    OFFER = "offer", "sem oferta"
    SIGNATURE = "signature", "enviada e não assinada"
    PAYMENT = "payment", "assinada e não paga"


def _count(name: str) -> models.PositiveIntegerField[int, int]:
    return models.PositiveIntegerField(name, default=0, db_default=0)


def _amount(name: str) -> models.DecimalField:
    return models.DecimalField(name, max_digits=16, decimal_places=2, default=0, db_default=0)


class _Hourly(models.Model):
    hour = models.DateTimeField("hora")

    class Meta:
        abstract = True
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}"


class QueryHour(_Hourly):
    """The queries that a partner began within an hour.

    `with_offers` counts queries with an offer of any bank. `offered` is the sum of each query's greatest offer.
    `unfinished` counts queries whose process died. `offers` counts the offers in all answers. `later_with_offers`
    counts queries, begun at any time, that got their first offer within the hour, when a step of the holder ended.
    `later_offered` is the increase of the greatest offers by such ends.
    """

    partner = models.ForeignKey(Partner, models.CASCADE, related_name="+", verbose_name="parceiro")
    queries = _count("consultas")
    unfinished = _count("interrompidas")
    with_offers = _count("com ofertas")
    offers = _count("ofertas")
    offered = _amount("valor ofertado")
    later_with_offers = _count("com ofertas depois de um passo")
    later_offered = _amount("valor ofertado depois de um passo")

    class Meta(_Hourly.Meta):
        constraints = [models.UniqueConstraint(fields=("hour", "partner"), name="one_row_of_queries")]


class BankHour(_Hourly):
    """The events of an hour between a partner and a bank.

    Answers are counted in the hour in which their query began, by the status that the partner got: `refused` are the
    bank's own errors, `failed` are missing answers (unreachable, timed out, unreadable, held back), but not those of
    queries that no worker took, for which the bank was not called. `offered` is the sum of each answer's greatest
    offer. Holders' steps and proposals' moves are counted in their own hour, with the amount of the proposal's offer.
    `submitted` counts the proposals that the bank answered. `signed` includes proposals that were paid without a report
    of their signature, in the hour of the payment.
    """

    partner = models.ForeignKey(Partner, models.CASCADE, related_name="+", verbose_name="parceiro")
    bank = models.CharField("banco", max_length=40)
    ok = _count("com ofertas")
    no_offers = _count("sem ofertas")
    requires_action = _count("falta um passo do titular")
    pending = _count("aguardando o titular")
    refused = _count("recusadas")
    failed = _count("falhas")
    offers = _count("ofertas")
    offered = _amount("valor ofertado")
    steps_approved = _count("passos concluídos")
    steps_refused = _count("passos recusados")
    steps_expired = _count("passos expirados")
    steps_with_offers = _count("passos com ofertas")
    step_offers = _count("ofertas depois de um passo")
    step_offered = _amount("valor ofertado depois de um passo")
    submitted = _count("enviadas")
    submitted_amount = _amount("valor enviado")
    signed = _count("assinadas")
    signed_amount = _amount("valor assinado")
    disbursed = _count("pagas")
    disbursed_amount = _amount("valor pago")
    withdrawn = _count("desistências")
    withdrawn_amount = _amount("valor desistido")
    rejected = _count("recusadas pelo banco")
    rejected_amount = _amount("valor recusado")
    cancelled = _count("canceladas")
    cancelled_amount = _amount("valor cancelado")
    expired = _count("expiradas")
    expired_amount = _amount("valor expirado")

    class Meta:
        verbose_name = "número por hora"
        verbose_name_plural = "números por hora"
        default_permissions = ("view",)  # the permission for all pages of this app
        constraints = [models.UniqueConstraint(fields=("hour", "bank", "partner"), name="one_row_of_a_bank")]
        indexes = [models.Index(fields=("bank", "hour"), name="hours_of_a_bank")]


#: The code of an answer for which the bank was not called, because no worker took the query. Partners read `timeout`.
UNTAKEN = "untaken"


class ReasonHour(_Hourly):
    """How often something ended for a reason within an hour. `code` is a `ReasonCode` or `OperatorCode`; of an answer
    with several reasons, the first. UNTAKEN is no bank's: `bank` is empty. Proposals are counted with their amount."""

    partner = models.ForeignKey(Partner, models.CASCADE, related_name="+", verbose_name="parceiro")
    bank = models.CharField("banco", max_length=40)
    stage = models.CharField("etapa", max_length=10, choices=Stage.choices)
    code = models.CharField("motivo", max_length=40)
    count = _count("vezes")
    amount = _amount("valor")

    class Meta(_Hourly.Meta):
        constraints = [
            models.UniqueConstraint(fields=("hour", "bank", "partner", "stage", "code"), name="one_row_of_a_reason")
        ]
        indexes = [models.Index(fields=("bank", "hour"), name="reasons_of_a_bank")]


class LatencyHour(_Hourly):
    """How many answers of a bank, to queries that began within an hour, took at most `up_to_ms` and more than the
    previous bound. Answers that a repeated query reused are not counted."""

    bank = models.CharField("banco", max_length=40)
    up_to_ms = models.PositiveIntegerField("até (ms)")
    count = _count("respostas")

    class Meta(_Hourly.Meta):
        constraints = [models.UniqueConstraint(fields=("hour", "bank", "up_to_ms"), name="one_row_of_a_latency")]


class Progress(models.Model):
    """Everything before `until` is counted, and nothing from then on. There is one row. `erased` are the counts of rows
    from after `until` that an erasure took: for each its time and a `counting.Tally` as data."""

    until = models.DateTimeField()
    erased = models.JSONField(default=list, encoder=DjangoJSONEncoder)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.until:%Y-%m-%d %H:%M:%S}"


class BreakerMove(models.Model):
    """A bank's breaker opened or closed, for all partners or for the one with the id `partner_id`."""

    bank = models.CharField("banco", max_length=40)
    partner_id = models.UUIDField("parceiro", null=True)
    is_open = models.BooleanField("abriu")
    at = models.DateTimeField("quando")

    class Meta:
        default_permissions = ()
        ordering = ("-at",)
        constraints = [
            models.UniqueConstraint(
                fields=("bank", "at", "partner_id", "is_open"), name="one_row_of_a_breaker", nulls_distinct=False
            )
        ]
        indexes = [models.Index(fields=("at",), name="breaker_move_at")]

    def __str__(self) -> str:
        return f"{self.bank} {self.at:%Y-%m-%d %H:%M:%S}"
