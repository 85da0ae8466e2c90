"""Read-only pages for queries, offers and external steps. The CPF is masked; other personal data is not shown.

Rows are searched by CPF in a POST form, because a URL must not contain a CPF.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import action, display

from consultas.answer import Answer
from consultas.models import Offer, Query, Step
from consultas.pending import wake
from consultas.query.end import answers_of
from foundation.audit import Action
from foundation.backoffice.admins import ButtonsAdmin, FixedChoicesFilter
from foundation.backoffice.cells import computed_once, reais, table
from foundation.backoffice.people import PersonalRowsAdmin
from foundation.formats import counted, mask_cpf
from providers import registry
from providers.admin import BankFilter, OfBankAdmin
from providers.types.answer import QueryStatus
from providers.types.steps import ActionType
from webhooks.models import reference_index

ANSWERS = {
    QueryStatus.OK: "com ofertas",
    QueryStatus.NO_OFFERS: "sem ofertas",
    QueryStatus.REQUIRES_ACTION: "falta um passo do titular",
    QueryStatus.PENDING: "aguardando o titular",
    QueryStatus.ERROR: "erro ou recusa",
}
STEP_TYPES = {
    ActionType.BIOMETRICS: "prova de vida",
    ActionType.CHAT_LINK: "confirmação no WhatsApp",
    ActionType.PAYROLL_DATA: "autorização por SMS (Dataprev)",
    ActionType.SIGNATURE: "assinatura",
    ActionType.FORMALIZATION: "formalização",
}


def _counted(title: str, count: Callable[[list[Answer]], int]) -> Callable[[Query], int | None]:
    """A column of the exported file: a number of an ended query's answers."""

    @admin.display(description=title)
    def value(query: Query) -> int | None:
        return None if query.finished_at is None else count(answers_of(query))

    return value


@admin.register(Query)
class QueryAdmin(PersonalRowsAdmin):
    list_display = ("outcome", "created_at", "partner", "kind", "masked_cpf", "request_id")
    list_display_links = ("created_at",)
    exported_as = MappingProxyType(
        {
            "outcome": (
                _counted("respostas de bancos", lambda answers: len(answers)),
                _counted("bancos com ofertas", lambda answers: sum(bool(each.offers) for each in answers)),
                _counted("bancos com erro", lambda answers: sum(each.status == QueryStatus.ERROR for each in answers)),
                _counted("ofertas", lambda answers: sum(len(each.offers) for each in answers)),
            )
        }
    )
    list_filter = ("kind", ("partner", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
    list_select_related = ("partner",)
    also_exported = ("id", "partner_reference", "finished_at")
    search_fields = ("id__exact", "request_id__exact")
    search_help_text = "id da consulta ou X-Request-Id; sempre inteiro"
    fields = (
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
    readonly_fields = fields

    @admin.display(description="CPF")
    def masked_cpf(self, query: Query) -> str:
        return mask_cpf(query.request["cpf"])

    @display(
        description="resultado", label={"open": "warning", "offers": "success", "failed": "danger", "none": "info"}
    )
    def outcome(self, query: Query) -> tuple[str, str]:
        """How the query ended, and the words for it."""
        if query.finished_at is None:
            return "open", "em andamento ou interrompida"
        answers = answers_of(query)
        failed = sum(answer.status == QueryStatus.ERROR for answer in answers)
        with_offers = sum(bool(answer.offers) for answer in answers)
        words = f"{with_offers} de {counted(len(answers), 'banco', 'bancos', '0')} com ofertas"
        kind = "offers" if with_offers else "failed" if failed else "none"
        return kind, f"{words}, {failed} com erro" if failed else words

    @admin.display(description="pedido")
    def wish(self, query: Query) -> str:
        wish, parts = query.holder, []
        if wish.loan_value is not None:
            parts.append(f"valor de {reais(wish.loan_value)}")
        if wish.installment_value is not None:
            parts.append(f"parcela de {reais(wish.installment_value)}")
        if wish.installments is not None:
            parts.append(f"prazo de {counted(wish.installments, 'mês', 'meses', 'nenhum mês')}")
        return ", ".join(parts) or "sem parâmetros"

    @admin.display(description="grupo de simulação e lead")
    def lead(self, query: Query) -> SafeString | str:
        if query.simulation_group is None:
            return "—"
        address = reverse("admin:webhooks_event_changelist")
        return format_html('<a class="text-link" href="{0}?q={1}">{1}</a>', address, query.simulation_group)

    @admin.display(description="respostas dos bancos")
    @computed_once
    def bank_answers(self, query: Query) -> SafeString:
        rows = [
            (
                registry.label(answer.provider),
                ANSWERS[answer.status],
                len(answer.offers),
                f"{answer.elapsed_ms} ms",
                "; ".join(filter(None, (answer.error, *answer.reasons))) or "—",
                STEP_TYPES[answer.action.type] if answer.action else "—",
            )
            for answer in answers_of(query)
        ]
        return table(("Banco", "Situação", "Ofertas", "Tempo", "Erro ou motivos", "Falta ao titular"), rows)


def _percent(rate: Decimal | None) -> str:
    """A rate as `1,99%`, without final zeros."""
    return "—" if rate is None else f"{rate.normalize():f}%".replace(".", ",")


@admin.register(Offer)
class OfferAdmin(OfBankAdmin, PersonalRowsAdmin):
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
    list_filter = (BankFilter, ("partner", AutocompleteSelectFilter), "with_insurance", "refreshed_at")
    list_filter_submit = True
    list_select_related = ("partner", "query")
    exported_as = MappingProxyType(
        {
            "loan": ("loan_value",),
            "installment": ("installments", "installment_value"),
            "rate": ("interest_rate",),
        }
    )
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

    @admin.display(description="CPF")
    def masked_cpf(self, offer: Offer) -> str:
        return mask_cpf(offer.query.request["cpf"])

    @admin.display(description="valor", ordering="loan_value")
    def loan(self, offer: Offer) -> str:
        return reais(offer.loan_value)

    @admin.display(description="parcelas")
    def installment(self, offer: Offer) -> str:
        return f"{offer.installments} × {reais(offer.installment_value)}"

    @admin.display(description="taxa ao mês", ordering="interest_rate")
    def rate(self, offer: Offer) -> str:
        return _percent(offer.interest_rate)

    @admin.display(description="CET ao mês")
    def monthly_cet(self, offer: Offer) -> str:
        return _percent(offer.cet_monthly)

    @admin.display(description="CET ao ano")
    def annual_cet(self, offer: Offer) -> str:
        return _percent(offer.cet_annual)

    @admin.display(description="origem do CET")
    def source_of_cet(self, offer: Offer) -> str:
        return {"bank": "do banco", "computed": "calculado"}.get(offer.cet_source or "", "—")

    @admin.display(description="seguro", ordering="with_insurance")
    def insurance(self, offer: Offer) -> str:
        """In words, because a cross for "without" would look like a fault."""
        return "com seguro" if offer.with_insurance else "sem seguro"

    @admin.display(description="valor do seguro")
    def insurance_price(self, offer: Offer) -> str:
        return "—" if offer.insurance_value is None else reais(offer.insurance_value)

    @admin.display(description="IOF")
    def tax(self, offer: Offer) -> str:
        return "—" if offer.iof is None else reais(offer.iof)

    @admin.display(description="total")
    def total(self, offer: Offer) -> str:
        return reais(offer.total_amount)


class StepType(FixedChoicesFilter):
    title = "tipo"
    parameter_name = "type"
    choices_offered = tuple((kind.value, name) for kind, name in STEP_TYPES.items())


@admin.register(Step)
class StepAdmin(ButtonsAdmin, OfBankAdmin, PersonalRowsAdmin):
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
    list_display_links = ("opened_at",)
    list_filter = ("state", BankFilter, StepType, ("partner", AutocompleteSelectFilter))
    list_filter_submit = True
    list_select_related = ("partner", "query")
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
    actions_submit_line = ("check_now",)

    def has_change_permission(self, request: HttpRequest, obj: Step | None = None) -> bool:
        """True for operators who may use the page's button. The page itself has no editable fields."""
        return bool(request.user.has_perm("consultas.change_step"))

    def get_actions_submit_line(self, request: HttpRequest, object_id: Any) -> list[Any]:
        step = self.row_of(request, str(object_id))
        is_open = step is not None and step.state == Step.State.OPEN
        return super().get_actions_submit_line(request, object_id) if is_open else []

    @action(description="Verificar agora", permissions=["change"])
    def check_now(self, request: HttpRequest, step: Step) -> None:
        wake(step)
        self.log_change(request, step, "Verificação antecipada.", action=Action.PUSHED)
        self.message_user(request, "O banco será consultado em segundos.", messages.SUCCESS)

    @display(description="tipo", ordering="type")
    def kind(self, step: Step) -> str:
        return STEP_TYPES[ActionType(step.type)]

    @admin.display(description="eventos do titular")
    @computed_once
    def events(self, step: Step) -> SafeString | str:
        if step.state == Step.State.OPEN:
            return "—"
        index = reference_index(step.query.request["cpf"])
        address = reverse("admin:webhooks_event_changelist")
        return format_html('<a class="text-link" href="{}?reference_index={}">authorization_result</a>', address, index)

    @admin.display(description="CPF")
    def masked_cpf(self, step: Step) -> str:
        return mask_cpf(step.query.request["cpf"])

    @display(
        description="situação",
        ordering="state",
        label={
            Step.State.OPEN.label: "info",
            Step.State.APPROVED.label: "success",
            Step.State.REFUSED.label: "danger",
            Step.State.EXPIRED.label: "warning",
        },
    )
    def coloured_state(self, step: Step) -> str:
        return step.get_state_display()
