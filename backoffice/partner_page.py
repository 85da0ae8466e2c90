"""The back office's page of a partner's activity: counts with links, the deliveries of one day, the use of its limits,
and a test event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings as django_settings
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.db.models import Case, Count, Model, Q, QuerySet, Value, When
from django.db.models.functions import TruncHour
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html

from authorizations import phone_limits
from authorizations.models import Session
from backoffice.figures.charts import BLUE, GREEN, ORANGE, RED, Line, Plot, plot, shown
from consultas.models import Offer, Query
from foundation import audit
from foundation.errors import InvalidState
from partners import registration
from partners.failed_calls import FailedCall
from partners.models import SECRET_FIELDS, ApiKey, Partner
from proposals.models import Proposal
from webhooks import events, health
from webhooks.models import Event

#: The maximum of a link's count. Counting all rows of a large partner would read them all.
MOST = 1_000
_RETRIED = "retried"
#: Why nothing can be sent, and what the operator does.
_WITHOUT_URL = "O parceiro não tem URL de webhook. Escreva-a em {}, no campo URL do webhook."
_UNSIGNED = "O parceiro não tem segredo de webhook. Emita um em {}, com Trocar segredo do webhook."
_KINDS: tuple[tuple[str, type[Model]], ...] = (
    ("Consultas", Query),
    ("Ofertas", Offer),
    ("Propostas", Proposal),
    ("Sessões de autorização", Session),
    ("Eventos de webhook", Event),
    ("Chamadas com falha", FailedCall),
    ("Chaves de API", ApiKey),
)


@dataclass(frozen=True)
class Link:
    """A list of the partner's rows: title, number of rows, and URL."""

    title: str
    count: str
    address: str


def page(request: HttpRequest, partner_id: UUID) -> HttpResponse:
    """The page. A POST sends a test event. Raises Http404 and PermissionDenied."""
    if not request.user.has_perm("partners.view_partner"):
        raise PermissionDenied
    partner = registration.with_facts(Partner.objects.defer(*SECRET_FIELDS)).filter(pk=partner_id).first()
    if partner is None:
        raise Http404
    may_test = request.user.has_perm("webhooks.change_event")
    if request.method == "POST":
        if not may_test:
            raise PermissionDenied
        return _send_test(request, partner)
    may_see_events = request.user.has_perm("webhooks.view_event")
    page_of_list: Any = admin.site.get_model_admin(Partner)  # two of the list's columns stand here too
    context = {
        **admin.site.each_context(request),
        "title": partner.name,
        "partner": partner,
        "settings": reverse("admin:partners_partner_change", args=[quote(partner.pk)]),
        "is_suspended": partner.status == Partner.Status.SUSPENDED,
        "situation": page_of_list.situation(partner),
        "gaps": registration.gaps(partner),
        "use": page_of_list.use(partner),
        "phone_use": phone_limits.of_partner(partner),
        "phone_limit": shown(django_settings.SMS_PER_PARTNER_A_DAY),
        "links": list(_links(request, partner)),
        "plot": _deliveries(partner) if may_see_events else None,
        "health": next(iter(health.of_partners(partner.pk)), None) if may_see_events else None,
        "may_test": may_test,
    }
    return TemplateResponse(request, "admin/partner.html", context)


def _links(request: HttpRequest, partner: Partner) -> Iterator[Link]:
    for title, model in _KINDS:
        app, name = model._meta.app_label, model._meta.model_name
        if request.user.has_perm(f"{app}.view_{name}"):
            address = f"{reverse(f'admin:{app}_{name}_changelist')}?partner__id__exact={partner.pk}"
            yield Link(title, _count(model._default_manager.filter(partner=partner)), address)


def _count(rows: QuerySet[Model]) -> str:
    count = rows.order_by().values("pk")[: MOST + 1].count()
    return f"mais de {shown(MOST)}" if count > MOST else shown(count)


def _deliveries(partner: Partner) -> Plot:
    """The events of the last 24 hours by hour of creation, with their current states. An event whose last attempt
    failed and that will be tried again has a state of its own."""
    now = timezone.localtime().replace(minute=0, second=0, microsecond=0)
    hours = [now - timedelta(hours=back) for back in reversed(range(24))]
    mine = Event.objects.filter(partner=partner, created_at__gte=hours[0]).order_by()
    retried = Case(When(~Q(fault=""), state=Event.State.DUE, then=Value(_RETRIED)), default="state")
    rows = mine.annotate(hour=TruncHour("created_at"), told=retried).values_list("hour", "told")
    counted = Counter({(hour, told): count for hour, told, count in rows.annotate(found=Count("pk"))})
    colours = {Event.State.DELIVERED: GREEN, Event.State.DUE: BLUE, _RETRIED: ORANGE, Event.State.FAILED: RED}
    names = {**dict(Event.State.choices), _RETRIED: "a tentar de novo"}
    lines = [
        Line(str(names[state]), colour, [counted[hour, state] for hour in hours]) for state, colour in colours.items()
    ]
    return plot("Eventos das últimas 24 h", hours, lines, stacked=True)


def _send_test(request: HttpRequest, partner: Partner) -> HttpResponse:
    """Queue a test event and redirect to its page, which shows the attempt."""
    try:
        event = events.send_test(Partner.objects.get(pk=partner.pk))
    except InvalidState:
        # The fault's own words are for partners, and send them to the operator.
        settings = reverse("admin:partners_partner_change", args=[quote(partner.pk)])
        text = _UNSIGNED if partner.webhook_url else _WITHOUT_URL
        link = format_html('<a class="text-link" href="{}">Cadastro, chaves e segredo</a>', settings)
        messages.error(request, format_html(text, link))
        return HttpResponseRedirect(request.path)
    text = "Evento de teste enviado."
    audit.record(audit.Action.PUSHED, request=request, obj=partner, detail=f"{text} {event.pk}")
    messages.success(request, f"{text} A tentativa aparece aqui em segundos.")
    return HttpResponseRedirect(reverse("admin:webhooks_event_change", args=[quote(event.pk)]))
