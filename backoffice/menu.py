"""The back office's title, style sheet, scripts, first page and menu: settings of its theme (unfold)."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse, reverse_lazy


def _section(title: str, icon: str, page: str) -> dict[str, Any]:
    """A menu entry for the users who may view the page: a model's list, such as `partners/partner`, or a page of
    figures, such as `figures/banks`. The address is text, because the theme compares each with each on every page:
    with `reverse_lazy`, that took a quarter of a page's time."""
    app, name = page.split("/")
    permission = "figures.view_bankhour" if app == "figures" else f"{app}.view_{name}"
    return {
        "title": title,
        "icon": icon,
        "link": f"/admin/{page}/",
        "permission": lambda request: request.user.has_perm(permission),
    }


def _tab(title: str, page: str, permission: str) -> dict[str, Any]:
    """A tab of the partner or bank whose id stands in the request's URL. The page that adds one has no tabs."""

    def ids(request: HttpRequest) -> list[Any]:
        return list(request.resolver_match.kwargs.values()) if request.resolver_match else []

    return {
        "title": title,
        "link": lambda request: reverse(page, args=ids(request)),
        "permission": lambda request: bool(ids(request)) and request.user.has_perm(permission),
        "active": lambda request: getattr(request.resolver_match, "view_name", "") == page,
    }


#: The operators' guide, where its pages were generated.
_GUIDE = {
    "title": "Guia do operador",
    "icon": "menu_book",
    "link": "/admin/guia/operator-guide.html",
    "permission": lambda request: (settings.GUIDE_ROOT / "team" / "operator-guide.html").is_file(),
}

#: The product's green, which the holder's page has too, from light to dark. Links are 600 on white (6.5:1) and 500 on a
#: dark page (5.6:1).
_GREENS = {
    "50": "#ecf7f2",
    "100": "#d3ede2",
    "200": "#a8dcc7",
    "300": "#74c5a7",
    "400": "#45ab88",
    "500": "#2fa17c",
    "600": "#0b6b52",
    "700": "#095a45",
    "800": "#084838",
    "900": "#063a2d",
    "950": "#03211a",
}

#: The menu's sections. Lists that belong together are tabs of the first, which stands in the menu.
_MENU = {
    "Números": (
        (("Desempenho dos bancos", "monitoring", "figures/banks"),),
        (("Funil", "filter_alt", "figures/funnel"),),
    ),
    "Operação": (
        (
            ("Consultas", "search", "consultas/query"),
            ("Ofertas", "sell", "consultas/offer"),
            ("Passos do titular", "pending_actions", "consultas/step"),
        ),
        (("Propostas", "contract", "proposals/proposal"),),
        (("Sessões", "verified_user", "authorizations/session"), ("Termos", "gavel", "authorizations/terms")),
        (
            ("Exclusões de dados", "person_remove", "proposals/erasure"),
            ("Pedidos de exclusão", "group_remove", "proposals/erasurerequest"),
        ),
    ),
    "Parceiros": (
        (("Parceiros", "handshake", "partners/partner"), ("Chaves de API", "key", "partners/apikey")),
        (("Eventos de webhook", "webhook", "webhooks/event"),),
        (("Chamadas com falha", "running_with_errors", "partners/failedcall"),),
    ),
    "Configuração": (
        (("Bancos", "account_balance", "providers/provider"),),
        (("Usuários", "person", "auth/user"),),
        (("Auditoria", "history", "foundation/auditentry"),),
    ),
}

BACK_OFFICE: dict[str, Any] = {
    "SITE_TITLE": "Originação consignada",
    "SITE_HEADER": "Originação consignada",
    "SITE_SYMBOL": "account_balance",
    # Without an icon, browsers request /favicon.ico. The holder's page shows the same shield.
    "SITE_FAVICONS": [
        {
            "rel": "icon",
            "type": "image/svg+xml",
            "href": "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Cpath "
            "fill='%230b6b52' d='M12 1 3 5v6c0 5.5 3.8 10.7 9 12 5.2-1.3 9-6.5 9-12V5z'/%3E%3C/svg%3E",
        }
    ],
    "SHOW_VIEW_ON_SITE": False,
    "SITE_URL": None,  # the service has no site to look at
    "COLORS": {"primary": _GREENS},
    "STYLES": [lambda request: static("backoffice/backoffice.css"), lambda request: static("figures/figures.css")],
    "SCRIPTS": [
        lambda request: static("backoffice/copy.js"),
        lambda request: static("backoffice/accessible.js"),
    ],
    "ACCOUNT": {
        "navigation": [
            {"title": "Mudar a senha", "link": reverse_lazy("admin:password_change")},
            {"title": "Registrar outro telefone", "link": "/admin/second-factor/"},
        ]
    },
    "DASHBOARD_CALLBACK": "backoffice.first_page.with_problems",
    "TABS": [
        {
            "page": "partner",
            "models": [{"name": "partners.partner", "detail": True}],
            "items": [
                _tab("Atividade", "partner", "partners.view_partner"),
                _tab("Cadastro", "admin:partners_partner_change", "partners.view_partner"),
            ],
        },
        {
            "page": "bank",
            "models": [{"name": "providers.provider", "detail": True}],
            "items": [
                _tab("Desempenho", "figures:bank", "figures.view_bankhour"),
                _tab("Configuração", "admin:providers_provider_change", "providers.view_provider"),
            ],
        },
        *(
            {"models": [page.replace("/", ".") for _, _, page in lists], "items": [_section(*each) for each in lists]}
            for sections in _MENU.values()
            for lists in sections
            if len(lists) > 1
        ),
    ],
    "SIDEBAR": {
        "show_search": True,
        "navigation": [
            *(
                {"title": title, "separator": True, "items": [_section(*lists[0]) for lists in sections]}
                for title, sections in _MENU.items()
            ),
            {"title": "Ajuda", "separator": True, "items": [_GUIDE]},
        ],
    },
}
