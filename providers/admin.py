"""The operator's page for banks. An operator can store credentials and the callback secret here. No page and no entry
of the audit trail ever shows their values."""

from collections.abc import Mapping
from copy import copy
from dataclasses import fields
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from unfold.admin import ModelAdmin
from unfold.decorators import action
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from foundation import audit
from foundation.backoffice.admins import FixedChoicesFilter, LabelledInline, RobustAdmin, offered_if
from foundation.backoffice.cells import Column
from foundation.backoffice.confirmation import Confirmed, Done
from foundation.backoffice.pages import page_of
from foundation.http.errors import NeverSent, Why
from foundation.http.way import origin_of, parsed
from providers import account, registry
from providers.certificates import REMOVE, Change, described, proxy_names
from providers.health import Health, Kind, named
from providers.judging import health_of
from providers.maintenance import Maintenance
from providers.models import Circuit, Provider, rules_of_addresses
from providers.outcomes import Outcome, count_trial

BankFilter = FixedChoicesFilter.of(
    "provider", "banco", lambda: [(name, registry.label(name)) for name in registry.names()]
)


class OfBankAdmin(ModelAdmin):
    """Rows of a bank, which are shown with its name for people."""

    bank = Column("Banco", lambda row: registry.label(row.provider), "provider")


def _secret_text(label: str, help_text: str, rows: int = 4) -> forms.CharField:
    """A field for a text that no page shows again."""
    widget = UnfoldAdminTextareaWidget(attrs={"rows": rows, "autocomplete": "off", "spellcheck": "false"})
    return forms.CharField(label=label, required=False, strip=True, widget=widget, help_text=help_text)


def _credential(label: str) -> forms.CharField:
    widget = UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password", "spellcheck": "false"})
    return forms.CharField(label=label, required=False, strip=True, max_length=4000, widget=widget)


class _Choice(forms.BooleanField):
    """A choice about the form itself, which changes nothing of the row."""

    def has_changed(self, initial: Any, data: Any) -> bool:
        return False


class ProviderForm(forms.ModelForm):
    """A bank's page has one field for each credential of its adapter (`ProviderAdmin.get_form`). What is typed is
    merged into the stored credentials, so that an operator can renew one secret without typing the others. The fields
    of the way to the bank are those of `providers.certificates.Change`."""

    #: What the bank said to the typed account (`ProviderAdmin.changeform_view`). Empty if nothing is wrong.
    problem = ""

    untried = _Choice(
        label="Guardar sem testar a conexão",
        required=False,
        widget=UnfoldBooleanWidget,
        help_text="Se o banco não responde agora. As credenciais anteriores ficam guardadas até ele aceitar as novas.",
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
        help_texts = {"base_url": "Como https://api.banco.com.br, sem barra no fim."}

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
            parts = parsed(url)
            if parts.query or parts.fragment:
                raise NeverSent(Why.URL)
            rules_of_addresses().check(parts)
        except NeverSent as failure:
            raise ValidationError(
                "Informe um endereço completo, como https://api.banco.com.br."
                if failure.why is Why.URL
                else "Em produção o endereço é https e público. Exceções estão na variável BANK_PRIVATE_HOSTS."
            ) from None
        return url

    @property
    def typed_credentials(self) -> dict[str, str]:
        fields = {name: self.cleaned_data.get(_IN + name) for name in _credentials_of(self.instance)}
        return {name: value for name, value in fields.items() if value}

    @property
    def has_new_account(self) -> bool:
        """True if the operator typed anything that decides whether the bank lets us in."""
        return bool(self.typed_credentials) or self.change != Change() or "base_url" in self.changed_data

    def clean(self) -> dict[str, Any]:
        """With a new origin all secrets must be typed again, because they were sealed for the old one; with a new proxy
        or other authorities, the credentials."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        is_moved = origin_of(cleaned.get("base_url", "")) != origin_of(self.initial.get("base_url", ""))
        may_move = bool(self.initial) and "base_url" in cleaned and "untried" in self.fields
        if is_moved and may_move:
            self._forget_secrets(cleaned)
        self.change = Change(**{each.name: cleaned.get(f"new_{each.name}", "") for each in fields(Change)})
        try:
            self.change.check()
        except ValidationError as fault:
            for name, messages in fault.message_dict.items():
                self.add_error(f"new_{name}", messages)
        else:
            if not is_moved and may_move and self.instance.is_led_elsewhere_by(self.change):
                self._forget_credentials()
            # the trail shows fingerprints
            cleaned |= {name: described(cleaned[name]) for name in _PEM if cleaned.get(name, REMOVE) != REMOVE}
        if self.problem:
            self.add_error(None, f"{self.problem} Nada foi guardado.")
        return cleaned

    def _forget_secrets(self, typed: Mapping[str, Any]) -> None:
        """Remove the stored secrets. The form is refused unless each of them is typed again, or removed."""
        provider = self.instance
        self._forget_credentials()
        stored = {"new_certificate": provider.certificate, "new_proxy": proxy_names(provider.way_secrets)}
        for name, is_stored in stored.items():
            if is_stored and not typed.get(name):
                self.add_error(name, "O que está guardado é de outro endereço: digite de novo, ou um hífen.")
        provider.forget_secrets()

    def _forget_credentials(self) -> None:
        """Remove the stored credentials. The form is refused unless each of them is typed again."""
        provider = self.instance
        for name in provider.credentials.keys() & set(_credentials_of(provider)) - set(self.typed_credentials):
            self.add_error(_IN + name, "A credencial guardada é de outro endereço ou caminho: digite de novo.")
        provider.forget_credentials()

    def save(self, commit: bool = True) -> Provider:
        self.instance.change_way(self.change)
        if typed := self.typed_credentials:
            known = _credentials_of(self.instance)
            self.instance.renew_credentials(dict.fromkeys(self.instance.credentials.keys() - set(known)) | typed)
        if "new_callback_secret" in self.cleaned_data:
            self.instance.callback_secret = self.cleaned_data["new_callback_secret"] or self.instance.callback_secret
        provider: Provider = super().save(commit)
        return provider


def _credentials_of(provider: Any) -> Mapping[str, str]:
    """The names and labels of the credentials that the bank's adapter knows."""
    bank = registry.get(provider.name) if provider else None
    return bank.credentials if bank else {}


#: The form field of a credential is this and its name.
_IN = "credential_"
_WAY_IN = tuple(f"new_{each.name}" for each in fields(Change))
#: Form fields in which an operator types a secret, beside the credentials. They are not columns.
_SECRETS_IN = ("untried", "new_callback_secret", *_WAY_IN)
_PEM = ("new_certificate", "new_authorities")


_TRIED = (
    "Em branco, uma credencial fica como está. Antes de guardar, o serviço testa a conexão: um processo que chama "
    "bancos faz login, sem dado de titular nenhum."
)


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


def _stored_credentials(provider: Provider) -> str:
    """The names of the stored credentials, without their values."""
    former = "; as anteriores também, até o banco aceitar estas" if provider.former_credentials else ""
    return (", ".join(sorted(provider.credentials)) or "nenhuma") + former


def _stored_way(provider: Provider) -> str:
    """Fingerprints and ends of the certificates, and whether there is a proxy."""
    named = {
        "certificado": described(provider.certificate),
        "anterior, até o banco aceitar o novo": described(provider.former_certificate),
        "autoridades": described(provider.authorities),
        "proxy": "guardado" if proxy_names(provider.way_secrets) else "",
    }
    lines = [(name, words) for name, words in named.items() if words]
    return format_html_join(mark_safe("<br>"), "{}: {}", lines) or "nada"


def _health(provider: Provider) -> Health:
    """How the bank does now. The list has read the states of all."""
    known: dict[str, Health] = vars(provider)
    if "health" not in known:
        found = named(health_of([provider.name]))
        known["health"] = found.get(provider.name, Health(Kind.OFF, "ainda sem cadastro"))
    return known["health"]


def _standing(provider: Provider) -> tuple[Kind, str]:
    return _health(provider).kind, _health(provider).words()


def _standing_now(provider: Provider) -> str:
    """The words without the colour, since when, and what to do, for the bank's own page."""
    health = _health(provider)
    return " — ".join(filter(None, (health.words(), health.began, health.detail(), health.advice)))


_KIND_COLOURS = {
    Kind.FINE: "success",
    Kind.RECOVERED: "success",
    Kind.UNGUARDED: "warning",
    Kind.WINDOW: "info",
    Kind.OFF: "info",
    Kind.PROBING: "warning",
    Kind.UNREAD: "warning",
    **dict.fromkeys((Kind.FAILING, Kind.CREDENTIALS, Kind.OUT), "danger"),
}


class MaintenanceInline(LabelledInline):
    """The bank's windows out of service: future, current and past ones."""

    model = Maintenance
    fields = ("starts_at", "ends_at", "reason")


@admin.register(Provider)
class ProviderAdmin(RobustAdmin):
    form = ProviderForm
    inlines = (MaintenanceInline,)
    actions_detail = ("close", "reopen", "try_account", "restore_credentials")
    list_display = ("standing", "name", "label", "timeout_s", "max_in_flight", "updated_at")
    list_filter = ("enabled", "circuit")
    readonly_fields = ("stored_credentials", "stored_callback_secret", "stored_way", "standing_now", "updated_at")
    label = Column("Banco", lambda bank: registry.label(bank.name) if registry.get(bank.name) else "sem adaptador")
    standing = Column("Agora", _standing, "circuit", _KIND_COLOURS)
    standing_now = Column("Agora", _standing_now)
    stored_credentials = Column("Credenciais guardadas", _stored_credentials)
    stored_way = Column("Guardado", _stored_way)
    stored_callback_secret = Column("Segredo dos avisos", lambda bank: "guardado" if bank.callback_secret else "nenhum")
    fieldsets = (
        (None, {"fields": ("name", "standing_now", "enabled", "circuit", "base_url", "portfolio")}),
        ("Credenciais", {"fields": ("stored_credentials", "untried")}),
        ("Caminho até o banco", {"fields": ("stored_way", *_WAY_IN)}),
        ("Avisos do banco", {"fields": ("stored_callback_secret", "new_callback_secret")}),
        ("Limites", {"fields": ("timeout_s", "max_in_flight", "updated_at")}),
    )

    def get_inlines(self, request: HttpRequest, obj: Model | None) -> Any:
        return self.inlines if obj else ()

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """The fieldsets. The fields that take a secret are shown only to operators who may write them."""
        if self.has_change_account_permission(request):
            typed = [_IN + name for name in _credentials_of(obj)]
            credentials: dict[str, Any] = {"fields": ("stored_credentials", *typed, "untried"), "description": _TRIED}
            # Which credentials a new bank has is known once its adapter is.
            own = {"Credenciais": credentials if obj else {"fields": ()}}
            return [(title, own.get(title, options)) for title, options in super().get_fieldsets(request, obj)]
        return [
            (title, {"fields": [name for name in options["fields"] if name not in _SECRETS_IN]})
            for title, options in super().get_fieldsets(request, obj)
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """`name` can be set only when the bank is added, because it selects the adapter. The address decides where the
        credentials go, so it is for those who may write them."""
        fixed = ("name",) if obj else ()
        return (*fixed, *(() if self.has_change_account_permission(request) else ("base_url",)), *self.readonly_fields)

    def get_form(self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: Any) -> Any:
        """The form, with a field for each credential of the bank; for who may not write secrets, without these."""
        own: dict[str, Any] = {"problem": request.__dict__.get("account_problem", "")}
        if self.has_change_account_permission(request):
            own |= {_IN + name: _credential(label) for name, label in _credentials_of(obj).items()}
        else:
            own |= dict.fromkeys(_SECRETS_IN)
        kwargs["form"] = type("ProviderForm", (ProviderForm,), own)
        return super().get_form(request, obj, change, **kwargs)

    def changeform_view(self, request: HttpRequest, object_id: str | None = None, *others: Any, **more: Any) -> Any:
        """Before a new account is kept, the bank is asked whether it lets us in: outside of the transaction that saves,
        because this waits on the network."""
        if request.method == "POST" and object_id is not None:
            provider = self.row_of(request, object_id)
            request.__dict__["account_problem"] = self._problem_with_typed(request, provider)
        return super().changeform_view(request, object_id, *others, **more)

    def _problem_with_typed(self, request: HttpRequest, provider: Provider) -> str:
        if not self.has_change_account_permission(request) or not account.can_be_tried(provider.name):
            return ""
        form = self.get_form(request, provider, change=True)(request.POST, instance=copy(provider))
        if not form.is_valid() or form.cleaned_data["untried"] or not form.has_new_account:
            return ""
        typed = form.save(commit=False)
        changes = audit.changes_of_form(form, [], is_new=False)
        detail = "Teste da conexão com o que foi digitado, que ainda não está guardado."
        audit.record(audit.Action.TRIED, request=request, obj=provider, changes=changes, detail=detail)
        return account.problem_with(typed)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and self.has_change_account_permission(request)

    def save_model(self, request: HttpRequest, obj: Provider, form: forms.ModelForm, change: bool) -> None:
        """Save the bank unless only its windows were changed: who saves it begins its breaker anew."""
        if form.changed_data or not change:
            super().save_model(request, obj, form, change)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """The list. The states of all banks are read together."""
        changes = super().get_changelist_instance(request)
        banks = list(changes.result_list)
        states = named(health_of([bank.name for bank in banks]))
        for bank in banks:
            vars(bank).update(health=states[bank.name])
        return changes

    def has_change_account_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """True for who may change a bank's address and type its secrets."""
        return self.has_change_permission(request) and request.user.has_perm("providers.change_account")

    @action(description="Testar conexão", permissions=["change_account"], icon="network_check")
    @offered_if(lambda bank: account.can_be_tried(bank.name))
    def try_account(self, request: HttpRequest, object_id: str) -> HttpResponse:
        provider = self.row_of(request, object_id)
        if not account.can_be_tried(provider.name):
            raise Http404
        if request.method == "POST":
            detail = "Teste da conexão com o que está guardado."
            audit.record(audit.Action.TRIED, request=request, obj=provider, detail=detail)
            problem = account.problem_with(provider)
            if not problem or problem == account.REFUSED:
                count_trial(provider.name, Outcome.LOGIN_REFUSED if problem else Outcome.ANSWERED)
            level = messages.ERROR if problem else messages.SUCCESS
            messages.add_message(request, level, problem or "O banco aceitou as credenciais guardadas.")
            return HttpResponseRedirect(page_of(provider))
        return self.form_page(
            request,
            forms.Form(),
            provider,
            title="Testar conexão",
            text="Um processo que chama bancos faz login com as credenciais guardadas, sem dado de titular nenhum. "
            "O que o banco diz vem em segundos.",
        )

    @Confirmed(
        "Voltar às credenciais anteriores",
        "undo",
        "change_account",
        text="As de agora são apagadas. O banco ainda não as aceitou em nenhuma chamada.",
    )
    @offered_if(lambda bank: bool(bank.former_credentials))
    def restore_credentials(self, request: HttpRequest, provider: Provider, form: forms.Form) -> Done:
        provider.restore_credentials()
        provider.save()
        return Done("Voltaram as credenciais anteriores.", audit.Action.CHANGED)

    @Confirmed(
        "Pôr fora do ar",
        "block",
        "change",
        text="Ninguém chama o banco até lá. Consultas dizem bank_closed com o motivo, envios são recusados sem sair, e "
        "o que já foi enviado é procurado depois. No fim o banco volta por si.",
        danger=True,
        form=lambda _, data: CloseForm(data),
    )
    @offered_if(lambda bank: bank.enabled and bank.circuit != Circuit.OPEN and not Maintenance.now([bank.pk]))
    def close(self, request: HttpRequest, provider: Provider, form: CloseForm) -> Done:
        until = timezone.now() + timedelta(minutes=form.cleaned_data["minutes"])
        window = Maintenance.objects.create(provider=provider, ends_at=until, reason=form.cleaned_data["reason"])
        return Done(f"{provider}: {window}.", audit.Action.SUSPENDED)

    @Confirmed(
        "Pôr de volta no ar",
        "check_circle",
        "change",
        text="A janela de agora termina já, e o banco volta a ser chamado, a menos que esteja desligado ou em Chamar o "
        "banco: nunca. As que ainda não começaram ficam.",
    )
    @offered_if(lambda bank: bool(Maintenance.now([bank.pk])))
    def reopen(self, request: HttpRequest, provider: Provider, form: forms.Form) -> Done:
        now = timezone.now()
        Maintenance.objects.filter(provider=provider, starts_at__lt=now, ends_at__gt=now).update(ends_at=now)
        return Done(f"{provider}: a janela terminou.", audit.Action.RESUMED)
