"""The operator's pages for partners, their keys and the operators themselves.

A secret is shown on the page that answers the POST which made it, and nowhere else: not in the session, a
message, an address or the history. Each such form has a mark that is valid once, so that a repeated POST
(a double click, a reload) makes no second secret.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.models import ForeignKey, Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from unfold.admin import TabularInline
from unfold.decorators import action, display
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from foundation.backoffice.admins import LabelledInline, NothingToSaveAdmin
from foundation.backoffice.confirmation import ConfirmedActionsAdmin, posted
from foundation.encryption import blind_index
from partners.models import (
    MAX_KEY_DAYS,
    SECRET_FIELDS,
    SECRETS_OF_PARTNER,
    Allowance,
    ApiKey,
    Partner,
    WebhookEvent,
    default_webhook_events,
    split_names,
)
from providers.models import Provider

_GOOD, _BAD, _OLD = "success", "danger", "warning"


class HostsField(forms.CharField):
    """Host names, one a line; the value is a list."""

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        hosts = dict.fromkeys(line.strip().lower() for line in (super().to_python(value) or "").splitlines())
        return [host for host in hosts if host]


class NamesField(forms.CharField):
    """Names separated by commas; the value is a list."""

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return split_names(super().to_python(value) or "")

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool((initial or []) != self.to_python(data))


class AllowanceForm(forms.ModelForm):
    portfolios = NamesField(
        label="Carteiras que pode pedir",
        help_text="Separadas por vírgula. Sem carteira fixa, o originador da chamada vale só se estiver aqui.",
        required=False,
        widget=UnfoldAdminTextInputWidget,
    )


class PartnerForm(forms.ModelForm):
    """`new_id` is the id that a new partner will get, so that a repeated POST makes no second partner."""

    new_id = forms.UUIDField(widget=forms.HiddenInput)
    webhook_events = forms.MultipleChoiceField(
        label="Eventos do webhook",
        choices=WebhookEvent.choices,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        required=False,
        initial=default_webhook_events,
    )

    return_hosts = HostsField(
        label="Domínios de volta",
        help_text="Um por linha, como chat.exemplo.com.br. Só a eles a página de autorização leva o titular de volta.",
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance._state.adding:
            self.fields.pop("new_id", None)

    def clean(self) -> dict[str, Any] | None:
        new_id = self.cleaned_data.get("new_id")
        if new_id:
            with connection.cursor() as cursor:  # a double click comes at the same moment
                cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"partner {new_id}"])
            if Partner.objects.filter(pk=new_id).exists():
                raise ValidationError(
                    "Este parceiro já foi criado, com chave e segredo mostrados. Se eles se perderam, abra o "
                    "parceiro, emita outra chave e troque o segredo."
                )
            self.instance.pk = new_id
        return super().clean()


class IssueKeyForm(forms.Form):
    key_id = forms.UUIDField(widget=forms.HiddenInput)
    label = forms.CharField(label="Rótulo", max_length=60, required=False, widget=UnfoldAdminTextInputWidget)
    days = forms.IntegerField(
        label="Validade em dias",
        help_text="Vazio: a chave não expira.",
        min_value=1,
        max_value=MAX_KEY_DAYS,
        required=False,
        widget=UnfoldAdminIntegerFieldWidget,
    )

    def clean_key_id(self) -> uuid.UUID:
        key_id: uuid.UUID = self.cleaned_data["key_id"]
        if ApiKey.objects.filter(pk=key_id).exists():
            raise ValidationError("Esta chave já foi emitida e mostrada. Se ela se perdeu, emita outra.")
        return key_id


class RotateSecretForm(forms.Form):
    """`mark` tells which secret the operator meant to replace, without telling the secret."""

    mark = forms.CharField(widget=forms.HiddenInput, required=False)

    def __init__(self, partner: Partner, data: Any = None) -> None:
        self.current = blind_index("webhook-secret", partner.webhook_secret or "")
        super().__init__(data, initial={"mark": self.current})

    def clean_mark(self) -> None:
        if self.cleaned_data["mark"] != self.current:
            raise ValidationError("O segredo já foi trocado e mostrado. Se ele se perdeu, troque-o de novo.")


class AllowanceInline(LabelledInline):
    model = Allowance
    form = AllowanceForm
    fields = ("provider", "portfolio", "portfolios")
    extra = 0
    hide_title = True

    def formfield_for_foreignkey(
        self, db_field: ForeignKey, request: HttpRequest, **kwargs: Any
    ) -> forms.ModelChoiceField | None:
        kwargs["queryset"] = Provider.objects.only("name")  # a list of names needs no bank's credentials
        return super().formfield_for_foreignkey(db_field, request, **kwargs)


class KeyState:
    """How a key stands, in the columns of both its list and its partner's page."""

    @display(description="Situação", label={"ativa": _GOOD, "revogada": _BAD, "expirada": _OLD})
    def state(self, key: ApiKey) -> str:
        if key.revoked_at is not None:
            return "revogada"
        return "ativa" if key.is_live(timezone.now()) else "expirada"


class ApiKeyInline(KeyState, TabularInline):
    model = ApiKey
    fields = readonly_fields = (
        "prefix",
        "label",
        "state",
        "created_at",
        "expires_at",
        "last_used_at",
        "revocation",
    )
    extra = 0
    can_delete = False
    hide_title = True

    @display(description="Revogação")
    def revocation(self, key: ApiKey) -> str:
        if key.revoked_at is not None:
            return date_format(timezone.localtime(key.revoked_at), "SHORT_DATETIME_FORMAT")
        return format_html(
            '<a class="text-red-600 font-medium" href="{}">Revogar</a>',
            reverse("admin:partners_apikey_revoke", args=[key.pk]),
        )

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(Partner)
class PartnerAdmin(ConfirmedActionsAdmin):
    form = PartnerForm
    list_display = ("name", "situation", "banks", "webhook_url", "created_at")
    list_filter = ("status",)
    search_fields = ("name", "id")
    readonly_fields = ("id", "situation", "secret", "created_at")
    fieldsets = (
        (None, {"fields": ("name", "id", "situation", "rate_limit", "created_at")}),
        ("Página de autorização", {"fields": ("cnpj", "privacy_contact", "return_hosts", "json_acceptance")}),
        ("Webhook", {"fields": ("webhook_url", "webhook_events", "secret")}),
    )
    inlines = (AllowanceInline, ApiKeyInline)
    actions_detail = ("issue_key", "rotate_secret", "suspend", "resume")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Partner]:
        # Fields that are not read are not written when the form is saved: so the secrets stay as they are.
        unread = super().get_queryset(request).defer(*SECRET_FIELDS)
        return unread.prefetch_related("allowances")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # queries and proposals refer to it; a partner that must not call is suspended

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """The fields. The page that adds a partner has only those that can be filled in."""
        if obj is not None:
            return super().get_fieldsets(request, obj)
        webhook = ("Webhook", {"fields": ("webhook_url", "webhook_events")})
        page = ("Página de autorização", {"fields": ("cnpj", "privacy_contact", "return_hosts", "json_acceptance")})
        return ((None, {"fields": ("new_id", "name", "rate_limit")}), page, webhook)

    def get_inlines(self, request: HttpRequest, obj: Model | None) -> Any:
        return self.inlines if obj else (AllowanceInline,)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().get_changeform_initial_data(request), "new_id": uuid.uuid4()}

    def response_add(self, request: HttpRequest, obj: Partner, post_url_continue: str | None = None) -> HttpResponse:
        """Give a new partner a webhook secret, without which its events would wait, and its first key."""
        secrets = {}
        if self.has_issue_permission(request):
            key, secrets["Chave de API"] = ApiKey.issue(obj)
            self.log_change(request, obj, f"Chave {key} emitida.")
        secrets["Segredo do webhook"] = obj.rotate_webhook_secret()
        return self.secrets_page(request, obj, title="Parceiro criado", secrets=secrets)

    def has_issue_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """True for operators who may add keys, whether or not they may change partners."""
        return request.user.has_perm("partners.add_apikey")

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """The page's actions. Of suspend and resume only the one that would change something."""
        partner = self.row_of(request, object_id)
        suspended = partner is not None and partner.status == Partner.Status.SUSPENDED
        idle = "partners_partner_suspend" if suspended else "partners_partner_resume"
        offered = super().get_actions_detail(request, object_id)
        return [each for each in offered if each.action_name != idle]

    @display(
        description="Situação",
        ordering="status",
        label={Partner.Status.ACTIVE.label: _GOOD, Partner.Status.SUSPENDED.label: _BAD},
    )
    def situation(self, partner: Partner) -> str:
        return partner.get_status_display()

    @display(description="Bancos")
    def banks(self, partner: Partner) -> str:
        return ", ".join(allowance.provider_id for allowance in partner.allowances.all()) or "nenhum"

    @display(description="Segredo do webhook")
    def secret(self, partner: Partner) -> str:
        if not partner.webhook_secret:
            return "não emitido: nenhum evento é entregue"
        ends = [
            date_format(timezone.localtime(until), "SHORT_DATETIME_FORMAT") for _, until in partner.retiring_secrets()
        ]
        if not ends:
            return "emitido"
        if len(ends) == 1:
            return f"emitido; o anterior ainda vale até {ends[0]}"
        return f"emitido; os {len(ends)} anteriores ainda valem até {', '.join(ends)}"

    @action(description="Emitir chave", permissions=["issue"], icon="key")
    def issue_key(self, request: HttpRequest, object_id: str) -> HttpResponse:
        with transaction.atomic():
            partner = self.locked(request, object_id)
            form = IssueKeyForm(posted(request), initial={"key_id": uuid.uuid4()})
            if form.is_valid():
                data = form.cleaned_data
                validity = timedelta(days=data["days"]) if data["days"] else None
                key, secret = ApiKey.issue(partner, data["label"], validity, pk=data["key_id"])
                self.log_change(request, partner, f"Chave {key} emitida.")
                return self.secrets_page(request, partner, title="Chave emitida", secrets={"Chave de API": secret})
        return self.confirmation_page(
            request,
            partner,
            form,
            title="Emitir chave de API",
            text="As outras chaves do parceiro continuam valendo. A nova chave é mostrada uma única vez.",
            button="Emitir chave",
        )

    @action(description="Trocar segredo do webhook", permissions=["change"], icon="autorenew")
    def rotate_secret(self, request: HttpRequest, object_id: str) -> HttpResponse:
        with transaction.atomic():
            partner = self.locked(request, object_id)
            form = RotateSecretForm(partner, posted(request))
            if form.is_valid():
                secret = partner.rotate_webhook_secret()
                self.log_change(request, partner, "Segredo do webhook trocado.")
                secrets = {"Segredo do webhook": secret}
                return self.secrets_page(request, partner, title="Segredo trocado", secrets=secrets)
        return self.confirmation_page(
            request,
            partner,
            form,
            title="Trocar segredo do webhook",
            text="O novo segredo é mostrado uma única vez e passa a assinar X-Service-Signature. "
            "No cabeçalho webhook-signature cada segredo anterior ainda vale por 24 horas desde a sua troca.",
            button="Trocar segredo",
        )

    @action(description="Suspender", permissions=["change"], icon="block")
    def suspend(self, request: HttpRequest, object_id: str) -> HttpResponse:
        with transaction.atomic():
            partner = self.locked(request, object_id)
            if request.method == "POST":
                partner.suspend()
                return self.done(request, partner, "Parceiro suspenso.")
        return self.confirmation_page(
            request,
            partner,
            forms.Form(),
            title="Suspender parceiro",
            text="A partir da próxima chamada, todas as chaves do parceiro são recusadas.",
            button="Suspender",
            danger=True,
        )

    @action(description="Reativar", permissions=["change"], icon="check_circle")
    def resume(self, request: HttpRequest, object_id: str) -> HttpResponse:
        with transaction.atomic():
            partner = self.locked(request, object_id)
            if request.method == "POST":
                partner.resume()
                return self.done(request, partner, "Parceiro reativado.")
        return self.confirmation_page(
            request,
            partner,
            forms.Form(),
            title="Reativar parceiro",
            text="As chaves não revogadas do parceiro voltam a ser aceitas na próxima chamada.",
            button="Reativar",
        )


@admin.register(ApiKey)
class ApiKeyAdmin(KeyState, ConfirmedActionsAdmin, NothingToSaveAdmin):
    """Keys are found here by their prefix; they are issued on their partner's page."""

    list_display = ("prefix", "partner", "label", "state", "created_at", "expires_at", "last_used_at")
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
        "last_used_at",
        "revoked_at",
    )
    actions_detail = ("revoke",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return super().get_queryset(request).select_related("partner").defer(*SECRETS_OF_PARTNER)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # a revoked key still explains the past

    @action(description="Revogar", permissions=["change"], icon="key_off")
    def revoke(self, request: HttpRequest, object_id: str) -> HttpResponse:
        with transaction.atomic():
            key = self.locked(request, object_id)
            if request.method == "POST":
                key.revoke()
                self.log_change(request, key.partner, f"Chave {key} revogada.")
                return self.done(request, key, f"Chave {key} revogada.", then=key.partner)
        return self.confirmation_page(
            request,
            key,
            forms.Form(),
            title="Revogar chave de API",
            text=f"A chave {key} de {key.partner} é recusada a partir da próxima chamada, para sempre.",
            button="Revogar",
            danger=True,
        )
