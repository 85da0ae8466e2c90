"""The audit trail in the back office: read-only, for operators with the permission for it."""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.core.exceptions import FieldDoesNotExist
from django.urls import NoReverseMatch
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import RangeDateTimeFilter

from foundation.audit import SERIOUS
from foundation.backoffice.admins import FixedChoicesFilter, ReadOnlyAdmin
from foundation.backoffice.cells import Column, link, table
from foundation.backoffice.pages import page_of
from foundation.models import Action, AuditEntry


def _models() -> list[tuple[str, str]]:
    """The models that have a page in the back office."""
    models = (model for model in admin.site._registry if model is not AuditEntry)
    named = ((model._meta.label_lower, str(model._meta.verbose_name)) for model in models)
    return sorted(named, key=lambda each: each[1])


ActionFilter = FixedChoicesFilter.of("action", "o quê", lambda: Action.choices)
ModelFilter = FixedChoicesFilter.of("model", "tipo de objeto", _models)


def _object_page(entry: AuditEntry) -> SafeString | str:
    """The row's name, as a link to its page if there is one."""
    if not entry.model:
        return "—"
    try:
        model = apps.get_model(entry.model)
    except LookupError:
        return entry.object_name or entry.model
    kind = str(model._meta.verbose_name)
    if not entry.object_name:
        return f"{kind}: {entry.object_id[:12]}…" if entry.object_id else kind
    try:
        page = link(page_of(model, entry.object_id), entry.object_name)
    except NoReverseMatch:
        return f"{kind}: {entry.object_name}"
    return format_html("{}: {}", kind, page)


def _what_changed(entry: AuditEntry) -> str:
    """The names of the changed fields. What has no value any more is marked: a bank that left a contract, too."""
    taken = {name: " (retirado)" if new in (None, "", []) else "" for name, (_, new) in entry.changes.items()}
    return ", ".join(_named(entry, name)[0] + mark for name, mark in taken.items())


def _change_table(entry: AuditEntry) -> SafeString:
    rows = []
    for name, pair in entry.changes.items():
        title, choices = _named(entry, name)
        rows.append((title, *(_in_words(each, choices) for each in pair)))
    return table(("Campo", "Antes", "Depois"), rows)


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ("coloured_action", "at", "who", "address", "object_page", "what_changed", "detail")
    list_filter = (ActionFilter, ModelFilter, ("at", RangeDateTimeFilter))
    linked_by = ("object_id",)
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
        "detail",
        "request_id",
    )
    coloured_action = Column(
        "o quê",
        lambda entry: (entry.action, entry.action_in_words),
        "action",
        {**dict.fromkeys(Action.values, "info"), **{str(each): "warning" for each in SERIOUS}},
    )
    action_in_words = Column("o quê", lambda entry: entry.action_in_words)
    object_page = Column("objeto", _object_page)
    what_changed = Column("mudanças", _what_changed)
    change_table = Column("mudanças", _change_table)


#: Fields of pages that are no columns of a model.
_OF_PAGES = {
    "new_id": "id",
    "password1": "senha",
    "password2": "senha repetida",
    "usable_password": "entrada por senha",
    "set_usable_password": "entrada por senha",
}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def _named(entry: AuditEntry, name: str) -> tuple[str, dict[Any, str]]:
    """A changed field as the pages call it, and the names of its values, if these have any. `name` is a field of the
    entry's model, or `kind row: field` of another."""
    about, separator, column = name.rpartition(": ")
    kind, _, row = about.partition(" ")
    models = [each for each in apps.get_models() if each._meta.model_name == kind] if separator else []
    column = column if models else name
    title, choices = _OF_PAGES.get(column, column), {}
    with suppress(LookupError, ValueError, FieldDoesNotExist):  # an entry about no row, a field of a page
        field = (models[0] if models else apps.get_model(entry.model))._meta.get_field(column)
        title, choices = str(getattr(field, "verbose_name", name)), dict(getattr(field, "flatchoices", ()))
    return f"{models[0]._meta.verbose_name} {row}: {title}" if models else title, choices


def _in_words(value: Any, choices: Mapping[Any, str]) -> str:
    if isinstance(value, str) and value in choices:
        return choices[value]
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        return f"{timezone.localtime(datetime.fromisoformat(value)):%d/%m/%Y %H:%M:%S}"
    if value is None or value == []:
        return "—"
    if isinstance(value, bool):
        return "sim" if value else "não"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
