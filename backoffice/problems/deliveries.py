"""Deliveries of events that fail, or wait for somebody."""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import CharField, Count, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Cast
from django.urls import reverse
from django.utils import timezone

from backoffice.problems.problem import Problem, planned
from foundation.backoffice.pages import list_of
from foundation.formats import counted, listed
from foundation.models import AuditEntry
from partners.models import Partner
from webhooks import health as deliveries
from webhooks.models import Event

#: What an operator does about deliveries that fail, and about those that failed before the last ones.
_TELL_PARTNER = "Avise o parceiro. O serviço repete as entregas por umas 28 horas."
_RESEND = "A última entrega deu certo. O que espera nova tentativa pode sair já: reenvie desde a falha."


def suspended() -> Iterator[Problem]:
    suspended = Partner.Status.SUSPENDED
    names = list(Partner.objects.filter(status=suspended).order_by("name").values_list("name", flat=True))
    if names:
        title = f"{counted(len(names), 'parceiro suspenso', 'parceiros suspensos', '')}: {listed(names, len(names))}"
        yield planned(title, list_of(Partner, f"status__exact={suspended}"))


def held() -> Iterator[Problem]:
    """The events that an operator holds, by partner, and who held them when. One statement."""
    orders = AuditEntry.objects.filter(
        model="partners.partner",
        object_id=Cast(OuterRef("pk"), CharField()),
        changes__has_key="deliveries_held",
    ).order_by("-at")
    mine = DUE_EVENTS.filter(partner=OuterRef("pk")).order_by().values("partner")
    partners = (
        Partner.objects.filter(deliveries_held=True)
        .exclude(webhook_url="")
        .annotate(held=Subquery(mine.annotate(found=Count("pk")).values("found")))
        .annotate(oldest=Subquery(mine.annotate(found=Min("created_at")).values("found")))
        .annotate(who=Subquery(orders.values("who")[:1]), at=Subquery(orders.values("at")[:1]))
    )
    found = partners.filter(held__gt=0).order_by("name").values_list("pk", "name", "held", "oldest", "who", "at")
    for key, name, held, oldest, who, at in found:
        by = f"por {who} em {timezone.localtime(at):%d/%m %H:%M}" if who else "por um operador"
        yield Problem(
            f"{name}: {counted(held, 'evento retido', 'eventos retidos', '')} {by}",
            "",
            list_of(Event, f"partner__id__exact={key}&state__exact=due"),
            "",
            "Saem quando alguém reativa o parceiro.",
            oldest,
            is_neutral=True,
        )


def troubles() -> Iterator[Problem]:
    resend = reverse("admin:webhooks_event_resend_window")
    titles = {deliveries.State.DOWN: "não recebe eventos", deliveries.State.FAILING: "entregas falham"}
    for partner in sorted(deliveries.of_partners(), key=lambda each: each.failing_since or timezone.now()):
        if partner.state in titles:
            title = titles[partner.state] if partner.failed else "eventos esperam nova tentativa"
            mine = f"partner__id__exact={partner.partner_id}"
            waiting = (f"{mine}&state__exact=due", "Eventos à espera")
            filters, link = waiting if partner.is_waited_for else (mine, "Eventos do parceiro")
            yield Problem(
                f"{partner.name}: {title}",
                partner.words,
                list_of(Event, filters),
                link,
                _RESEND if partner.has_recovered else _TELL_PARTNER,
                partner.failing_since,
                more=[
                    (reverse("partner", args=[partner.partner_id]), "Página do parceiro"),
                    (f"{resend}?partner={partner.partner_id}&period=failure", "Reenviar desde a falha"),
                ],
            )


#: The second condition makes PostgreSQL use the index of due events.
DUE_EVENTS = Event.objects.filter(state=Event.State.DUE, due_at__isnull=False)
#: The partner may read its events from the API.
HAS_NO_URL = Q(partner__webhook_url="")
HAS_NO_SECRET = Q(partner__webhook_secret__isnull=True)


def unsendable(now: datetime) -> QuerySet[Event]:
    """The events that wait for their partner's URL or secret."""
    return DUE_EVENTS.filter(HAS_NO_URL | HAS_NO_SECRET)
