"""Export of a back office list as CSV, of any size. Masks and filters are those of the list. The file has the list's
columns and the ids that are too wide for a page."""

import csv
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import label_for_field, lookup_field
from django.contrib.admin.views.main import SEARCH_VAR
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import strip_tags
from django.utils.text import slugify
from unfold.admin import ModelAdmin

from foundation import audit
from foundation.batches import pages
from foundation.database import give_back_connection

#: config/gunicorn.py applies its time-out for this content type to each write instead of the whole response.
CONTENT_TYPE = "text/csv; charset=utf-8"
PAGE = 500
Column = str | Callable[[Any], Any]
#: A spreadsheet takes a cell that begins with one of these for a formula, in their full-width forms, too.
_FORMULA = ("=", "+", "-", "@")
#: Letters and a symbol without ink. A spreadsheet sees a formula behind them, as behind spaces and control characters.
_FILLERS = "\u115f\u1160\u2800\u3164\uffa0"


class ExportMixin(ModelAdmin):
    """Rows whose list can be exported by operators with both permissions: to view it and to export lists.

    `also_exported` are columns that the file has after those of the list. `exported_as` names those that stand in the
    file for one of the list which joins or shortens values. A column is named as in the list, or a function of a row.
    """

    also_exported: tuple[Column, ...] = ()
    exported_as: Mapping[str, tuple[Column, ...]] = {}
    list_after_template = "backoffice/export.html"

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_export"
        return [path("export/", self.admin_site.admin_view(self.export), name=name), *super().get_urls()]

    def export(self, request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
        """The filtered list as CSV. The export is recorded in the audit trail. A filter that the list refuses leads to
        the list, as on the list's page."""
        if not (self.has_view_permission(request) and request.user.has_perm("foundation.export_lists")):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        try:
            changes = self.get_changelist_instance(request)
        except IncorrectLookupParameters:
            return HttpResponseRedirect("../?e=1")
        listed = [name for name in changes.list_display if name != "action_checkbox"]
        columns = [each for name in listed for each in self.exported_as.get(name, (name,))]
        detail = f"Lista exportada em CSV, filtros: {_filters(request) or 'nenhum'}."
        audit.record(audit.Action.EXPORTED, request=request, obj=audit.Subject(self.model), detail=detail)
        name = f"{slugify(str(self.opts.verbose_name_plural))}-{timezone.localtime():%Y-%m-%d}.csv"
        return StreamingHttpResponse(
            self._lines(changes.queryset, [*columns, *self.also_exported]),
            content_type=CONTENT_TYPE,
            headers={"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"},
        )

    def _lines(self, rows: QuerySet[Any], columns: list[Column]) -> Iterator[str]:
        """The lines of the file. Rows are read `PAGE` at a time, and no connection is held while lines are sent."""
        passing: Any = SimpleNamespace(write=str)  # `writerow` returns what `write` does: the line
        writer = csv.writer(passing, delimiter=";")
        titles = [str(label_for_field(name, self.model, self)) for name in columns]
        # Excel recognizes UTF-8 by this byte order mark.
        yield "\ufeff" + str(writer.writerow([title[:1].upper() + title[1:] for title in titles]))
        for page in pages(rows, rows.model._meta.ordering[0], PAGE):
            text = "".join(str(writer.writerow([self._cell(name, row) for name in columns])) for row in page)
            give_back_connection()
            yield text

    def _cell(self, name: Column, row: Model) -> str:
        field, _, value = lookup_field(name, row, self)
        choices = dict(getattr(field, "flatchoices", None) or ())
        if value in choices:
            value = choices[value]
        return _plain(value)


def _filters(request: HttpRequest) -> str:
    """The list's filters for the audit trail, without the text of a search: it may be what opens a holder's page."""
    filters = request.GET.copy()
    if filters.get(SEARCH_VAR):
        filters[SEARCH_VAR] = "***"
    return filters.urlencode(safe="*")


def _plain(value: Any) -> str:
    """A cell as text, without markup, and safe from being computed as a formula."""
    if isinstance(value, tuple):  # (colour, words)
        value = value[1]
    if value is None or value in ("", "—"):
        return ""
    if isinstance(value, bool):
        return "sim" if value else "não"
    if isinstance(value, datetime):
        return f"{timezone.localtime(value):%Y-%m-%d %H:%M:%S}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal | int | float):  # a spreadsheet of a country that separates cells by semicolons
        return f"{Decimal(str(value)):f}".replace(".", ",")
    text = strip_tags(str(value)).replace("\r", " ").replace("\n", " ")
    return f"'{text}" if text.startswith("\t") or _begins_formula(text) else text


def _begins_formula(text: str) -> bool:
    """True if the first character with ink begins a formula. Separators, control characters and marks have none."""
    first = next((each for each in text if unicodedata.category(each)[0] not in "ZCM" and each not in _FILLERS), "")
    return unicodedata.normalize("NFKC", first)[:1] in _FORMULA
