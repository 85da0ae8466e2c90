"""The back office's page of a partner: what it calls, how its calls and deliveries go, the use of its limits, its banks
and keys, and a test event. Its settings are the page's second tab."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings as django_settings
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.contrib.auth.decorators import permission_required
from django.core.exceptions import PermissionDenied
from django.db.models import Case, Count, Max, Min, Model, Q, Sum, Value, When
from django.db.models.functions import TruncHour
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from redis.exceptions import RedisError

from authorizations import codes
from authorizations.models import Session
from backoffice.figures import reports
from backoffice.figures.charts import BLUE, GREEN, ORANGE, RED, Line, Plot, plot, shown
from backoffice.figures.sweep import counted_until
from backoffice.figures.tables import Card, bank_link, part_of, state_of
from backoffice.problems.problem import OVERDUE, waited
from consultas.models import Offer, Query
from foundation import audit
from foundation.backoffice import pages
from foundation.backoffice.admins import MoreThan, counted
from foundation.backoffice.cells import Table, link
from foundation.errors import InvalidState
from foundation.formats import counted as several
from partners import limits, registration
from partners.admin import state_at_bank
from partners.failed_calls import FailedCall
from partners.models import ApiKey, Partner
from proposals.models import Proposal
from webhooks import events, health
from webhooks.models import Event

_RETRIED = "retried"
_DAY = reports.PERIODS["24h"]
#: The number of events by hour and state.
Deliveries = Counter[tuple[datetime, str]]
#: Why nothing can be sent, and what the operator does.
_WITHOUT_URL = "O parceiro não tem URL de webhook. Escreva-a em {}, no campo URL do webhook."
_UNSIGNED = "O parceiro não tem segredo de webhook. Emita um em {}, com Trocar segredo do webhook."
_KINDS: tuple[tuple[str, type[Model]], ...] = (
    ("Consultas", Query),
    ("Ofertas", Offer),
    ("Propostas", Proposal),
    ("Sessões de autorização", Session),
    ("Eventos de webhook", Event),
)


@dataclass(frozen=True)
class Use:
    """The use of a limit, and how often it refused something. `used` is None if nothing is counted."""

    title: str
    used: int | None
    limit: int | None
    refused: int = 0

    @property
    def words(self) -> str:
        if self.limit:
            return f"{shown(self.used)} de {shown(self.limit)}"
        return "sem limite, não contadas" if self.used is None else f"{shown(self.used)}, sem limite"


@permission_required("partners.view_partner", raise_exception=True)
def page(request: HttpRequest, partner_id: UUID) -> HttpResponse:
    """The page. A POST sends a test event. Raises Http404 and PermissionDenied."""
    may = request.user.has_perm
    settings: Any = admin.site.get_model_admin(Partner)
    partner = settings.row_of(request, str(partner_id))
    if request.method == "POST":
        if not may("webhooks.change_event"):
            raise PermissionDenied
        return _send_test(request, partner)
    deliveries = _deliveries(partner) if may("webhooks.view_event") else None
    return pages.page(
        request,
        "admin/partner.html",
        partner.name,
        partner=partner,
        actions_detail=settings.header_of(request, partner),
        is_suspended=partner.status == Partner.Status.SUSPENDED,
        situation=settings.situation(partner),
        gaps=registration.gaps(partner),
        rates=list(_rates(may, partner, deliveries)),
        uses=_uses(partner),
        banks=_banks(partner) if may("providers.view_provider") else None,
        keys=_keys(request, partner) if may("partners.view_apikey") else None,
        links=list(_links(request, partner)),
        plot=None if deliveries is None else _plot(deliveries),
        **({} if deliveries is None else _going(partner)),
    )


def _links(request: HttpRequest, partner: Partner) -> Iterator[Card]:
    for title, model in _KINDS:
        app, name = model._meta.app_label, model._meta.model_name
        if request.user.has_perm(f"{app}.view_{name}"):
            count = counted(model._default_manager.filter(partner=partner))
            told = str(count) if isinstance(count, MoreThan) else shown(count)
            yield Card(title, told, address=_address(model, partner))


def _address(model: type[Model], partner: Partner) -> str:
    return pages.list_of(model, f"partner__id__exact={partner.pk}")


def _rates(may: Callable[[str], bool], partner: Partner, deliveries: Deliveries | None) -> Iterator[Card]:
    since = _DAY.since(timezone.now())
    if may("partners.view_apikey"):
        used = ApiKey.objects.filter(partner=partner).aggregate(at=Max("last_used_at"))["at"]
        yield Card("Última chamada aceita", f"há {waited(used)}" if used else "nenhuma", "anotada uma vez por minuto")
    if may("partners.view_failedcall"):
        failed = FailedCall.objects.filter(partner=partner, at__gte=since).order_by().values_list("status", "code")
        found = list(failed.annotate(number=Sum("times"), last=Max("at")).order_by("-number"))
        number = shown(sum(each[2] for each in found))
        yield Card("Chamadas com falha, 24 h", number, _failures(found), _address(FailedCall, partner))
    if may("figures.view_bankhour"):
        answers = reports.answers_of(partner.pk, since)
        address = f"{reverse('figures:funnel')}?partner={partner.pk}"
        until = counted_until()
        counted_to = f", contado até {timezone.localtime(until):%H:%M}" if until else ""
        note = f"{shown(answers['failed'])} de {shown(answers.answers)} respostas{counted_to}"
        yield Card("Falhas de bancos, 24 h", part_of(answers["failed"], answers.answers), note, address)
    if deliveries is not None:
        events = deliveries.total()
        delivered = sum(count for (_, state), count in deliveries.items() if state == Event.State.DELIVERED)
        note = f"{shown(delivered)} de {shown(events)} eventos"
        yield Card("Entregas, 24 h", part_of(delivered, events), note, _address(Event, partner))


def _going(partner: Partner) -> dict[str, Any]:
    """How deliveries go: the partner's `health`, and in words the events that are `late`. No partner is said to receive
    while events are. Two statements."""
    now, told = timezone.now(), next(iter(health.of_partners(partner.pk)), None)
    overdue = Event.objects.filter(Event.is_due(now), partner=partner, due_at__lt=now - OVERDUE)
    found = overdue.aggregate(count=Count("pk"), since=Min("due_at"))
    if not found["count"]:
        return {"health": told}
    late = f"{several(found['count'], 'evento espera', 'eventos esperam', '')} há {waited(found['since'])}"
    last = f"{timezone.localtime(told.moments[0]):%H:%M}" if told else ""
    if told and told.moments[0] > now - OVERDUE:
        late = f"{late}: a última tentativa começou às {last}"
    else:
        late = f"{late}: nenhuma tentativa {f'desde {last}' if last else 'em 24 h'}; o problema é nosso"
    return {"late": late, "health": told if told and told.state is not health.State.RECEIVING else None}


def _failures(found: list[tuple[int, str, int, datetime]]) -> str:
    """The last failure and the commonest of those `found`: status, code, number and time of the last, by number."""
    if not found:
        return ""
    (status, code, number, _), last = found[0], max(found, key=lambda each: each[3])
    return f"a última há {waited(last[3])}: {last[0]} {last[1]}; a mais comum: {status} {code} ({shown(number)})"


def _uses(partner: Partner) -> list[Use]:
    """The use of the partner's limits; empty if Redis does not answer, and then no limit is applied."""
    try:
        now = limits.today(partner)
    except RedisError:
        return []
    phone = codes.use_of(partner)
    return [
        _calls(now.calls, partner.rate_limit),
        Use("Consultas em andamento", now.in_flight, partner.in_flight_limit),
        Use("CPFs hoje, desde que há limite", now.cpfs if partner.daily_cpf_limit else None, partner.daily_cpf_limit),
        Use(
            "Códigos por SMS e respostas erradas hoje",
            phone.count if phone else 0,
            django_settings.SMS_PER_PARTNER_A_DAY,
            phone.refused if phone else 0,
        ),
    ]


def _calls(calls: int, limit: int | None) -> Use:
    """The use of the limit of calls in a minute. Calls that it refused are counted with the others."""
    title = "Chamadas neste minuto"
    return Use(title, min(calls, limit), limit, max(0, calls - limit)) if limit else Use(title, None, None)


def _banks(partner: Partner) -> Table:
    """The contract's banks, each with its state now for this partner, and a pause, in which it is not called."""
    rows = [
        (
            bank_link(each.provider_id, _DAY),
            "pausado" if each.pause else state_of(state_at_bank(each)),
            each.pause or "não",
        )
        for each in partner.allowances.all()
    ]
    return Table(("Banco", "Agora", "Pausado até"), rows, "O contrato não tem bancos.")


def _keys(request: HttpRequest, partner: Partner) -> Table:
    """The partner's keys, the newest first, with a link that revokes one for those who may."""
    page_of_key: Any = admin.site.get_model_admin(ApiKey)
    may_revoke = request.user.has_perm("partners.change_apikey")
    rows = []
    for key in ApiKey.objects.filter(partner=partner):
        revoke = reverse("admin:partners_apikey_revoke", args=[quote(key.pk)])
        rows.append(
            (
                link(pages.page_of(key), key.prefix),
                page_of_key.state(key),
                key.label or "—",
                *map(_moment, (key.created_at, key.expires_at, key.last_used_at)),
                link(revoke, "Revogar") if may_revoke and key.revoked_at is None else _moment(key.revoked_at),
            )
        )
    return Table(("Chave", "Situação", "Rótulo", "Criada em", "Expira em", "Último uso", "Revogação"), rows, "Nenhuma.")


def _moment(at: datetime | None) -> str:
    return date_format(timezone.localtime(at), "SHORT_DATETIME_FORMAT") if at else "—"


def _deliveries(partner: Partner) -> Deliveries:
    """How many events of the last 24 hours are in each state now, by hour of creation. An event whose last attempt
    failed and that will be tried again has a state of its own."""
    mine = Event.objects.filter(partner=partner, created_at__gte=_DAY.since(timezone.now())).order_by()
    retried = Case(When(~Q(fault=""), state=Event.State.DUE, then=Value(_RETRIED)), default="state")
    rows = mine.annotate(hour=TruncHour("created_at"), told=retried).values_list("hour", "told")
    return Counter({(hour, told): count for hour, told, count in rows.annotate(found=Count("pk"))})


def _plot(deliveries: Deliveries) -> Plot:
    hours = _DAY.slots(timezone.now())
    colours = {Event.State.DELIVERED: GREEN, Event.State.DUE: BLUE, _RETRIED: ORANGE, Event.State.FAILED: RED}
    names = {**dict(Event.State.choices), _RETRIED: "a tentar de novo"}
    lines = [
        Line(str(names[state]), colour, [deliveries[hour, state] for hour in hours])
        for state, colour in colours.items()
    ]
    return plot("Eventos das últimas 24 h", hours, lines, stacked=True)


def _send_test(request: HttpRequest, partner: Partner) -> HttpResponse:
    """Queue a test event and redirect to its page, which shows the attempt."""
    try:
        event = events.send_test(Partner.objects.get(pk=partner.pk))
    except InvalidState:
        # The fault's own words are for partners, and send them to the operator.
        text = _UNSIGNED if partner.webhook_url else _WITHOUT_URL
        messages.error(request, format_html(text, link(pages.page_of(partner), "Cadastro")))
        return HttpResponseRedirect(request.path)
    text = "Evento de teste enviado."
    audit.record(audit.Action.PUSHED, request=request, obj=partner, detail=f"{text} {event.pk}")
    messages.success(request, f"{text} A tentativa aparece aqui em segundos.")
    return HttpResponseRedirect(pages.page_of(event))
