"""The operator's pages for API keys. They are issued, and listed, on their partner's page."""

from __future__ import annotations

from django import forms
from django.contrib import admin
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from unfold.decorators import action, display

from foundation.audit import Action
from foundation.backoffice.admins import NothingToSaveAdmin
from foundation.backoffice.confirmation import ConfirmedActionsAdmin, posted
from foundation.backoffice.exporting import ExportMixin
from partners.forms import NetworksForm
from partners.models import SECRETS_OF_PARTNER, ApiKey

_GOOD, _BAD, _OLD = "success", "danger", "warning"


@admin.register(ApiKey)
class ApiKeyAdmin(ExportMixin, ConfirmedActionsAdmin, NothingToSaveAdmin):
    """The keys. They are searched by prefix here and issued on their partner's page."""

    list_display = ("state", "prefix", "partner", "label", "created_at", "expires_at", "last_used_at")
    list_display_links = ("prefix",)
    list_per_page = 50
    list_select_related = ("partner",)
    search_fields = ("prefix", "label", "partner__name")
    fields = readonly_fields = (
        "id",
        "partner",
        "prefix",
        "label",
        "state",
        "created_at",
        "expires_at",
        "networks_now",
        "last_used_at",
        "revoked_at",
    )
    actions_detail = ("restrict", "revoke")

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return super().get_queryset(request).select_related("partner").defer(*SECRETS_OF_PARTNER)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # a revoked key is still needed to explain past calls

    @display(description="Situação", label={"ativa": _GOOD, "revogada": _BAD, "expirada": _OLD})
    def state(self, key: ApiKey) -> str:
        if key.revoked_at is not None:
            return "revogada"
        return "ativa" if key.is_live(timezone.now()) else "expirada"

    @display(description="Endereços permitidos")
    def networks_now(self, key: ApiKey) -> str:
        return ", ".join(key.networks) or "qualquer um"

    @action(description="Endereços permitidos", permissions=["change"], icon="lan")
    def restrict(self, request: HttpRequest, object_id: str) -> HttpResponse:
        with transaction.atomic():
            key = self.locked(request, object_id)
            form = NetworksForm(posted(request), initial={"networks": key.networks})
            if form.is_valid():
                key.networks = form.cleaned_data["networks"]
                key.save(update_fields=["networks"])
                return self.done(
                    request, key, f"Endereços permitidos: {self.networks_now(key)}.", action=Action.CHANGED
                )
        return self.confirmation_page(
            request,
            key,
            form,
            title="Endereços de que a chave vale",
            text="De qualquer outro endereço a chave é recusada a partir da próxima chamada, com o mesmo 401 de uma "
            "chave desconhecida.",
            button="Salvar",
        )

    @action(description="Revogar", permissions=["change"], icon="key_off")
    def revoke(self, request: HttpRequest, object_id: str) -> HttpResponse:
        with transaction.atomic():
            key = self.locked(request, object_id)
            if request.method == "POST":
                key.revoke()
                self.log_change(request, key.partner, f"Chave {key} revogada.", action=Action.REVOKED)
                return self.done(request, key, f"Chave {key} revogada.", then=key.partner, action=Action.REVOKED)
        return self.confirmation_page(
            request,
            key,
            forms.Form(),
            title="Revogar chave de API",
            text=f"A chave {key} de {key.partner} é recusada a partir da próxima chamada, para sempre.",
            button="Revogar",
            danger=True,
        )
