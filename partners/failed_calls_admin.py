"""The operator's page for API calls that failed."""

from __future__ import annotations

from http import HTTPStatus
from types import MappingProxyType

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from foundation.backoffice.admins import FixedChoicesFilter, ReadOnlyAdmin
from foundation.backoffice.cells import Column, link_to
from foundation.errors import api_errors
from partners.failed_calls import FailedCall
from partners.models import SECRETS_OF_PARTNER

CodeFilter = FixedChoicesFilter.of("code", "código", lambda: [(error.code, error.code) for error in api_errors()])
StatusFilter = FixedChoicesFilter.of(
    "status", "HTTP", lambda: [(status.value, status.value) for status in HTTPStatus if status >= 400]
)


@admin.register(FailedCall)
class FailedCallAdmin(ReadOnlyAdmin):
    """Failed calls, read-only: the route and the reply's error. Bodies are not kept."""

    list_display = ("outcome", "at", "partner", "call", "field", "request_id", "times")
    list_display_links = ("at",)
    exported_as = MappingProxyType({"outcome": ("status", "code"), "call": ("method", "route")})
    list_filter = (CodeFilter, StatusFilter, ("partner", AutocompleteSelectFilter), "at")
    list_select_related = ("partner",)
    search_fields = ("request_id__exact", "key_prefix__exact")
    search_help_text = "X-Request-Id ou prefixo da chave, inteiros"
    fields = readonly_fields = (
        "at",
        "partner_page",
        "key_prefix",
        "call",
        "status",
        "code",
        "field",
        "request_id",
        "times",
    )
    call = Column("chamada", lambda row: f"{row.method} {row.route}")
    outcome = Column(
        "resposta",
        lambda row: (row.status // 100, f"{row.status} {row.code}".strip()),
        label={4: "warning", 5: "danger"},
    )
    partner_page = Column(
        "parceiro",
        lambda row: (
            link_to("partners_partner", row.partner_id, str(row.partner))
            if row.partner
            else "desconhecido: a chave não foi aceita, ou não veio"
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[FailedCall]:
        calls: QuerySet[FailedCall] = super().get_queryset(request)
        return calls.select_related("partner").defer(*SECRETS_OF_PARTNER)
