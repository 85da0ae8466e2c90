"""All addresses of the service: the API's, the back office's, and those of the processes themselves."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

import authorizations.views
import consultas.views
import proposals.views
import webhooks.views
from authorizations import holder_views
from backoffice import partner_page, search
from backoffice.figures import views as figures
from config import documents, exceptions
from config.metrics import metrics
from foundation.backoffice.login import login, second_factor
from partners.failed_calls_api import FailedCallsView

admin.site.index_title = "Início"

_figures = [
    path("banks/", admin.site.admin_view(figures.banks), name="banks"),
    path("banks/<str:name>/", admin.site.admin_view(figures.bank), name="bank"),
    path("funnel/", admin.site.admin_view(figures.funnel), name="funnel"),
]
_holder = [
    path("<str:authorization_id>", holder_views.HolderPageView.as_view(), name="holder-page"),
    path("<str:authorization_id>/terms", holder_views.TermsView.as_view()),
    path("<str:authorization_id>/accept", holder_views.AcceptView.as_view(), name="accept"),
    path("<str:authorization_id>/code", holder_views.CodeView.as_view(), name="phone-code"),
    path("<str:authorization_id>/revoke", holder_views.RevokeOnPageView.as_view(), name="revoke-on-page"),
    path("<str:authorization_id>/decline", holder_views.DeclineView.as_view(), name="decline"),
]
_api: list[URLPattern | URLResolver] = [
    path("consultas", consultas.views.AggregatedQueryView.as_view()),
    path("consultas/stream", consultas.views.StreamedQueryView.as_view()),
    path("consultas/<str:query_id>", consultas.views.QueryView.as_view()),
    path("consultas/<str:query_id>/stream", consultas.views.QueryStreamView.as_view()),
    path("providers/<str:name>/consultas", consultas.views.IndividualQueryView.as_view()),
    path("auction-proposals/<str:proposal_key>", consultas.views.AuctionLookupView.as_view()),
    path("authorizations", authorizations.views.OpenView.as_view()),
    path("authorizations/<str:authorization_id>", authorizations.views.SessionView.as_view()),
    path("authorizations/<str:authorization_id>/dossier", authorizations.views.DossierView.as_view()),
    path("authorizations/<str:authorization_id>/revoke", authorizations.views.RevokeView.as_view()),
    path("authorizations/public/", include(_holder)),
    path("proposals", proposals.views.ProposalsView.as_view()),
    path("proposals/search", proposals.views.SearchView.as_view()),
    path("proposals/<str:proposal_id>", proposals.views.ProposalView.as_view()),
    path("proposals/<str:proposal_id>/formalize", proposals.views.FormalizeView.as_view()),
    path("proposals/<str:proposal_id>/cancel", proposals.views.CancelView.as_view()),
    path("providers", proposals.views.ProvidersView.as_view()),
    path("providers/<str:name>", proposals.views.ProviderView.as_view()),
    path("providers/<str:name>/options/<str:field>", proposals.views.OptionsView.as_view()),
    path("banks", proposals.views.BanksView.as_view()),
    path("bank-callbacks/<str:name>", proposals.views.BankCallbackView.as_view()),
    path("webhook", webhooks.views.WebhookView.as_view()),
    path("webhook-events", webhooks.views.EventsView.as_view()),
    path("webhook-events/test", webhooks.views.TestEventView.as_view()),
    path("webhook-events/<str:event_id>", webhooks.views.EventView.as_view()),
    path("webhook-events/<str:event_id>/resend", webhooks.views.ResendView.as_view()),
    path("failed-calls", FailedCallsView.as_view()),
]

urlpatterns = [
    path("", RedirectView.as_view(url="/docs/")),
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
    path("admin/figures/", include((_figures, "figures"))),
    path("admin/", admin.site.urls),
    path("schema/", documents.schema, name="schema"),
    path("docs/", documents.reference, name="docs"),
    path("docs/redoc.js", documents.script),
    path("docs/guia", RedirectView.as_view(url="/docs/guia/")),
    path("docs/guia/", documents.guide_page),
    path("docs/guia/<path:path>", documents.guide_page),
    path("docs/clientes/", RedirectView.as_view(url="/docs/guia/clientes.html")),
    path("docs/clientes/<str:name>", documents.client),
    path("partners/v1/", include(_api)),
]

handler400 = exceptions.handler400
handler403 = exceptions.handler403
handler404 = exceptions.handler404
handler500 = exceptions.handler500
