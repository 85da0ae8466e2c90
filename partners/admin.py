"""The operator's pages for partners, their keys, and their API calls that failed.

A secret is shown only on the page that answers the POST that created it: not in the session, a message, a URL or the
audit trail. Each such form has a single-use id, so that a repeated POST creates no second secret.
"""

import uuid
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from unfold.admin import ModelAdmin
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from foundation import audit
from foundation.audit import Action
from foundation.backoffice.admins import (
    FixedChoicesFilter,
    LabelledInline,
    List,
    ReadOnlyAdmin,
    RobustAdmin,
    conditions,
    offered_if,
)
from foundation.backoffice.cells import Column, link
from foundation.backoffice.confirmation import Confirmed, Done, secrets_page
from foundation.backoffice.exporting import ExportMixin
from foundation.backoffice.pages import page_of
from foundation.errors import api_errors
from foundation.formats import cnpj_is_valid, unmask_cnpj
from partners import registration
from partners.failed_calls import FailedCall
from partners.forms import AllowanceForm, IssueKeyForm, NetworksForm, PartnerForm, RotateSecretForm
from partners.models import SECRET_FIELDS, SECRETS_OF_PARTNER, VISIBLE, Allowance, ApiKey, Partner
from partners.registration import LIMITS, PAGE, WEBHOOK
from providers import registry
from providers.health import Health, named
from providers.judging import health_of
from providers.models import Provider

#: The filter of a list by its rows' partner.
PARTNER_FILTER = ("partner", AutocompleteSelectFilter)
_HELD = "suspenso, entregas retidas"
#: The shortest part of a partner's name by which the menu's search finds it.
_SHORTEST_NAME = 3
#: The permission to issue keys. Who has it need not be allowed to change partners.
_ISSUE = "partners.add_apikey"


class OfPartnerAdmin(ModelAdmin):
    """Rows of a partner, which is read without its secrets. `read_with` are further relations, `unread` columns."""

    read_with: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.select_related("partner", *self.read_with).defer(*SECRETS_OF_PARTNER, *self.unread)


def state_at_bank(allowance: Allowance) -> Health | None:
    """The bank's state now for the calls of this partner; None if the contract did not have the bank until now. The
    states of all banks of the contract are read together."""
    partner = allowance.partner
    states: dict[str, Health] = vars(partner).setdefault("_states_at_banks", {})
    if not states:
        found = named(health_of([each.provider_id for each in partner.allowances.all()]))
        states |= {name: health.own(str(partner.pk)) for name, health in found.items()}
    return states.get(allowance.provider_id)


def _words_at_bank(allowance: Allowance) -> str:
    health = state_at_bank(allowance) if allowance.pk else None
    return health.words() if health else "—"


def _bank_option(bank: Provider) -> str:
    return registry.label(bank.name) if bank.enabled else f"{registry.label(bank.name)} (desligado)"


class AllowanceInline(LabelledInline):
    """The contract's banks, each with its state now for this partner."""

    model = Allowance
    form = AllowanceForm
    fields = ("provider", "now", "portfolio", "portfolios", "paused_until", "pause_reason")
    readonly_fields = ("now",)
    verbose_name = "banco"
    verbose_name_plural = "bancos do contrato: só nestes o parceiro consulta, envia e vê as suas propostas"
    now = Column("Agora", _words_at_bank)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """The field. The bank's is without the theme's links to the bank's own page and to one for another bank."""
        field: Any = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name == "provider":
            field.widget = field.widget.widget
            field.queryset = Provider.objects.only("name", "enabled")  # and not the banks' credentials
            field.label_from_instance = _bank_option
        return field


class PartnerList(List):
    """The list, whose rows lead to the partners' pages. Their settings are a tab there."""

    def url_for_result(self, result: Partner) -> str:
        return reverse("partner", args=[result.pk])


def _banks(partner: Partner) -> str:
    return ", ".join(registry.label(each.provider_id) for each in partner.allowances.all()) or "nenhum"


def _secret(partner: Partner) -> str:
    if not partner.webhook_secret:
        return "não emitido: nenhum evento é entregue"
    retiring = partner.retiring_secrets()
    ends = [date_format(timezone.localtime(until), "SHORT_DATETIME_FORMAT") for _, until in retiring]
    if not ends:
        return "emitido"
    if len(ends) == 1:
        return f"emitido; o anterior ainda vale até {ends[0]}"
    return f"emitido; os {len(ends)} anteriores ainda valem até {', '.join(ends)}"


#: The parts of the registration that a new partner has, too.
_SETTINGS = (("Limites", {"fields": (*LIMITS,)}), ("Página de autorização", {"fields": (*PAGE,)}))


@admin.register(Partner)
class PartnerAdmin(ExportMixin, RobustAdmin):
    form = PartnerForm
    list_display = ("situation", "lacks", "name", "banks", "webhook_url", "created_at")
    list_filter = ("status",)
    search_fields = ("name", "id", "cnpj")
    readonly_fields = ("id", "situation", "lacks", "secret", "created_at")
    fieldsets = (
        (None, {"fields": ("name", "id", "situation", "lacks", "created_at")}),
        *_SETTINGS,
        ("Webhook", {"fields": (*WEBHOOK, "secret")}),
    )
    inlines = (AllowanceInline,)
    changelist = PartnerList
    actions_detail = ("issue_key", "rotate_secret", "suspend", "suspend_and_hold", "resume")
    situation = Column(
        "Situação",
        lambda partner: _HELD if partner.deliveries_held else partner.get_status_display(),
        "status",
        {Partner.Status.ACTIVE.label: "success", Partner.Status.SUSPENDED.label: "danger", _HELD: "danger"},
    )
    #: What is missing in the registration.
    lacks = Column("Cadastro", lambda partner: ", ".join(registration.gaps(partner)) or "completo")
    banks = Column("Bancos", _banks)
    secret = Column("Segredo do webhook", _secret)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Partner]:
        # Deferred fields are not written when the form is saved, so the secrets stay unchanged.
        unread = super().get_queryset(request).defer(*SECRET_FIELDS)
        return registration.with_facts(unread)

    def save_model(self, request: HttpRequest, obj: Partner, form: Any, change: bool) -> None:
        """Write only what the form changed: somebody else may have suspended the partner meanwhile."""
        obj.save(update_fields=form.changed_data if change else None)

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """Finds a CNPJ with its mask, too."""
        cnpj = unmask_cnpj(search_term)
        return super().get_search_results(request, queryset, cnpj if cnpj_is_valid(cnpj) else search_term)

    def identified_by(self, text: str) -> list[Q]:
        """Its id, its CNPJ, or a part of its name. Partners are few: no index is needed."""
        cnpj = unmask_cnpj(text)
        by_name = [Q(name__icontains=text)] if len(text) >= _SHORTEST_NAME else []
        return [*conditions(Partner, ["pk"], text), *([Q(cnpj=cnpj)] if cnpj_is_valid(cnpj) else []), *by_name]

    def header_of(self, request: HttpRequest, partner: Partner) -> list[dict[str, Any]]:
        """The links in the header of the partner's pages."""
        offered = self.get_actions_detail(request, str(partner.pk))
        return self._get_actions_navigation(self.actions_detail, offered, str(partner.pk))

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """The fieldsets. The page that adds a partner shows only editable fields."""
        added = ((None, {"fields": ("new_id", "name")}), *_SETTINGS, ("Webhook", {"fields": (*WEBHOOK,)}))
        return super().get_fieldsets(request, obj) if obj else added

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().get_changeform_initial_data(request), "new_id": uuid.uuid4()}

    def response_add(self, request: HttpRequest, obj: Partner, post_url_continue: str | None = None) -> HttpResponse:
        """Give a new partner its first key, and a webhook secret, without which its events would wait."""
        secrets = {}
        if request.user.has_perm(_ISSUE):
            key, secrets["Chave de API"] = ApiKey.issue(obj)
            audit.record(Action.ISSUED, request=request, obj=obj, detail=f"Chave {key} emitida.")
        secrets["Segredo do webhook"] = obj.rotate_webhook_secret()
        return secrets_page(request, obj, "Parceiro criado", secrets)

    @Confirmed(
        "Emitir chave",
        "key",
        _ISSUE,
        text="As outras chaves do parceiro continuam valendo. A nova chave é mostrada uma única vez.",
        form=lambda _, data: IssueKeyForm(data, initial={"key_id": uuid.uuid4()}),
    )
    def issue_key(self, request: HttpRequest, partner: Partner, form: IssueKeyForm) -> Done:
        data = form.cleaned_data
        validity = timedelta(days=data["days"]) if data["days"] else None
        key, secret = ApiKey.issue(partner, data["label"], validity, networks=data["networks"], pk=data["key_id"])
        return Done(f"Chave {key} emitida.", Action.ISSUED, secrets={"Chave de API": secret})

    @Confirmed(
        "Trocar segredo do webhook",
        "autorenew",
        "change",
        text="O novo segredo é mostrado uma única vez e passa a assinar X-Service-Signature. "
        "No cabeçalho webhook-signature cada segredo anterior ainda vale por 24 horas desde a sua troca.",
        form=RotateSecretForm,
    )
    def rotate_secret(self, request: HttpRequest, partner: Partner, form: RotateSecretForm) -> Done:
        secrets = {"Segredo do webhook": partner.rotate_webhook_secret()}
        return Done("Segredo do webhook trocado.", Action.ISSUED, secrets=secrets)

    @Confirmed(
        "Suspender",
        "block",
        "change",
        text="A partir da próxima chamada, todas as chaves do parceiro são recusadas, e fluxos abertos terminam no "
        "próximo evento. Os eventos do parceiro continuam a ser entregues.",
        danger=True,
    )
    @offered_if(lambda partner: partner.status != Partner.Status.SUSPENDED)
    def suspend(self, request: HttpRequest, partner: Partner, form: forms.Form) -> Done:
        partner.suspend()
        return Done("Parceiro suspenso.", Action.SUSPENDED)

    @Confirmed(
        "Suspender e reter entregas",
        "pause_circle",
        "change",
        text="As chamadas dele são recusadas, e nenhum evento de webhook é entregue: todos esperam até Reativar. O "
        f"conteúdo de um evento que espera mais de {settings.WEBHOOK_RETENTION_DAYS} dias é apagado.",
        danger=True,
    )
    @offered_if(lambda partner: not (partner.status == Partner.Status.SUSPENDED and partner.deliveries_held))
    def suspend_and_hold(self, request: HttpRequest, partner: Partner, form: forms.Form) -> Done:
        partner.suspend(hold_deliveries=True)
        return Done("Parceiro suspenso, entregas retidas.", Action.SUSPENDED)

    @Confirmed(
        "Reativar",
        "check_circle",
        "change",
        text="As chaves não revogadas do parceiro voltam a ser aceitas na próxima chamada, e eventos retidos são "
        "entregues.",
    )
    @offered_if(lambda partner: partner.status == Partner.Status.SUSPENDED)
    def resume(self, request: HttpRequest, partner: Partner, form: forms.Form) -> Done:
        partner.resume()
        return Done("Parceiro reativado.", Action.RESUMED)


def _state(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return "revogada"
    return "ativa" if key.is_live(timezone.now()) else "expirada"


@admin.register(ApiKey)
class ApiKeyAdmin(OfPartnerAdmin, ReadOnlyAdmin):
    """The keys. They are searched by prefix here; they are issued, and listed, on their partner's page."""

    list_display = ("state", "prefix", "partner", "label", "created_at", "expires_at", "last_used_at")
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

    def identified_by(self, text: str) -> list[Q]:
        by_prefix = [Q(prefix__startswith=text[:VISIBLE])] if text.startswith("cpk_") else []
        return [*conditions(ApiKey, ["pk"], text), *by_prefix]

    @Confirmed(
        "Mudar endereços permitidos",
        "lan",
        "act",
        text="De qualquer outro endereço a chave é recusada a partir da próxima chamada, com o mesmo 401 de uma chave "
        "desconhecida.",
        form=lambda key, data: NetworksForm(data, initial={"networks": key.networks}),
    )
    @offered_if(lambda key: key.revoked_at is None)
    def restrict(self, request: HttpRequest, key: ApiKey, form: NetworksForm) -> Done:
        key.networks = form.cleaned_data["networks"]
        key.save(update_fields=["networks"])
        return Done(f"Endereços permitidos: {self.networks_now(key)}.", Action.CHANGED)

    @Confirmed(
        "Revogar",
        "key_off",
        "act",
        text="A chave {row} de {row.partner} é recusada a partir da próxima chamada, para sempre.",
        danger=True,
    )
    @offered_if(lambda key: key.revoked_at is None)
    def revoke(self, request: HttpRequest, key: ApiKey, form: forms.Form) -> Done:
        key.revoke()
        done = Done(f"Chave {key} revogada.", Action.REVOKED, then=key.partner)
        audit.record(done.action, request=request, obj=key.partner, detail=done.text)
        return done


CodeFilter = FixedChoicesFilter.of("code", "código", lambda: [(error.code, error.code) for error in api_errors()])
StatusFilter = FixedChoicesFilter.of(
    "status", "HTTP", lambda: [(status.value, status.value) for status in HTTPStatus if status >= 400]
)


@admin.register(FailedCall)
class FailedCallAdmin(OfPartnerAdmin, ReadOnlyAdmin):
    """Failed calls, read-only: the route and the reply's error. Bodies are not kept."""

    list_display = ("outcome", "at", "partner", "call", "field", "request_id", "times")
    exported_as = {"outcome": ("status", "code"), "call": ("method", "route")}
    list_filter = (CodeFilter, StatusFilter, PARTNER_FILTER, "at")
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
            link(page_of(row.partner), row.partner)
            if row.partner
            else "desconhecido: não veio chave, ou veio uma que não existe"
        ),
    )

    def identified_by(self, text: str) -> list[Q]:
        """Also a whole key, of which a call keeps the beginning."""
        return super().identified_by(text[:VISIBLE] if text.startswith("cpk_") else text)
