import json
import re
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, Self

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import F, Min, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import TabularInline
from unfold.decorators import action
from unfold.widgets import UnfoldAdminSelectWidget

from foundation import audit
from foundation.audit import Action
from foundation.backoffice.admins import FixedChoicesFilter, MomentInput, ReadOnlyAdmin, offered_if
from foundation.backoffice.cells import Column
from foundation.backoffice.confirmation import Confirmed, Done
from foundation.formats import counted, cpf_is_valid, mask_cpf, without_personal_data
from partners.admin import PARTNER_FILTER, OfPartnerAdmin
from partners.models import Partner, WebhookEvent
from webhooks.models import SHOWN, AlreadyPurged, Attempt, Event, between, reference_index, resend_all, undelivered
from webhooks.serializers import EVENT_NAMES

_RETRIED = "retried"
_STATE_COLOURS = {
    Event.State.DUE: "info",
    _RETRIED: "warning",
    Event.State.DELIVERED: "success",
    Event.State.FAILED: "danger",
}
_HIDDEN = "[oculto]"
#: Fields that hold personal data, the URL of a person's page, or a secret.
_PERSONAL = re.compile(
    r"name|nome|phone|telefone|celular|mail|url|link|authorization_?id|registration|matricula|account|conta|agencia"
    r"|pix|chave|employer|empregador|endereco|address|token|secret|key",
    re.ASCII | re.IGNORECASE,
)
_CPF = re.compile(r"cpf", re.ASCII | re.IGNORECASE)
_SEARCHED = re.compile(r"evt_[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


def shown(event: Event) -> str:
    """The event's reference as pages may show it: without a CPF, and without an id that opens a holder's page."""
    reference = event.external_reference
    if reference is None:
        return "apagada"
    if cpf_is_valid(reference):
        return mask_cpf(reference)
    return f"{reference[:6]}…" if is_about_session(event) else reference


def is_about_session(event: Event) -> bool:
    """True if the event's reference is an authorization_id, which opens the holder's page and receipt."""
    return event.name.startswith("authorization.")


class WindowForm(forms.Form):
    """Which partner's events of which period are to be sent again. `seen` is how many the operator was shown."""

    partner = forms.ModelChoiceField(
        Partner.objects.only("name"),
        label="Parceiro",
        widget=UnfoldAdminSelectWidget,
        empty_label="Escolha o parceiro",
    )
    period = forms.ChoiceField(
        label="Criados",
        required=False,
        choices=[
            ("failure", "desde a falha: o mais antigo que não foi entregue"),
            ("hour", "na última hora"),
            ("today", "hoje"),
            ("", "no período abaixo"),
        ],
        initial="failure",
        widget=UnfoldAdminSelectWidget,
    )
    begin = forms.DateTimeField(label="Criados desde", required=False, widget=MomentInput)
    end = forms.DateTimeField(label="Criados até", required=False, widget=MomentInput)
    which = forms.ChoiceField(
        label="Quais",
        choices=[
            ("failed", "os não entregues: os que falharam, e os que esperam nova tentativa (tentar agora)"),
            ("all", "também os já entregues"),
        ],
        widget=UnfoldAdminSelectWidget,
    )
    seen = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("period") and "partner" in cleaned:
            cleaned["begin"], cleaned["end"] = self._begin_of(cleaned["period"], cleaned["partner"]), timezone.now()
        begin, end = cleaned.get("begin"), cleaned.get("end")
        for name in ("begin", "end"):
            if not cleaned.get("period") and not cleaned.get(name) and name not in self.errors:
                self.add_error(name, "Escreva a data e a hora, ou escolha um dos períodos acima.")
        if begin and end and begin >= end:
            self.add_error("end", "O fim tem de ser depois do início.")
        return cleaned

    def _begin_of(self, period: str, partner: Partner) -> datetime | None:
        """When the chosen period begins. None, and an error, if no event was left undelivered."""
        now = timezone.localtime().replace(microsecond=0)
        if period != "failure":
            return now - timedelta(hours=1) if period == "hour" else now.replace(hour=0, minute=0, second=0)
        begin: datetime | None = undelivered(partner.pk).aggregate(oldest=Min("created_at"))["oldest"]
        if begin is None:
            self.add_error("period", "Nenhum evento deste parceiro falhou ou espera nova tentativa.")
        return begin

    def window(self) -> dict[str, Any]:
        """The keyword arguments of `models.between`."""
        data = self.cleaned_data
        window = {"partner_id": data["partner"].pk, "begin": data["begin"], "end": data["end"]}
        return {**window, "only_failed": data["which"] == "failed"}

    def hidden(self, seen: int) -> Self:
        """The same form with hidden fields, to be confirmed. `seen` is the number shown to the operator. The period is
        fixed, so that the number stays true."""
        moments = {name: self.cleaned_data[name].isoformat() for name in ("begin", "end")}
        form = type(self)(
            {**{name: self.data.get(name) for name in self.fields}, **moments, "period": "", "seen": seen}
        )
        for field in form.fields.values():
            field.widget = forms.HiddenInput()
        return form


_NAMES = [name for name in EVENT_NAMES if name != WebhookEvent.PROPOSAL]  # sent as proposal.<status>
EventName = FixedChoicesFilter.of("name", "evento", lambda: zip(_NAMES, _NAMES, strict=True))


def _answer(attempt: Attempt) -> str:
    """The beginning of the receiver's answer without personal data, because a receiver may echo the event."""
    if not attempt.excerpt:
        return "—"
    reference = attempt.event.external_reference
    text = attempt.excerpt.replace(reference, shown(attempt.event)) if reference else attempt.excerpt
    return without_personal_data(text)


class AttemptInline(TabularInline):
    """The newest attempts of an event, read-only."""

    model = Attempt
    verbose_name_plural = f"últimas tentativas (até {SHOWN})"
    fields = readonly_fields = ("number", "at", "url", "status", "fault", "duration_ms", "answer")
    extra = 0
    can_delete = False
    answer = Column("início da resposta", _answer)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Attempt]:
        attempts: QuerySet[Attempt] = super().get_queryset(request)
        return attempts.filter(number__gt=F("event__attempts") - SHOWN)

    def has_add_permission(self, request: HttpRequest, obj: Event | None = None) -> bool:
        return False


def _state(event: Event) -> tuple[str, str]:
    is_retried = event.state == Event.State.DUE and event.fault
    return (_RETRIED, "a tentar de novo") if is_retried else (event.state, event.get_state_display())


def _trouble(event: Any) -> str:
    """The present failure of a row of `EventAdmin`, or what the partner lacks."""
    if event.state == Event.State.DUE and not event.partner.webhook_url:
        return "parceiro sem URL de webhook"
    if event.state == Event.State.DUE and event.has_no_secret:
        return "parceiro sem segredo de webhook"
    return event.get_fault_display() or "—"


def _short_reference(event: Event) -> str:
    """The reference, shortened if it is longer than a masked CPF."""
    reference = shown(event)
    return reference if len(reference) <= len("***.000.000-**") else f"{reference[:8]}…"


def _content(event: Event) -> SafeString | str:
    """The event's body as operators may read it: without personal data and URLs, and with its reference as `shown`."""
    if event.body is None:
        return "apagado"

    def hide(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: hide(key, each) for key, each in value.items()}
        if isinstance(value, list):
            return [hide(name, each) for each in value]
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) and value == event.external_reference:
            return shown(event)
        if _CPF.search(name):
            return mask_cpf(str(value))
        if _PERSONAL.search(name):
            return _HIDDEN
        return without_personal_data(value) if isinstance(value, str) else value

    text = json.dumps(hide("", event.parsed), ensure_ascii=False, indent=2)
    return format_html('<pre class="wide" tabindex="0">{}</pre>', text)


@admin.register(Event)
class EventAdmin(OfPartnerAdmin, ReadOnlyAdmin):
    """Events and the results of their attempts. An operator's only action is to send one event, or several, again."""

    list_display = (
        "coloured_state",
        "trouble",
        "last_status",
        "created_at",
        "partner",
        "name",
        "short_reference",
        "attempts",
        "due_at",
    )
    list_filter = ("state", EventName, PARTNER_FILTER, "created_at")
    linked_by = ("reference_index", "partner__webhook_url__exact")
    also_exported = ("id",)
    exported_as = {"short_reference": ("reference",)}
    search_fields = ("=id",)
    search_help_text = "webhook-id, proposal_id ou simulationGroupId; CPF e sessão, só na busca do menu"
    fields = readonly_fields = (
        "id",
        "partner",
        "name",
        "reference",
        "state",
        "attempts",
        "trouble",
        "due_at",
        "lease_until",
        "created_at",
        "delivered_at",
        "purged_at",
        "content",
    )
    inlines = (AttemptInline,)
    actions_list = ("resend_window",)
    actions = ("resend_selection",)
    actions_detail = ("resend_one",)
    coloured_state = Column("estado", _state, "state", _STATE_COLOURS)
    trouble = Column("falha atual", _trouble)
    last_status = Column("HTTP", lambda event: event.last_status)
    short_reference = Column("referência", _short_reference)
    reference = Column("referência externa", shown)
    content = Column("corpo, sem dados pessoais", _content)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Event]:
        events: QuerySet[Event] = super().get_queryset(request)
        has_no_secret = Q(partner__webhook_secret__isnull=True)
        attempts = Attempt.objects.filter(event=OuterRef("pk")).order_by("-number")
        events = events.annotate(has_no_secret=has_no_secret, last_status=Subquery(attempts.values("status")[:1]))
        # The list does not need the body; the event's own page shows it.
        is_page = request.resolver_match is not None and request.resolver_match.url_name == "webhooks_event_change"
        return events if is_page else events.defer("body")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Event], search_term: str
    ) -> tuple[QuerySet[Event], bool]:
        """Finds events by ids that may appear in a URL. A CPF or a session's id finds nothing here."""
        term = search_term.strip()
        if not term:
            return queryset, False
        if not _SEARCHED.fullmatch(term):
            message = "A busca aceita webhook-id, proposal_id e simulationGroupId. Para CPF ou sessão, use a do menu."
            self.message_user(request, message, messages.WARNING)
            return queryset.none(), False
        return queryset.filter(reduce(or_, self.identified_by(term.lower()))), False

    def identified_by(self, text: str) -> list[Q]:
        return [Q(pk=text.lower()), Q(reference_index=reference_index(text))]

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The event's page. Opening the page of an event about a session is recorded in the audit trail."""
        event = context.get("original")
        if event is not None and is_about_session(event):
            audit.record(Action.VIEWED, request=request, obj=event)
        return super().render_change_form(request, context, *args, **kwargs)

    @action(description="Reenviar por período", permissions=["act"], icon="history")
    def resend_window(self, request: HttpRequest) -> HttpResponse:
        """Sends the events of one partner and period again. The first POST shows their number; the second sends
        them, unless they are more now."""
        form = WindowForm(request.POST or None, initial=request.GET.dict())
        title = "Reenviar por período"
        if not form.is_valid():
            text = "O passo seguinte diz quantos seriam reenviados, e ainda não reenvia."
            return self.form_page(request, form, title=title, text=text, button="Contar")
        window, partner = form.window(), form.cleaned_data["partner"]
        count = between(**window).count()
        seen = form.cleaned_data["seen"] or 0
        if not count or count > seen:
            grown = f"Agora são mais do que os {seen} contados. " if seen and count else ""
            text = (
                f"{grown}{partner}: a reenviar {counted(count, 'evento', 'eventos', 'nenhum evento')}, com o mesmo "
                "webhook-id. O que já foi apagado, e o que sai agora de qualquer modo, não conta."
            )
            form = form.hidden(count) if count else WindowForm(form.data)
            button = f"Reenviar {count}" if count else "Contar"
            return self.form_page(request, form, title=title, text=text, button=button, danger=bool(count))
        with transaction.atomic():
            resent = resend_all(between(**window))
            begin, end = (f"{timezone.localtime(window[name]):%d/%m/%Y %H:%M}" for name in ("begin", "end"))
            message = f"Eventos de {partner} reenviados: {resent}, criados de {begin} a {end}."
            if resent < seen:
                message += f" Contados eram {seen}: os outros já saíram."
            audit.record(Action.RESENT, request=request, obj=partner, detail=message)
        self.message_user(request, message, messages.SUCCESS)
        return HttpResponseRedirect(f"{self.list_address}?partner__id__exact={partner.pk}")

    @admin.action(description="Reenviar os eventos selecionados", permissions=["act"])
    def resend_selection(self, request: HttpRequest, queryset: QuerySet[Event]) -> None:
        purged = 0
        events = list(queryset)
        for event in events:
            try:
                with transaction.atomic():
                    event.resend()
                    audit.record(Action.RESENT, request=request, obj=event, detail="Reenviado.")
            except AlreadyPurged:
                purged += 1
        if len(events) > purged:
            self.message_user(request, f"Colocados na fila de entrega: {len(events) - purged}.", messages.SUCCESS)
        if purged:
            self.message_user(request, f"Não reenviados, pois o conteúdo já foi apagado: {purged}.", messages.WARNING)

    @Confirmed(
        "Reenviar",
        "send",
        "act",
        "O evento entra já na fila, com o mesmo webhook-id, mesmo que já tenha sido entregue.",
    )
    @offered_if(lambda event: event.purged_at is None)
    def resend_one(self, request: HttpRequest, event: Event, form: forms.Form) -> Done:
        event.resend()
        return Done("Colocado na fila de entrega.", Action.RESENT)
