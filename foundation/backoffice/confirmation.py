"""Actions of the back office with a confirmation page, and pages that show a secret once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import reverse

from foundation.audit import Action
from foundation.backoffice.admins import RobustAdmin


class ConfirmedActionsAdmin(RobustAdmin):
    """Rows with confirmed actions: GET shows a form, POST runs the action and adds a line to the row's history."""

    def locked(self, request: HttpRequest, object_id: str) -> Any:
        """The row, locked until the end of the transaction. Raises Http404 and PermissionDenied."""
        if "\0" in object_id:  # PostgreSQL refuses NUL, which Django reports as a database error
            raise Http404
        try:
            row = self.get_queryset(request).select_for_update(of=("self",)).get(pk=object_id)
        except (self.model.DoesNotExist, ValidationError, ValueError):
            raise Http404 from None
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        if request.method == "POST":
            self.watch(request, row)
        return row

    def confirmation_page(self, request: HttpRequest, row: Model, form: forms.Form, **words: Any) -> HttpResponse:
        """The page with `form` and the button that runs the action. `words` are title, text, button, danger."""
        return self._page(request, row, "backoffice/confirm.html", {"form": form, **words})

    def after_confirmation(
        self,
        request: HttpRequest,
        object_id: str,
        change: Callable[[Any], object],
        text_done: str,
        *,
        action: Action,
        **words: Any,
    ) -> HttpResponse:
        """The page that asks for confirmation, with `words`; then `change` of the locked row, recorded as `text_done`
        (see `done`)."""
        with transaction.atomic():
            row = self.locked(request, object_id)
            if request.method == "POST":
                change(row)
                return self.done(request, row, text_done, action=action)
        return self.confirmation_page(request, row, forms.Form(), **words)

    def secrets_page(self, request: HttpRequest, row: Model, **words: Any) -> HttpResponse:
        """The page that shows secrets. `words` are title and `secrets`, a dict of secrets by name."""
        return self._page(request, row, "backoffice/secrets.html", words)

    def done(
        self, request: HttpRequest, row: Model, text: str, then: Model | None = None, *, action: Action = Action.PUSHED
    ) -> HttpResponse:
        """Record `text` in the row's history and the audit trail, show it as a message, and redirect to the page of
        `then` (default: the row)."""
        self.log_change(request, row, text, action=action)
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
    """The data to bind a form to: the POST data, or None for a GET, which never changes anything."""
    return request.POST if request.method == "POST" else None


def _page_of(row: Model) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[quote(row.pk)])
