"""The audit trail in the back office: read-only, for operators with the permission for it."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
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
    list_display = ("coloured_action", "at", "who", "address", "object_page", "what_changed", "detail_in_words")
    list_display_links = ("at",)
    list_filter = (WhoFilter, ActionFilter, ModelFilter, ("at", RangeDateTimeFilter))
    list_filter_submit = True
    list_per_page = 50
    search_fields = ("object_id__exact", "request_id__exact", "who__exact")
    search_help_text = "id do objeto, X-Request-Id ou usuário; sempre inteiro"
    fields = readonly_fields = (
        "at",
        "action_in_words",
        "who",
        "channel",
        "address",
        "object_page",
        "object_id",
        "change_table",
        "detail_in_words",
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
        return entry.action, entry.action_in_words

    @admin.display(description="o quê")
    def action_in_words(self, entry: AuditEntry) -> str:
        return entry.action_in_words

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
        return ", ".join(_title(entry, name) for name in entry.changes)

    @admin.display(description="mudanças")
    def change_table(self, entry: AuditEntry) -> SafeString | str:
        rows = [(_title(entry, name), *(_in_words(each) for each in pair)) for name, pair in entry.changes.items()]
        return table(("Campo", "Antes", "Depois"), rows) if rows else "—"

    @admin.display(description="detalhe")
    def detail_in_words(self, entry: AuditEntry) -> str:
        """The entry's sentence. Of a refused page, which the entry names by its route, the name of the page."""
        page = _PAGE.fullmatch(entry.detail) if entry.action == Action.DENIED else None
        if page is None:
            return entry.detail or "—"
        models = (each for each in apps.get_models() if each._meta.label_lower.replace(".", "_") == page["model"])
        model = next(models, None)
        what = f"{_STEPS.get(page['step'], page['step'])}: {model._meta.verbose_name}" if model else page["model"]
        return f"{what} ({'leitura' if page['method'] == 'GET' else 'envio de formulário'})"


#: The method and the route of a page about rows of one model.
_PAGE = re.compile(r"(?P<method>[A-Z]+) admin:(?P<model>[a-z]+_[a-z]+)_(?P<step>\w+)")
_STEPS = {"changelist": "lista", "change": "página", "add": "novo", "delete": "excluir", "history": "histórico"}
#: Fields of pages that are no columns of a model.
_OF_PAGES = {"new_id": "id", "usable_password": "entrada por senha", "set_usable_password": "entrada por senha"}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def _title(entry: AuditEntry, name: str) -> str:
    """A changed field as the pages call it. `name` is a field of the entry's model, or `kind row: field` for a row of
    another model of its page."""
    about, separator, field = name.rpartition(": ")
    kind, _, row = about.partition(" ")
    models = [each for each in apps.get_models() if each._meta.model_name == kind] if separator else []
    if models:
        return f"{models[0]._meta.verbose_name} {row}: {_field_title(models[0], field)}"
    try:
        return _field_title(apps.get_model(entry.model), name)
    except (LookupError, ValueError):  # an entry about no row
        return _OF_PAGES.get(name, name)


def _field_title(model: type[Model], name: str) -> str:
    try:
        return str(getattr(model._meta.get_field(name), "verbose_name", name))
    except FieldDoesNotExist:
        return _OF_PAGES.get(name, name)


def _in_words(value: Any) -> str:
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        return f"{timezone.localtime(datetime.fromisoformat(value)):%d/%m/%Y %H:%M:%S}"
    if value is None or value == []:
        return "—"
    if isinstance(value, bool):
        return "sim" if value else "não"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
