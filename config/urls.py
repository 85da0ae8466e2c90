from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from backoffice import partner_page, search
from config import documents, exceptions, health
from config.metrics import metrics
from foundation.backoffice.login import login, second_factor

admin.site.index_title = "Início"

urlpatterns = [
    path("", RedirectView.as_view(url="/docs/")),
    path("health/live", health.live),
    path("health/ready", health.ready),
    path("metrics", metrics),
    # Django's redirect to a row's own page. No row has one here, and an invalid id would raise.
    path("admin/r/<path:row>", exceptions.unknown),
    path("admin/login/", login),
    path("admin/second-factor/", second_factor),
    path("admin/busca/", admin.site.admin_view(search.search), name="search"),
    path("admin/parceiro/<uuid:partner_id>/", admin.site.admin_view(partner_page.page), name="partner"),
    path("admin/titular/", admin.site.admin_view(search.holder), name="holder"),
    path("admin/guia/", RedirectView.as_view(url="/admin/guia/operator-guide.html")),
    path("admin/guia/<path:path>", admin.site.admin_view(documents.team_page)),
    path("admin/figures/", include("backoffice.figures.urls")),
    path("admin/", admin.site.urls),
    path("schema/", documents.schema, name="schema"),
    path("docs/", documents.reference, name="docs"),
    path("docs/redoc.js", documents.script),
    path("docs/guia", RedirectView.as_view(url="/docs/guia/")),
    path("docs/guia/", documents.guide_page),
    path("docs/guia/<path:path>", documents.guide_page),
    path("docs/clientes/", RedirectView.as_view(url="/docs/guia/clientes.html")),
    path("docs/clientes/<str:name>", documents.client),
    path("partners/v1/", include("consultas.urls")),
    path("partners/v1/", include("authorizations.urls")),
    path("partners/v1/", include("proposals.urls")),
    path("partners/v1/", include("webhooks.urls")),
    path("partners/v1/", include("partners.urls")),
]

handler400 = exceptions.handler400
handler403 = exceptions.handler403
handler404 = exceptions.handler404
handler500 = exceptions.handler500
