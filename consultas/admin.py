"""Read-only pages for queries, offers and external steps. The CPF is masked; other personal data is not shown.

Rows are searched by CPF in a POST form, because a URL must not contain a CPF.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from consultas.models import TAKEN, Answer, Offer, Query, Step
from consultas.pending import wake
from foundation.audit import Action
from foundation.backoffice.admins import FixedChoicesFilter, ReadOnlyAdmin, offered_if
from foundation.backoffice.cells import Column, in_reais, link, reais, table
from foundation.backoffice.confirmation import Confirmed, Done
from foundation.backoffice.pages import list_of
from foundation.formats import counted, mask_cpf
from partners.admin import PARTNER_FILTER, OfPartnerAdmin
from providers import registry
from providers.admin import BankFilter, OfBankAdmin
from providers.reasons import NOT_CALLED, OPERATOR_MEANINGS
from providers.types.query import ActionType, QueryStatus
from webhooks.models import Event, reference_index

_SOURCES_OF_CET = {"bank": "do banco", "computed": "calculado"}
_STATE_COLOURS = {
    Step.State.OPEN.label: "info",
    Step.State.APPROVED.label: "success",
    Step.State.REFUSED.label: "danger",
    Step.State.EXPIRED.label: "warning",
}


def _counted(title: str, count: Callable[[list[Answer]], int]) -> Column:
    """A column of the exported file: a number of an ended query's answers."""
    return Column(title, lambda query: None if query.finished_at is None else count(query.stored_answers()))


def _outcome(query: Query) -> tuple[str, str]:
    """How the query ended, and the words for it."""
    if query.is_untaken():
        return "failed", "não chegou aos bancos: nenhum processo a tomou"
    if query.finished_at is None:
        return "open", "em andamento ou interrompida"
    answers = query.stored_answers()
    failed = sum(answer.status == QueryStatus.ERROR for answer in answers)
    with_offers = sum(bool(answer.offers) for answer in answers)
    words = f"{with_offers} de {counted(len(answers), 'banco', 'bancos', '0')} com ofertas"
    kind = "offers" if with_offers else "failed" if failed else "none"
    return kind, f"{words}, {failed} com erro" if failed else words


def _wish(query: Query) -> str:
    wish, parts = query.holder, []
    if wish.loan_value is not None:
        parts.append(f"valor de {reais(wish.loan_value)}")
    if wish.installment_value is not None:
        parts.append(f"parcela de {reais(wish.installment_value)}")
    if wish.installments is not None:
        parts.append(f"prazo de {counted(wish.installments, 'mês', 'meses', 'nenhum mês')}")
    return ", ".join(parts) or "sem parâmetros"


def _code(answer: Answer) -> str:
    return answer.operator_code or next((each.code for each in answer.coded), "")


def _situation(query: Query, answer: Answer) -> str:
    is_uncalled = not answer.reached and (query.is_untaken() or _code(answer) in NOT_CALLED)
    return "não foi chamado" if is_uncalled else answer.status.label


def _why(query: Query, answer: Answer) -> str:
    if not answer.reached and query.is_untaken():
        return "Nenhum processo tomou a consulta."
    if not answer.reached and (told := OPERATOR_MEANINGS.get(_code(answer))):
        return f"{told} {answer.operator_words}".strip()
    return "; ".join(filter(None, (answer.error, *answer.reasons))) or "—"


def _bank_answers(query: Query) -> SafeString:
    rows = [
        (
            registry.label(answer.provider),
            _situation(query, answer),
            len(answer.offers),
            f"{answer.elapsed_ms} ms",
            _why(query, answer),
            answer.action.type.label if answer.action else "—",
        )
        for answer in query.stored_answers()
    ]
    return table(("Banco", "Situação", "Ofertas", "Tempo", "Erro ou motivos", "Falta ao titular"), rows)


def _events_with(text: Any, **filters: Any) -> SafeString:
    """A link to the list of webhook events."""
    return link(list_of(Event, urlencode(filters)), text)


def _events_of_step(step: Step) -> SafeString | str:
    index = reference_index(step.query.request["cpf"])
    return "—" if step.state == Step.State.OPEN else _events_with("authorization_result", reference_index=index)


AskedBankFilter = FixedChoicesFilter.of(
    "bank", "banco", BankFilter.choices_offered, lambda bank: Q(banks__contains=[bank])
)


@admin.register(Query)
class QueryAdmin(OfPartnerAdmin, ReadOnlyAdmin):
    list_display = ("outcome", "created_at", "partner", "kind", "masked_cpf", "request_id")
    exported_as = {
        "outcome": (
            _counted("respostas de bancos", lambda answers: len(answers)),
            _counted("bancos com ofertas", lambda answers: sum(bool(each.offers) for each in answers)),
            _counted("bancos com erro", lambda answers: sum(each.status == QueryStatus.ERROR for each in answers)),
            _counted("ofertas", lambda answers: sum(len(each.offers) for each in answers)),
        )
    }
    list_filter = ("kind", AskedBankFilter, PARTNER_FILTER, "created_at")
    also_exported = ("id", "partner_reference", "finished_at")
    search_fields = ("id__exact", "request_id__exact", "partner_reference__exact")
    search_help_text = "id da consulta, X-Request-Id ou referência do parceiro; sempre inteiro"
    fields = readonly_fields = (
        "id",
        "partner",
        "kind",
        "masked_cpf",
        "partner_reference",
        "wish",
        "bank_answers",
        "lead",
        "request_id",
        "created_at",
        "finished_at",
    )
    masked_cpf = Column("CPF", lambda query: mask_cpf(query.request["cpf"]))
    outcome = Column(
        "resultado", _outcome, label={"open": "warning", "offers": "success", "failed": "danger", "none": "info"}
    )
    wish = Column("pedido", _wish)
    lead = Column(
        "grupo de simulação e lead",
        lambda query: _events_with(group, q=group) if (group := query.simulation_group) else "—",
    )
    bank_answers = Column("respostas dos bancos", _bank_answers)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Query]:
        return super().get_queryset(request).annotate(taken=TAKEN)


def _percent(title: str, name: str) -> Column:
    """The rate in the model's column `name`, as `1,99%`, without final zeros."""

    def shown(offer: Offer) -> str:
        rate: Decimal | None = getattr(offer, name)
        return "—" if rate is None else f"{rate.normalize():f}%".replace(".", ",")

    return Column(title, shown, name)


class OfQueryAdmin(OfBankAdmin, OfPartnerAdmin, ReadOnlyAdmin):
    """A bank's rows about the holder of a query."""

    read_with = ("query",)
    masked_cpf = Column("CPF", lambda row: mask_cpf(row.query.request["cpf"]))


@admin.register(Offer)
class OfferAdmin(OfQueryAdmin):
    list_display = (
        "refreshed_at",
        "partner",
        "bank",
        "masked_cpf",
        "loan",
        "installment",
        "rate",
        "insurance",
    )
    list_filter = (BankFilter, PARTNER_FILTER, "with_insurance", "refreshed_at")
    exported_as = {
        "loan": ("loan_value",),
        "installment": ("installments", "installment_value"),
        "rate": ("interest_rate",),
    }
    also_exported = ("id", "total_amount", "cet_monthly", "cet_annual", "first_due_date", "valid_until")
    search_fields = ("id__exact",)
    search_help_text = "offerId"
    fields = readonly_fields = (
        "id",
        "partner",
        "query",
        "bank",
        "masked_cpf",
        "native_offer_id",
        "loan",
        "installment",
        "rate",
        "total",
        "table_code",
        "insurance",
        "first_due_date",
        "monthly_cet",
        "annual_cet",
        "source_of_cet",
        "tax",
        "insurance_price",
        "quoted_at",
        "valid_until",
        "expired_at",
        "employer_cnpj",
        "employer_name",
        "registration",
        "created_at",
        "refreshed_at",
        "live_proposal_id",
    )
    loan = in_reais("valor", "loan_value")
    installment = Column("parcelas", lambda offer: f"{offer.installments} × {reais(offer.installment_value)}")
    rate = _percent("taxa ao mês", "interest_rate")
    monthly_cet = _percent("CET ao mês", "cet_monthly")
    annual_cet = _percent("CET ao ano", "cet_annual")
    source_of_cet = Column("origem do CET", lambda offer: _SOURCES_OF_CET.get(offer.cet_source, "—"))
    #: In words, because a cross for "without" would look like a fault.
    insurance = Column("seguro", lambda row: "com seguro" if row.with_insurance else "sem seguro", "with_insurance")
    insurance_price = in_reais("valor do seguro", "insurance_value")
    tax = in_reais("IOF", "iof")
    total = in_reais("total", "total_amount")


StepType = FixedChoicesFilter.of("type", "tipo", lambda: ActionType.choices)


@admin.register(Step)
class StepAdmin(OfQueryAdmin):
    """Steps, read-only. An operator's only action is to have the bank asked about a step at once."""

    list_display = (
        "coloured_state",
        "opened_at",
        "partner",
        "bank",
        "masked_cpf",
        "kind",
        "checks",
        "due_at",
        "expires_at",
    )
    list_filter = ("state", BankFilter, StepType, PARTNER_FILTER)
    search_fields = ("reference",)
    search_help_text = "referência no banco"
    fields = readonly_fields = (
        "partner",
        "query",
        "bank",
        "masked_cpf",
        "kind",
        "detail",
        "reference",
        "coloured_state",
        "opened_at",
        "expires_at",
        "checks",
        "due_at",
        "closed_at",
        "events",
    )
    actions_detail = ("check_now",)
    kind = Column("tipo", lambda step: ActionType(step.type).label, "type")
    events = Column("eventos do titular", _events_of_step)
    coloured_state = Column("situação", Step.get_state_display, "state", _STATE_COLOURS)

    @Confirmed("Verificar agora", "update", "act", "O banco será consultado em segundos.")
    @offered_if(lambda step: step.state == Step.State.OPEN)
    def check_now(self, request: HttpRequest, step: Step, form: forms.Form) -> Done:
        wake(step)
        return Done("Verificação antecipada.", Action.PUSHED)
