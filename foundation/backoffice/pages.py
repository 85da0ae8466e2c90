"""Addresses of the back office's lists and rows, and pages of its own beside them: among them error pages for logged-in
operators, with the menu and a hint what to do."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from foundation.backoffice.gate import PREFIX
from foundation.models import AuditEntry

#: By status: title and text.
_WORDS = {
    403: (
        "Sem permissão",
        "A sua conta não tem a permissão que esta página pede. Quem administra as contas pode dar à sua um papel que a "
        "tenha. Se você enviou um formulário aberto há muito tempo, abra-o de novo.",
    ),
    404: (
        "Página não encontrada",
        "Nada existe neste endereço, ou o que existia foi apagado pelo prazo de guarda. Confira o identificador, ou "
        "procure por ele na busca.",
    ),
    503: (
        "Demorou demais",
        "A página pedia mais do que o banco de dados lê em alguns segundos. Escolha um período menor ou acrescente um "
        "filtro, e tente de novo.",
    ),
}


def list_of(model: type[Model], filters: str = "") -> str:
    """The address of the list of `model`, with `filters` as a query string."""
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    return f"{address}?{filters}" if filters else address


def page_of(row: Model | type[Model], key: Any = None) -> str:
    """The address of the page of `row`, or of the row of that model with the primary key `key`."""
    address = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    return reverse(address, args=[quote(row.pk if isinstance(row, Model) else key)])


def trail_of(model: type[Model], key: Any) -> str:
    """The address of the entries of the audit trail about the row of `model` with that primary key."""
    return list_of(AuditEntry, urlencode({"model": model._meta.label_lower, "object_id": key}))


def page(request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
    """A page in the back office's frame: its menu, and what every page shows."""
    return TemplateResponse(request, template, {**admin.site.each_context(request), "title": title, **context})


def refusal(request: HttpRequest, status: int) -> HttpResponse | None:
    """The page for `status` (403, 404, 503), for a logged-in operator. None for anyone else and outside the back
    office, so that nothing reveals the back office."""
    user = getattr(request, "user", None)
    if not request.path.startswith(PREFIX) or user is None or not (user.is_authenticated and user.is_staff):
        return None
    title, text = _WORDS[status]
    response = page(request, "backoffice/refused.html", title, text=text)
    response.status_code = status
    return response.render()
