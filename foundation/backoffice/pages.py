"""What every page of the back office has in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

from django import forms
from django.contrib import messages
from django.contrib.admin import ShowFacets, SimpleListFilter
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

T = TypeVar("T")
#: Under a form for what must not stand in an address.
UNSEEN = "O que for digitado aqui não aparece em endereços nem em registros."


def once(show: Callable[[Any, Any], T]) -> Callable[[Any, Any], T]:
    """A column of a row's page that is worked out once, however often the page's template asks for it."""

    @wraps(show)
    def kept(self: Any, row: Any) -> T:
        found: dict[str, T] = row.__dict__.setdefault("_shown", {})
        if show.__name__ not in found:
            found[show.__name__] = show(self, row)
        return found[show.__name__]

    return kept


def link_to(model: str, key: Any, text: str = "") -> SafeString:
    """A link to the page of a row; `model` as in `consultas_query`. Its key, where there is no other text."""
    return format_html(
        '<a class="text-link" href="{}">{}</a>', reverse(f"admin:{model}_change", args=[key]), text or key
    )


class NamedFilter(SimpleListFilter):
    """A filter by the values that there can be: those that there are would be a look at all rows."""

    names: Iterable[tuple[str, str]]

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return list(self.names)

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        return queryset.filter(**{str(self.parameter_name): self.value()}) if self.value() else queryset


class DeskAdmin(ModelAdmin):
    """A list of rows and a page for each, for which no address is a reason to break."""

    # Numbers beside a search and beside filters: each a look at all rows.
    show_full_result_count = False
    show_facets = ShowFacets.NEVER

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """The row, read once in a request however many parts of its page ask for it. None where there is none,
        and for what can't be an id."""
        rows: dict[Any, Any] = request.__dict__.setdefault("_desk_rows", {})
        key = (self.model, str(object_id), from_field)
        if key not in rows:
            # PostgreSQL refuses NUL, in which Django sees an error of the database, and not of the visitor.
            rows[key] = None if "\0" in str(object_id) else super().get_object(request, object_id, from_field)
        return rows[key]

    def row_of(self, request: HttpRequest, object_id: str) -> Any:
        """As `get_object`, by the id as it stands in the page's address."""
        return self.get_object(request, unquote(object_id))

    def ask_over_list(self, request: HttpRequest, form: forms.Form, **words: Any) -> HttpResponse:
        """The page with a form of the list's, to be posted. `words`: title, text, button, danger; `original`, what
        it is about, if that is not these rows."""
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "original": str(self.opts.verbose_name_plural),
            "form": form,
            "back": self.list_address,
            **words,
        }
        return TemplateResponse(request, "admin/ask.html", context)

    @property
    def list_address(self) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list; without its filters where one of them can't be searched for, as Django does with others."""
        if any("\0" in value for _, values in request.GET.lists() for value in values):
            return HttpResponseRedirect(f"{request.path}?e=1")
        return super().changelist_view(request, extra_context)

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """Nothing for what can't be searched for: the choice of a partner in a filter searches without the list."""
        if "\0" in search_term:
            return queryset.none(), False
        return super().get_search_results(request, queryset, search_term)

    def response_action(self, request: HttpRequest, queryset: QuerySet) -> HttpResponse | None:
        """The action on the rows that were chosen; the list alone where one of them can't be a row's id."""
        if all(map(self._may_be_id, request.POST.getlist(ACTION_CHECKBOX_NAME))):
            return super().response_action(request, queryset)
        return HttpResponseRedirect(request.get_full_path())

    def _may_be_id(self, text: str) -> bool:
        try:
            self.opts.pk.to_python(text)
        except ValidationError:
            return False
        return "\0" not in text


class PageToRead(DeskAdmin):
    """Rows whose page has nothing to save."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        hidden = {"show_save": False, "show_save_and_continue": False}
        return super().changeform_view(request, object_id, form_url, {**(extra_context or {}), **hidden})


class PageWithButtons(PageToRead):
    """Rows whose page posts nothing but the buttons of `actions_submit_line`."""

    def save_model(self, request: HttpRequest, obj: Any, form: forms.ModelForm, change: bool) -> None:
        """The button that was pressed, in place of saving, which would undo what a worker wrote meanwhile."""
        for button in self.get_actions_submit_line(request, obj.pk):
            if button.action_name in request.POST:
                button.method(request, obj)

    def construct_change_message(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        return []

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Only what a button did is worth a line in the history: the form itself, with its empty message, is not."""
        return super().log_change(request, obj, message) if message else None

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        return HttpResponseRedirect(request.path)


class SensitiveActions(DeskAdmin):
    """Steps that ask first (GET shows a form, POST acts) and leave a line in the row's history."""

    def locked(self, request: HttpRequest, object_id: str) -> Any:
        """The row, locked until the transaction's end. Raises Http404 and PermissionDenied."""
        try:
            row = self.get_queryset(request).select_for_update(of=("self",)).get(pk=object_id)
        except (self.model.DoesNotExist, ValidationError, ValueError):
            raise Http404 from None
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        return row

    def ask(self, request: HttpRequest, row: Model, form: forms.Form, **words: Any) -> HttpResponse:
        """The page with `form` and the button that acts. `words`: title, text, button, danger."""
        return self._page(request, row, "admin/ask.html", {"form": form, **words})

    def show_once(self, request: HttpRequest, row: Model, **words: Any) -> HttpResponse:
        """The page that bears secrets. `words`: title, and `secrets`, each by its name."""
        return self._page(request, row, "admin/secret.html", words)

    def done(self, request: HttpRequest, row: Model, text: str, then: Model | None = None) -> HttpResponse:
        """Notes `text` in the row's history, says it, and goes to the page of `then` (or of the row)."""
        self.log_change(request, row, text)
        messages.success(request, text)
        return HttpResponseRedirect(_page_of(then or row))

    def _page(self, request: HttpRequest, row: Model, template: str, context: dict[str, Any]) -> HttpResponse:
        shared = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "original": row,
            "back": _page_of(row),
        }
        return TemplateResponse(request, template, {**shared, **context})


def posted(request: HttpRequest) -> QueryDict | None:
    """What a form is bound to: a GET never acts."""
    return request.POST if request.method == "POST" else None


def _page_of(row: Model) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
