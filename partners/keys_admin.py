"""The operator's pages for API keys. They are issued, and listed, on their partner's page."""

from __future__ import annotations

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from foundation.audit import Action
from foundation.backoffice.admins import NothingToSaveAdmin
from foundation.backoffice.cells import Column
from foundation.backoffice.confirmation import Confirmed, ConfirmedActionsAdmin, Done
from foundation.backoffice.exporting import ExportMixin
from partners.forms import NetworksForm
from partners.models import SECRETS_OF_PARTNER, ApiKey


def _state(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return "revogada"
    return "ativa" if key.is_live(timezone.now()) else "expirada"


@admin.register(ApiKey)
class ApiKeyAdmin(ExportMixin, ConfirmedActionsAdmin, NothingToSaveAdmin):
    """The keys. They are searched by prefix here and issued on their partner's page."""

    list_display = ("state", "prefix", "partner", "label", "created_at", "expires_at", "last_used_at")
    list_display_links = ("prefix",)
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
    state = Column("Situação", _state, label={"ativa": "success", "revogada": "danger", "expirada": "warning"})
    networks_now = Column("Endereços permitidos", lambda key: ", ".join(key.networks) or "qualquer um")

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return super().get_queryset(request).select_related("partner").defer(*SECRETS_OF_PARTNER)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @Confirmed(
        "Endereços permitidos",
        "lan",
        "change",
        title="Endereços de que a chave vale",
        text="De qualquer outro endereço a chave é recusada a partir da próxima chamada, com o mesmo 401 de uma chave "
        "desconhecida.",
        button="Salvar",
        form=lambda key, data: NetworksForm(data, initial={"networks": key.networks}),
    )
    def restrict(self, request: HttpRequest, key: ApiKey, form: NetworksForm) -> Done:
        key.networks = form.cleaned_data["networks"]
        key.save(update_fields=["networks"])
        return Done(f"Endereços permitidos: {self.networks_now(key)}.", Action.CHANGED)

    @Confirmed(
        "Revogar",
        "key_off",
        "change",
        title="Revogar chave de API",
        text=lambda key: f"A chave {key} de {key.partner} é recusada a partir da próxima chamada, para sempre.",
        button="Revogar",
        danger=True,
    )
    def revoke(self, request: HttpRequest, key: ApiKey, form: forms.Form) -> Done:
        key.revoke()
        done = Done(f"Chave {key} revogada.", Action.REVOKED, then=key.partner)
        self.log_change(request, key.partner, done.text, action=done.action)
        return done
