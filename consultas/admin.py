"""Queries and offers for operators: to read only, the CPF masked, other personal data not shown."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

from consultas.models import Offer, Pending, Query
from consultas.queries import answers_of
from providers.encryption import blind_index
from providers.formats import cpf_is_valid, mask_cpf, only_digits


class ReadOnlyAdmin(ModelAdmin):
    """Rows that the service writes and nobody edits."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, term: str) -> tuple[QuerySet, bool]:
        """A CPF is found through its keyed index, as the column itself is encrypted; else by id."""
        digits = only_digits(term)
        if cpf_is_valid(digits):
            return queryset.filter(cpf_index=blind_index("cpf", digits)), False
        return super().get_search_results(request, queryset, term)


@admin.register(Query)
class QueryAdmin(ReadOnlyAdmin):
    list_display = ("created_at", "partner", "kind", "masked_cpf", "outcome", "request_id")
    list_filter = ("kind", "partner", "created_at")
    list_select_related = ("partner",)
    search_fields = ("id__exact", "request_id")
    search_help_text = "CPF, id da consulta ou X-Request-Id"
    fields = (
        "id",
        "partner",
        "kind",
        "masked_cpf",
        "wish",
        "bank_answers",
        "simulation_group",
        "request_id",
        "created_at",
        "finished_at",
    )
    readonly_fields = fields

    @admin.display(description="CPF")
    def masked_cpf(self, query: Query) -> str:
        return mask_cpf(query.request["cpf"])

    @admin.display(description="resultado")
    def outcome(self, query: Query) -> str:
        if query.finished_at is None:
            return "em andamento ou interrompida"
        answers = answers_of(query)
        offers = sum(len(answer.offers) for answer in answers)
        return f"{offers} ofertas de {sum(bool(answer.offers) for answer in answers)}/{len(answers)} bancos"

    @admin.display(description="pedido")
    def wish(self, query: Query) -> str:
        names = {"loan_value": "valor", "installment_value": "parcela", "installments": "prazo"}
        told = [f"{label} {query.request[name]}" for name, label in names.items() if query.request.get(name)]
        return ", ".join(told) or "sem parâmetros"

    @admin.display(description="respostas dos bancos")
    def bank_answers(self, query: Query) -> SafeString:
        rows = (
            (answer.provider, answer.status, len(answer.offers), f"{answer.elapsed_ms} ms", answer.error or "")
            for answer in answers_of(query)
        )
        body = format_html_join("", "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>", rows)
        head = "<tr><th>Banco</th><th>Situação</th><th>Ofertas</th><th>Tempo</th><th>Erro</th></tr>"
        return format_html('<table style="border-spacing:1rem 0">{}{}</table>', SafeString(head), body)


@admin.register(Offer)
class OfferAdmin(ReadOnlyAdmin):
    list_display = (
        "refreshed_at",
        "partner",
        "provider",
        "loan_value",
        "installments",
        "installment_value",
        "interest_rate",
        "with_insurance",
    )
    list_filter = ("provider", "partner", "with_insurance", "refreshed_at")
    list_select_related = ("partner",)
    search_fields = ("id__exact",)
    search_help_text = "CPF ou offerId"
    exclude = ("cpf_index", "identity")


@admin.register(Pending)
class PendingAdmin(ReadOnlyAdmin):
    list_display = ("opened_at", "partner", "provider", "type", "state", "checks", "next_check_at", "expires_at")
    list_filter = ("state", "provider", "type", "partner")
    list_select_related = ("partner",)
    search_fields = ("reference",)
    search_help_text = "CPF ou referência no banco"
    exclude = ("cpf_index", "url")
