"""The audit trail in the back office: read-only, for operators with the permission for it."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import RangeDateTimeFilter, TextFilter
from unfold.decorators import display

from foundation.audit import SERIOUS
from foundation.backoffice.admins import FixedChoicesFilter, ReadOnlyAdmin
from foundation.backoffice.cells import table
from foundation.formats import without_personal_data
from foundation.models import Action, AuditEntry


class WhoFilter(TextFilter):
    """The entries of one person. The name must be complete, because an index on it serves the filter."""

    title = "quem"
    parameter_name = "who"

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        return queryset.filter(who=self.value().strip()) if self.value() else queryset


class ActionFilter(FixedChoicesFilter):
    title = "o quê"
    parameter_name = "action"
    choices_offered = tuple((str(value), str(label)) for value, label in Action.choices)


class ModelFilter(FixedChoicesFilter):
    title = "tipo de objeto"
    parameter_name = "model"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The models that have a page in the back office."""
        models = (model for model in admin.site._registry if model is not AuditEntry)
        named = ((model._meta.label_lower, str(model._meta.verbose_name)) for model in models)
        return sorted(named, key=lambda each: each[1])


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ("at", "coloured_action", "who", "address", "object_page", "what_changed", "detail")
    list_filter = (WhoFilter, ActionFilter, ModelFilter, ("at", RangeDateTimeFilter))
    list_filter_submit = True
    list_per_page = 50
    search_fields = ("object_id__exact", "request_id__exact", "who__exact")
    search_help_text = "id do objeto, X-Request-Id ou usuário; sempre inteiro"
    fields = readonly_fields = (
        "at",
        "told_action",
        "who",
        "channel",
        "address",
        "object_page",
        "object_id",
        "change_table",
        "detail",
        "request_id",
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[AuditEntry], search_term: str
    ) -> tuple[QuerySet[AuditEntry], bool]:
        """No rows for a CPF, because the search text is part of the URL."""
        if search_term and without_personal_data(search_term) != search_term:
            self.message_user(request, "Dados pessoais não podem ser buscados aqui.", messages.WARNING)
            return queryset.none(), False
        return super().get_search_results(request, queryset, search_term)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The entry's page, without a link to its own history: an entry never changes."""
        return super().changeform_view(request, object_id, form_url, {**(extra_context or {}), "show_history": False})

    @display(
        description="o quê",
        ordering="action",
        label={**dict.fromkeys(Action.values, "info"), **{str(each): "warning" for each in SERIOUS}},
    )
    def coloured_action(self, entry: AuditEntry) -> tuple[str, str]:
        return entry.action, entry.told_action

    @admin.display(description="o quê")
    def told_action(self, entry: AuditEntry) -> str:
        return entry.told_action

    @admin.display(description="objeto")
    def object_page(self, entry: AuditEntry) -> SafeString | str:
        """The row's name, as a link to its page if there is one."""
        if not entry.model:
            return "—"
        try:
            model = apps.get_model(entry.model)
        except LookupError:
            return entry.object_name or entry.model
        name = entry.object_name or f"{entry.object_id[:12]}…"
        kind = str(model._meta.verbose_name)
        if not entry.object_name:
            return f"{kind}: {name}" if entry.object_id else kind
        try:
            page = reverse(
                f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[quote(entry.object_id)]
            )
        except NoReverseMatch:
            return f"{kind}: {name}"
        return format_html('{}: <a class="text-link" href="{}">{}</a>', kind, page, name)

    @admin.display(description="mudanças")
    def what_changed(self, entry: AuditEntry) -> str:
        return ", ".join(entry.changes)

    @admin.display(description="mudanças")
    def change_table(self, entry: AuditEntry) -> SafeString | str:
        rows = [(name, *(_told(each) for each in pair)) for name, pair in entry.changes.items()]
        return table(("Campo", "Antes", "Depois"), rows) if rows else "—"


def _told(value: Any) -> str:
    if value is None or value == []:
        return "—"
    if isinstance(value, bool):
        return "sim" if value else "não"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
