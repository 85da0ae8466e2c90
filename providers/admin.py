"""The operator's page for banks. An operator can store credentials and the callback secret here. No page and no history
entry ever shows their values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from unfold.decorators import action, display
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from foundation import audit
from foundation.backoffice.admins import FixedChoicesFilter, LabelledInline
from foundation.backoffice.confirmation import ConfirmedActionsAdmin, posted
from foundation.boxes import merged
from foundation.http import NeverSent, Why, origin_of
from foundation.http.addresses import host_of, parsed
from providers import registry
from providers.certificates import REMOVE, Change, described
from providers.health import Health, Kind, health_of
from providers.maintenance import Maintenance
from providers.models import Provider, rules_of_addresses


class BankFilter(FixedChoicesFilter):
    """The filter of a list by bank."""

    title = "banco"
    parameter_name = "provider"
    choices_offered = tuple((name, name) for name in registry.names())


def _secret_text(label: str, help_text: str, rows: int = 4) -> forms.CharField:
    """A field for a text that no page shows again."""
    widget = UnfoldAdminTextareaWidget(attrs={"rows": rows, "autocomplete": "off", "spellcheck": "false"})
    return forms.CharField(label=label, required=False, strip=True, widget=widget, help_text=help_text)


class ProviderForm(forms.ModelForm):
    """`new_credentials` is merged into the stored credentials, so that an operator can renew one secret without typing
    the others. The fields of the way to the bank are those of `providers.certificates.Change`."""

    base_url = forms.CharField(
        label="Endereço base",
        max_length=200,
        widget=UnfoldAdminTextInputWidget,
        help_text="Como https://api.banco.com.br, sem barra no fim.",
    )
    new_credentials = _secret_text(
        "Novas credenciais",
        'Objeto JSON de textos, como {"client_secret": "…"}. As demais ficam como estão; null apaga uma; '
        "em branco, nada muda.",
    )
    new_certificate = _secret_text(
        "Novo certificado de cliente",
        "Em PEM, com os emissores. O anterior serve até o banco aceitar este. Em branco, nada muda; um hífen apaga.",
    )
    new_private_key = _secret_text("Chave privada do certificado", "Em PEM, sem senha.")
    new_authorities = _secret_text(
        "Novas autoridades do banco",
        "Em PEM. Só elas podem ter emitido o certificado do banco. Em branco, nada muda; um hífen volta às da máquina.",
    )
    new_proxy = _secret_text(
        "Novo proxy de saída",
        "Como http://usuario:senha@host:porta. Em branco, nada muda; um hífen apaga.",
        rows=1,
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
            registered = set(Provider.objects.values_list("name", flat=True))
            self.fields["name"] = forms.ChoiceField(
                label="Banco",
                choices=[(bank.name, bank.label) for bank in registry.BANKS if bank.name not in registered],
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
        try:
            check_address(url)
        except NeverSent:
            raise ValidationError(
                "Em produção o endereço é https e público. Exceções estão na variável BANK_PRIVATE_HOSTS."
            ) from None
        return url

    def clean_new_credentials(self) -> dict[str, str | None]:
        text = self.cleaned_data["new_credentials"]
        try:
            credentials = json.loads(text) if text else {}
        except (ValueError, RecursionError):
            raise ValidationError("Não é um JSON válido.") from None
        if not isinstance(credentials, dict) or not all(
            isinstance(value, str | None) for value in credentials.values()
        ):
            raise ValidationError("Deve ser um objeto JSON cujos valores são textos.")
        return credentials

    def clean(self) -> dict[str, Any]:
        """With a new origin all secrets must be typed again, because they were sealed for the old one."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        is_elsewhere = origin_of(cleaned.get("base_url", "")) != origin_of(self.initial.get("base_url", ""))
        if is_elsewhere and self.initial and "base_url" in cleaned and "new_credentials" in cleaned:
            self._forget_secrets(cleaned)
        self.change = Change(**{each.name: cleaned.get(f"new_{each.name}", "") for each in fields(Change)})
        try:
            self.change.check()
        except ValidationError as fault:
            for name, messages in fault.message_dict.items():
                self.add_error(f"new_{name}", messages)
        else:  # the trail shows fingerprints
            cleaned |= {name: described(cleaned[name]) for name in _PEM if cleaned.get(name, REMOVE) != REMOVE}
        return cleaned

    def _forget_secrets(self, typed: Mapping[str, Any]) -> None:
        """Remove the stored secrets. The form is refused unless each of them is typed again, or removed."""
        provider = self.instance
        if missing := sorted(name for name in provider.credentials if name not in typed["new_credentials"]):
            text = f"As credenciais guardadas são de outro endereço: digite todas de novo ({', '.join(missing)})."
            self.add_error("new_credentials", text)
        stored = {"new_certificate": provider.certificate, "new_proxy": "proxy" in provider.way_secrets}
        for name, is_stored in stored.items():
            if is_stored and not typed.get(name):
                self.add_error(name, "O que está guardado é de outro endereço: digite de novo, ou um hífen.")
        provider.credentials, provider.way_secrets = {}, {}
        provider.certificate = provider.former_certificate = ""

    def save(self, commit: bool = True) -> Provider:
        self.instance.change_way(self.change)
        if "new_credentials" in self.cleaned_data:
            self.instance.credentials = merged(self.instance.credentials, self.cleaned_data["new_credentials"])
            self.instance.callback_secret = self.cleaned_data["new_callback_secret"] or self.instance.callback_secret
        provider: Provider = super().save(commit)
        return provider


def check_address(url: str) -> None:
    """Raises NeverSent if no bank may have the address `url`. Resolves no name: the connection asks again."""
    rules, parts = rules_of_addresses(), parsed(url)
    rules.check(parts)
    with suppress(ValueError):
        if not rules.allows(ip_address(host_of(parts)), host_of(parts)):
            raise NeverSent(Why.BLOCKED)


#: Form fields in which an operator types a secret. They are not columns.
_SECRETS_IN = ("new_credentials", "new_callback_secret", *(f"new_{each.name}" for each in fields(Change)))
_PEM = ("new_certificate", "new_authorities")
#: Who may change a bank's address and type its secrets.
_ACCOUNT = "providers.change_account"


class CloseForm(forms.Form):
    """The end and the reason of a window out of service that starts now."""

    minutes = forms.IntegerField(
        label="Por quantos minutos",
        min_value=1,
        max_value=7 * 24 * 60,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="A partir de agora. Uma janela mais tarde se escreve na página do banco.",
    )
    reason = forms.CharField(
        label="Motivo",
        max_length=200,
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}),
        help_text="Os parceiros leem este texto.",
    )


class MaintenanceInline(LabelledInline):
    """The bank's windows out of service: future, current and past ones."""

    model = Maintenance
    fields = ("starts_at", "ends_at", "reason")
    extra = 0
    hide_title = True


@admin.register(Provider)
class ProviderAdmin(ConfirmedActionsAdmin):
    form = ProviderForm
    inlines = (MaintenanceInline,)
    actions_detail = ("close", "reopen")
    list_display = ("name", "label", "standing", "timeout_s", "max_in_flight", "updated_at")
    list_filter = ("enabled", "circuit")
    readonly_fields = ("stored_credentials", "stored_callback_secret", "stored_way", "standing_now", "updated_at")
    fieldsets = (
        (None, {"fields": ("name", "standing_now", "enabled", "circuit", "base_url", "portfolio")}),
        ("Credenciais", {"fields": ("stored_credentials", "new_credentials")}),
        ("Caminho até o banco", {"fields": ("stored_way", *_SECRETS_IN[2:])}),
        ("Avisos do banco", {"fields": ("stored_callback_secret", "new_callback_secret")}),
        ("Limites", {"fields": ("timeout_s", "max_in_flight", "updated_at")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Provider]:
        """Leave the encrypted columns out of the list's query. A bank's own page loads them when needed."""
        banks: QuerySet[Provider] = super().get_queryset(request)
        return banks.defer("credentials", "callback_secret", "way_secrets", "certificate", "authorities")

    def get_inlines(self, request: HttpRequest, obj: Model | None) -> Any:
        return self.inlines if obj else ()

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """The fieldsets. The fields that take a secret are shown only to operators who may write them."""
        if self._may_write_account(request, obj):
            return super().get_fieldsets(request, obj)
        return [
            (title, {"fields": [name for name in options["fields"] if name not in _SECRETS_IN]})
            for title, options in super().get_fieldsets(request, obj)
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """`name` can be set only when the bank is added, because it selects the adapter. The address decides where the
        credentials go, so it is for those who may write them."""
        fixed = ("name",) if obj else ()
        return (*fixed, *(() if self._may_write_account(request, obj) else ("base_url",)), *self.readonly_fields)

    def get_form(self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: Any) -> Any:
        """The form. For others than those who may write secrets it has no field that takes one."""
        if not self._may_write_account(request, obj):
            kwargs["form"] = type("ProviderForm", (ProviderForm,), dict.fromkeys(_SECRETS_IN))
        return super().get_form(request, obj, change, **kwargs)

    def _may_write_account(self, request: HttpRequest, obj: Model | None) -> bool:
        may_write = self.has_change_permission(request, obj) if obj else self.has_add_permission(request)
        return may_write and request.user.has_perm(_ACCOUNT)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and request.user.has_perm(_ACCOUNT)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # contracts, queries and proposals refer to the bank: an operator disables it instead

    @display(description="Banco")
    def label(self, provider: Provider) -> str:
        bank = registry.get(provider.name)
        return bank.label if bank else "sem adaptador"

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """The list. The states of all banks are read together."""
        changes = super().get_changelist_instance(request)
        banks = list(changes.result_list)
        states = health_of([bank.name for bank in banks])
        for bank in banks:
            vars(bank)["health"] = states[bank.name]
        return changes

    @display(
        description="Agora",
        ordering="circuit",
        label={
            Kind.FINE: "success",
            Kind.UNGUARDED: "warning",
            Kind.WINDOW: "info",
            Kind.OFF: "info",
            Kind.PROBING: "warning",
            Kind.UNREAD: "warning",
            **dict.fromkeys((Kind.FAILING, Kind.CREDENTIALS, Kind.PARTIAL, Kind.OUT), "danger"),
        },
    )
    def standing(self, provider: Provider) -> tuple[str, str]:
        """How the bank does now, and the words for it."""
        health = self._health(provider)
        return health.kind, health.words()

    @display(description="Agora")
    def standing_now(self, provider: Provider) -> str:
        """The words without the colour, since when, and what to do, for the bank's own page."""
        health = self._health(provider)
        return " — ".join(filter(None, (health.words(), health.began, health.detail(), health.advice)))

    def _health(self, provider: Provider) -> Health:
        known: dict[str, Health] = vars(provider)
        if "health" not in known:
            known["health"] = health_of([provider.name]).get(provider.name, Health(Kind.OFF, "ainda sem cadastro"))
        return known["health"]

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """The page's actions, with either `close` or `reopen`: the one that changes the bank's current state."""
        offered = super().get_actions_detail(request, object_id)
        provider = self.row_of(request, object_id)
        idle = "close" if provider is not None and Maintenance.now([provider.pk]) else "reopen"
        return [each for each in offered if each.action_name != f"providers_provider_{idle}"]

    @action(description="Pôr fora do ar", permissions=["change"], icon="block")
    def close(self, request: HttpRequest, object_id: str) -> HttpResponse:
        form = CloseForm(posted(request))
        with transaction.atomic():
            provider = self.locked(request, object_id)
            if form.is_valid():
                until = timezone.now() + timedelta(minutes=form.cleaned_data["minutes"])
                window = Maintenance.objects.create(
                    provider=provider, ends_at=until, reason=form.cleaned_data["reason"]
                )
                return self.done(request, provider, f"{provider}: {window}.", action=audit.Action.SUSPENDED)
        return self.confirmation_page(
            request,
            provider,
            form,
            title="Pôr o banco fora do ar",
            text="Ninguém chama o banco até lá. Consultas dizem bank_closed com o motivo, envios são recusados sem "
            "sair, e o que já foi enviado é procurado depois. No fim o banco volta por si.",
            button="Pôr fora do ar",
            danger=True,
        )

    @action(description="Pôr de volta no ar", permissions=["change"], icon="check_circle")
    def reopen(self, request: HttpRequest, object_id: str) -> HttpResponse:
        with transaction.atomic():
            provider = self.locked(request, object_id)
            if request.method == "POST":
                now = timezone.now()
                windows = Maintenance.objects.filter(provider=provider, starts_at__lt=now, ends_at__gt=now)
                windows.update(ends_at=now)
                return self.done(request, provider, f"{provider}: de volta no ar.", action=audit.Action.RESUMED)
        return self.confirmation_page(
            request,
            provider,
            forms.Form(),
            title="Pôr o banco de volta no ar",
            text="A janela de agora termina já, e o banco volta a ser chamado. As que ainda não começaram ficam.",
            button="Pôr de volta",
        )

    @display(description="Credenciais guardadas")
    def stored_credentials(self, provider: Provider) -> str:
        """The names of the stored credentials, without their values."""
        return ", ".join(sorted(provider.credentials)) or "nenhuma"

    @display(description="Guardado")
    def stored_way(self, provider: Provider) -> str:
        """Fingerprints and ends of the certificates, and whether there is a proxy."""
        named = {
            "certificado": described(provider.certificate),
            "anterior, até o banco aceitar o novo": described(provider.former_certificate),
            "autoridades": described(provider.authorities),
            "proxy": "guardado" if "proxy" in provider.way_secrets else "",
        }
        lines = [(name, words) for name, words in named.items() if words]
        return format_html_join(mark_safe("<br>"), "{}: {}", lines) or "nada"

    @display(description="Segredo dos avisos")
    def stored_callback_secret(self, provider: Provider) -> str:
        """Whether a secret is stored, without its value."""
        return "guardado" if provider.callback_secret else "nenhum"
