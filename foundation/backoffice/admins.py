"""Base classes for the back office's pages.

All derive from `RobustAdmin`. `ReadOnlyAdmin` allows no edits. `confirmation.py` has actions with a confirmation page.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any, Self

from django import forms
from django.contrib import messages
from django.contrib.admin import ShowFacets, SimpleListFilter
from django.contrib.admin.checks import ModelAdminChecks
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import unquote
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import DateTimeField, Model, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.functional import cached_property
from django.utils.text import capfirst
from unfold.admin import ModelAdmin, TabularInline, checkbox
from unfold.templatetags import unfold_list
from unfold.views import ChangeList
from unfold.widgets import UnfoldAdminTextInputWidget

from foundation import audit
from foundation.backoffice.cells import Column
from foundation.backoffice.exporting import ExportMixin
from foundation.backoffice.pages import list_of, page, page_of, trail_of
from foundation.formats import cpf_is_valid, only_digits

# The theme writes 30 classes into each cell and box of a list, which were most of its HTML. Their rules are in
# backoffice.css.
unfold_list.ROW_CLASSES, unfold_list.LINK_CLASSES = [], ["text-important"]
unfold_list.CHECKBOX_CLASSES, checkbox.attrs["class"] = ["action-checkbox"], "action-select"

#: Rows of a list beyond this number are neither counted nor shown; operators use filters to reach them.
MOST = 1_000


def offered_if(is_fit: Callable[[Any], bool]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates an action that only the pages of some rows offer."""

    def decorate(act: Callable[..., Any]) -> Callable[..., Any]:
        vars(act)["is_offered"] = is_fit
        return act

    return decorate


def is_offered(act: Any, row: Any) -> bool:
    """True if the row's page offers the action (`offered_if`)."""
    return not hasattr(act, "is_offered") or act.is_offered(row)


class FixedChoicesFilter(SimpleListFilter):
    """A list filter with fixed values. Django's own would read all rows to find the values in use."""

    #: Called when the page is shown, because modules that are loaded later may add values.
    choices_offered: Callable[[], Iterable[tuple[Any, Any]]]
    #: The condition of the rows that a value, one of the offered, stands for.
    condition: Callable[[str], Q]

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        choices: Callable[[], Iterable[tuple[Any, Any]]],
        condition: Callable[[str], Q] | None = None,
    ) -> type[Self]:
        """The filter of a list by these values, which have labels. Without a `condition`, `name` is a column."""
        own: dict[str, Any] = {"parameter_name": name, "title": title, "choices_offered": staticmethod(choices)}
        own["condition"] = staticmethod(condition or (lambda value: Q(**{name: value})))
        return type("FixedChoicesFilter", (cls,), own)

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return [(str(value), str(label)) for value, label in self.choices_offered()]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        if not self.value():
            return queryset
        # The URL may hold any value, such as a word for a numeric column.
        is_offered = self.value() in {value for value, _ in self.lookup_choices}
        return queryset.filter(self.condition(str(self.value()))) if is_offered else queryset.none()


def conditions(model: type[Model], columns: Iterable[str], text: str) -> list[Q]:
    """The conditions for rows whose value in one of the `columns` is exactly `text`. An index serves each: Django's own
    search would convert ids to text and read all rows."""
    found = []
    for column in columns:
        field: Any = model._meta.pk if column == "pk" else model._meta.get_field(column)
        with suppress(ValidationError):  # `text` cannot be an id
            found.append(Q(**{column: field.to_python(text)}))
    return found


class MoreThan(int):
    """The count of a list with more than `MOST` rows. As a number it is `MOST` + 1; as text it says "more than"."""

    def __str__(self) -> str:
        return f"mais de {MOST:,}".replace(",", ".")


def counted(rows: QuerySet[Any]) -> int:
    """The number of rows, or a `MoreThan` above `MOST`. Reads at most `MOST` + 1 rows."""
    number = rows.order_by().values("pk")[: MOST + 1].count()
    return MoreThan(number) if number > MOST else number


class List(ChangeList):
    """A list that is asked only by its filters and by links of the back office. Django would take a look-up on any
    column. `__regex` and the like would tell, letter by letter, values that no page shows."""

    def get_filters(self, request: HttpRequest) -> Any:
        """Django's, which leave what no filter takes. Raises IncorrectLookupParameters, for which Django shows the list
        without filters."""
        found = super().get_filters(request)
        if found[2].keys() - set(self.model_admin.linked_by):
            raise IncorrectLookupParameters
        return found


class BoundedPaginator(Paginator):
    @cached_property
    def count(self) -> int:
        return counted(self.object_list) if isinstance(self.object_list, QuerySet) else len(self.object_list)


class RobustAdmin(ModelAdmin):
    """A list of rows and a page for each row. No URL that a browser may send causes a server error. No page deletes its
    row: other rows refer to it, and the audit trail tells of it."""

    # The theme's checks would ask the database for permissions that actions name, also before `migrate`.
    checks_class = ModelAdminChecks
    # Each of these counts would read all rows.
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    empty_value_display = "—"
    list_per_page = 50
    paginator = BoundedPaginator
    changelist = List
    #: The parameters in links to the list that the back office makes, besides those of the list's filters. Links of a
    #: holder's page have the keyed hash of the CPF, where the rows do.
    linked_by: tuple[str, ...] = ("cpf_index",)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """The row, read once per request although several parts of a page ask for it. None if there is none."""
        rows: dict[Any, Any] = request.__dict__.setdefault("_rows_read", {})
        key = (self.model, str(object_id), from_field)
        if key not in rows:
            rows[key] = super().get_object(request, object_id, from_field)
        return rows[key]

    def row_of(self, request: HttpRequest, object_id: str) -> Any:
        """Like `get_object`, for the id as it is quoted in the page's URL. Raises Http404."""
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        return row

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """The actions that the row's page offers."""
        row = self.row_of(request, str(object_id))
        return [each for each in super().get_actions_detail(request, object_id) if is_offered(each.method, row)]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def form_page(self, request: HttpRequest, form: forms.Form, row: Model | None = None, **words: Any) -> HttpResponse:
        """A page with a form about `row`, or about the whole list. The form is sent by POST.

        `words` are title, text, and maybe details, button (by default the title) and danger.
        """
        shared = {"opts": self.opts, "form": form, "original": row, "back": page_of(row) if row else self.list_address}
        return page(request, "backoffice/confirm.html", **shared | words)

    # --- The audit trail --------------------------------------------------------------------------------------

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        """What a form changed, for the two methods below."""
        return audit.changes_of_form(form, formsets or (), is_new=add)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        audit.record(audit.Action.CREATED, request=request, obj=obj, changes=message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        if message:
            audit.record(audit.Action.CHANGED, request=request, obj=obj, changes=message)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """In place of Django's history: the row's entries in the audit trail. Users who may read that get a link."""
        return HttpResponseRedirect(trail_of(self.model, unquote(object_id)))

    # --- The list ---------------------------------------------------------------------------------------------

    @property
    def list_address(self) -> str:
        return list_of(self.model)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        return True  # or `List` refuses it

    def get_list_display_links(self, request: HttpRequest, list_display: Any) -> list[str]:
        """The first column that is not computed leads to the row's page. How a row is stands before it."""
        return [name for name in list_display if not isinstance(getattr(self, name, None), Column)][:1]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return self.changelist

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """The list, under the name of its rows. Django's "select one to change" is untrue for who may only look."""
        changes = super().get_changelist_instance(request)
        changes.title = capfirst(str(self.opts.verbose_name_plural))
        return changes

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """No rows for a CPF, because the search text is part of the URL."""
        if cpf_is_valid(only_digits(search_term)):
            self.message_user(request, "Para buscar por CPF, use a busca do menu.", messages.WARNING)
            return queryset.none(), False
        text, fields = search_term.strip(), self.get_search_fields(request)
        if text and fields and all(name.endswith("__exact") for name in fields):
            return queryset.filter(reduce(or_, self.identified_by(text), Q(pk__in=[]))), False
        return super().get_search_results(request, queryset, search_term)

    def identified_by(self, text: str) -> list[Q]:
        """The conditions for the rows that `text` identifies, for this list's search and for the menu's."""
        exact = (name.removesuffix("__exact") for name in self.search_fields if name.endswith("__exact"))
        return conditions(self.model, exact, text)

    def response_action(self, request: HttpRequest, queryset: QuerySet) -> HttpResponse | None:
        """Run the chosen action. Only the list is shown if one of the chosen ids cannot be an id."""
        if all(map(self._may_be_id, request.POST.getlist(ACTION_CHECKBOX_NAME))):
            return super().response_action(request, queryset)
        return HttpResponseRedirect(request.get_full_path())

    def _may_be_id(self, text: str) -> bool:
        try:
            self.opts.pk.to_python(text)
        except ValidationError:
            return False
        return "\0" not in text


class ReadOnlyAdmin(ExportMixin, RobustAdmin):
    """Rows that only the service writes."""

    list_filter_submit = True

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_act_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """True for who may run actions on these rows: who has the permission to change them."""
        return bool(super().has_change_permission(request))


class MomentInput(UnfoldAdminTextInputWidget):
    """A date and time, entered in the browser's own field."""

    input_type = "datetime-local"
    supports_microseconds = False

    def format_value(self, value: Any) -> str | None:
        return value.isoformat() if isinstance(value, datetime) else super().format_value(value)


class LabelledInline(TabularInline):
    """Rows of another model inside a row's page, as a table whose fields have labels for screen readers."""

    extra = 0
    hide_title = True
    formfield_overrides = {
        **TabularInline.formfield_overrides,
        DateTimeField: {"form_class": forms.DateTimeField, "widget": MomentInput},
    }

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        formset = super().get_formset(request, obj, **kwargs)
        for name, field in formset.form.base_fields.items():
            inner = getattr(field.widget, "widget", field.widget)  # a foreign key's widget is wrapped in one with links
            inner.attrs["aria-label"] = str(field.label or name)
        return formset
