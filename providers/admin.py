"""The operator's page for banks. Credentials and the callbacks' secret go in and never come out: not in a page,
and not in the history."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from redis.exceptions import RedisError
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from foundation.backoffice.admins import FixedChoicesFilter, RobustAdmin
from providers import registry
from providers.breaker import Breaker
from providers.models import Circuit, Provider


class BankFilter(FixedChoicesFilter):
    """The filter of a list by bank."""

    title = "banco"
    parameter_name = "provider"
    choices_offered = tuple((name, name) for name in registry.names())


class ProviderForm(forms.ModelForm):
    """`new_credentials` is merged into what is stored, so that one secret can be renewed alone."""

    base_url = forms.CharField(
        label="Endereço base",
        max_length=200,
        widget=UnfoldAdminTextInputWidget,
        help_text="Como https://api.banco.com.br, sem barra no fim.",
    )
    new_credentials = forms.CharField(
        label="Novas credenciais",
        required=False,
        strip=True,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 4, "autocomplete": "off", "spellcheck": "false"}),
        help_text='Objeto JSON de textos, como {"client_secret": "…"}. As demais ficam como estão; '
        "null apaga uma; em branco, nada muda.",
    )

    new_callback_secret = forms.CharField(
        label="Novo segredo dos avisos",
        required=False,
        max_length=500,
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="Com ele o banco assina os avisos que envia. Em branco, nada muda.",
    )

    class Meta:
        model = Provider
        fields = ("name", "enabled", "base_url", "portfolio", "timeout_s", "max_in_flight", "circuit")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "name" in self.fields:  # on adding only
            taken = set(Provider.objects.values_list("name", flat=True))
            self.fields["name"] = forms.ChoiceField(
                label="Banco",
                choices=[(bank.name, bank.label) for bank in registry.BANKS if bank.name not in taken],
                widget=UnfoldAdminSelectWidget,
            )

    def clean_base_url(self) -> str:
        url: str = self.cleaned_data["base_url"].rstrip("/")
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            host = None
        if (
            not host
            or parts.scheme not in ("http", "https")
            or parts.query
            or parts.fragment
            or parts.username is not None
        ):
            raise ValidationError("Informe um endereço completo, como https://api.banco.com.br.")
        return url

    def clean_new_credentials(self) -> dict[str, str | None]:
        text = self.cleaned_data["new_credentials"]
        try:
            found = json.loads(text) if text else {}
        except (ValueError, RecursionError):
            raise ValidationError("Não é um JSON válido.") from None
        if not isinstance(found, dict) or not all(isinstance(value, str | None) for value in found.values()):
            raise ValidationError("Deve ser um objeto JSON cujos valores são textos.")
        return found

    def save(self, commit: bool = True) -> Provider:
        merged = {**self.instance.credentials, **self.cleaned_data["new_credentials"]}
        self.instance.credentials = {name: value for name, value in merged.items() if value is not None}
        self.instance.callback_secret = self.cleaned_data["new_callback_secret"] or self.instance.callback_secret
        provider: Provider = super().save(commit)
        return provider


#: The form's fields that take a secret in. They are no columns, and to whoever may only look they say nothing.
_SECRETS_IN = ("new_credentials", "new_callback_secret")
_BREAKER_WORDS = {
    "closed": "fechado",
    "half_open": "em teste",
    "open": "aberto",
    "unread": "desconhecido (Redis não responde)",
}


def _read_breakers(banks: list[Provider]) -> None:
    """Sets `breaker_state` of each."""
    try:
        states = Breaker.states(bank.name for bank in banks) if banks else {}
    except RedisError:
        states = {}
    for bank in banks:
        vars(bank)["breaker_state"] = states.get(bank.name, "unread")


@admin.register(Provider)
class ProviderAdmin(RobustAdmin):
    form = ProviderForm
    list_display = ("name", "label", "enabled", "breaker", "timeout_s", "max_in_flight", "updated_at")
    list_filter = ("enabled", "circuit")
    readonly_fields = ("stored_credentials", "stored_callback_secret", "breaker_now", "updated_at")
    fieldsets = (
        (None, {"fields": ("name", "enabled", "base_url", "portfolio")}),
        ("Credenciais", {"fields": ("stored_credentials", "new_credentials")}),
        ("Avisos do banco", {"fields": ("stored_callback_secret", "new_callback_secret")}),
        ("Limites", {"fields": ("timeout_s", "max_in_flight", "circuit", "breaker_now", "updated_at")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Provider]:
        """The list needs no secret; a bank's own page reads them."""
        banks: QuerySet[Provider] = super().get_queryset(request)
        return banks.defer("credentials", "callback_secret")

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """The fields. Those that take a secret in are for operators who may change the bank."""
        may_write = self.has_change_permission(request, obj) if obj else self.has_add_permission(request)
        if may_write:
            return super().get_fieldsets(request, obj)
        return [
            (title, {"fields": [name for name in options["fields"] if name not in _SECRETS_IN]})
            for title, options in super().get_fieldsets(request, obj)
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """A bank's name ties the row to its adapter: chosen once."""
        return self.readonly_fields if obj is None else ("name", *self.readonly_fields)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # contracts, queries and proposals refer to it; a bank is switched off

    @display(description="Banco")
    def label(self, provider: Provider) -> str:
        bank = registry.get(provider.name)
        return bank.label if bank else "sem adaptador"

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """The list, its breakers read by one look."""
        changes = super().get_changelist_instance(request)
        _read_breakers(list(changes.result_list))
        return changes

    @display(
        description="Disjuntor",
        ordering="circuit",
        label={
            "closed": "success",
            "half_open": "warning",
            "open": "danger",
            "unread": "warning",
            Circuit.OPEN.label: "danger",
            Circuit.CLOSED.label: "warning",
        },
    )
    def breaker(self, provider: Provider) -> str | tuple[str, str]:
        """How it stands now, where it is not forced."""
        if provider.circuit != Circuit.AUTO:
            return provider.get_circuit_display()
        if not hasattr(provider, "breaker_state"):
            _read_breakers([provider])
        state = vars(provider)["breaker_state"]
        return state, f"automático: {_BREAKER_WORDS[state]}"

    @display(description="Disjuntor agora")
    def breaker_now(self, provider: Provider) -> str:
        """The words alone: on a bank's own page nothing is coloured."""
        shown = self.breaker(provider)
        return shown if isinstance(shown, str) else shown[1]

    @display(description="Credenciais guardadas")
    def stored_credentials(self, provider: Provider) -> str:
        """The names only."""
        return ", ".join(sorted(provider.credentials)) or "nenhuma"

    @display(description="Segredo dos avisos")
    def stored_callback_secret(self, provider: Provider) -> str:
        """Only whether there is one."""
        return "guardado" if provider.callback_secret else "nenhum"
