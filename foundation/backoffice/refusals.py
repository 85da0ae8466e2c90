"""Error pages of the back office for logged-in operators, with the menu and a hint what to do."""

from django.http import HttpRequest, HttpResponse

from foundation.backoffice.gate import PREFIX
from foundation.backoffice.pages import page

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
