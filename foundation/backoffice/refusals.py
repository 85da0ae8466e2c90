"""The pages that an operator sees where the back office refuses: with its menu, and with what can be done."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from foundation.backoffice.gate import PREFIX

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
}


def refusal(request: HttpRequest, status: int) -> HttpResponse | None:
    """The page for a refusal with `status`, 403 or 404, to a logged-in operator. None for everybody else and outside
    of the back office: there nothing tells that it exists."""
    user = getattr(request, "user", None)
    if not request.path.startswith(PREFIX) or user is None or not (user.is_authenticated and user.is_staff):
        return None
    title, text = _WORDS[status]
    context = {**admin.site.each_context(request), "title": title, "text": text}
    return TemplateResponse(request, "backoffice/refused.html", context, status=status).render()
