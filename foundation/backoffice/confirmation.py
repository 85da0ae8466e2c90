"""Actions of the back office with a confirmation page, and pages that show a secret once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from unfold.decorators import action

from foundation import audit
from foundation.audit import Action
from foundation.backoffice.admins import RobustAdmin, is_offered
from foundation.backoffice.pages import page, page_of


@dataclass(frozen=True)
class Done:
    """What an action has done: `text` for the operator and the audit trail, and its kind there. Then comes a page with
    the `secrets`, by name, if it made any; or the page of `then`, or of the row itself."""

    text: str
    action: Action
    then: Model | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Confirmed:
    """Decorates an action on a row with its confirmation page: GET shows a form, and a valid POST runs the action on
    the locked row and records it.

    The action takes the request, the row and the valid form. `description` names the link, the page and its button;
    `icon` and `permission` belong to the link; `text`, which may name parts of the `row`, and `danger` to the page. For
    an action that the row's page does not offer, that page says so.
    """

    description: str
    icon: str
    permission: str
    text: str
    danger: bool = False
    form: Callable[[Any, QueryDict | None], forms.Form] = lambda row, data: forms.Form(data)

    def __call__(self, act: Callable[..., Done]) -> Any:
        @action(description=self.description, permissions=[self.permission], icon=self.icon)
        @wraps(act)
        def asking(pages: RobustAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
            return self._ask(pages, act, request, object_id)

        return asking

    def _ask(self, pages: RobustAdmin, act: Callable[..., Done], request: HttpRequest, object_id: str) -> HttpResponse:
        """The page that asks for confirmation; then the action, recorded as what it has `Done`. Raises Http404 and
        PermissionDenied."""
        with transaction.atomic():
            key = pages.row_of(request, object_id).pk
            row = pages.get_queryset(request).select_for_update(of=("self",)).get(pk=key)
            if not pages.has_view_permission(request, row):
                raise PermissionDenied
            if not is_offered(act, row):  # of two requests at the same moment, the second sees what the first did
                messages.info(request, "Nada foi feito: na situação de agora, esta ação não cabe.")
                return HttpResponseRedirect(page_of(row))
            form = self.form(row, request.POST if request.method == "POST" else None)
            if form.is_valid():
                before = audit.state(row)
                done = act(pages, request, row, form)
                changes = audit.differences(before, audit.state(row))
                audit.record(done.action, request=request, obj=row, changes=changes, detail=done.text)
                return _told(request, row, done)
        words = {"title": self.description, "text": self.text.format(row=row), "danger": self.danger}
        return pages.form_page(request, form, row, **words)


def _told(request: HttpRequest, row: Model, done: Done) -> HttpResponse:
    if done.secrets:
        return secrets_page(request, row, done.text.removesuffix("."), done.secrets)
    messages.success(request, done.text)
    return HttpResponseRedirect(page_of(done.then or row))


def secrets_page(request: HttpRequest, row: Model, title: str, secrets: Mapping[str, str]) -> HttpResponse:
    """The page that shows secrets, which have names."""
    words = {"opts": row._meta, "original": row, "back": page_of(row), "secrets": secrets}
    return page(request, "backoffice/secrets.html", title, **words)
