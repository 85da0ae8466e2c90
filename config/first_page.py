"""The back office's first page: what needs an operator, with a link to the rows concerned; then the figures of today
compared with a week ago, and by hour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, Min, Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.timesince import timesince

from consultas.models import Step
from figures import reports
from figures.charts import BLUE, GREEN, ORANGE, Line, Plot, plot, shown
from figures.counting import hour_of
from figures.sweep import counted_until
from figures.tables import partner_names
from figures.views import PERMISSION, period_links, period_of
from partners.models import ApiKey
from proposals.models import Proposal
from providers.health import health_of
from webhooks import health
from webhooks.models import UNREACHABLE, Event

#: Sweeps run every few seconds. If a row has been due for longer, a process is probably not running.
OVERDUE = timedelta(minutes=2)
#: A key without expiry that is older should be replaced.
OLD_KEY = timedelta(days=365)
_TROUBLED = {
    health.State.DOWN: "Parceiros que não recebem agora",
    health.State.FAILING: "Parceiros com entregas que falham",
}
#: The maximum number of names in one line.
_NAMES = 5


@dataclass(frozen=True)
class Concern:
    """One line of the page. `count` is 0 if nothing is wrong. `what` adds words to the number. `since` is the time of
    the oldest row concerned, which the page calls `oldest`."""

    title: str
    count: int
    what: str
    address: str
    since: datetime | None = None
    oldest: str = "o mais antigo"

    @property
    def waited(self) -> str:
        """How long the oldest waits."""
        return waited(self.since) if self.since else ""


def waited(since: datetime) -> str:
    """How long ago that was: `menos de um minuto`, `3 horas, 12 minutos`."""
    is_short = timezone.now() - since < timedelta(minutes=1)
    return "menos de um minuto" if is_short else timesince(since)


@dataclass(frozen=True)
class Card:
    """A figure of today. `change` is in percent compared with a week ago; None if the value was 0 then."""

    title: str
    value: str
    amount: str
    before: str
    change: int | None


def with_concerns(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """UNFOLD's DASHBOARD_CALLBACK. Users see only the concerns whose rows they may view, and the figures only with the
    permission for them. At most 16 SQL statements."""
    concerns = list(_concerns(request.user.has_perm))
    context["concerns"] = concerns
    waiting = [each.since for each in concerns if each.count and each.since]
    context["oldest"] = waited(min(waiting)) if waiting else ""
    if request.user.has_perm(PERMISSION):
        now, period = timezone.now(), period_of(request)
        # One query for both: a week and a day back for the comparison, or the whole period.
        hours = reports.hours_of_all(min(period.since(now), hour_of(now) - timedelta(days=8)))
        context["cards"] = [_card(each) for each in reports.today_compared(hours, now)]
        context["plots"] = _plots(hours, period.all_hours(now))
        context["periods"] = period_links(request, period)
        context["counted_until"] = counted_until()
    return context


def _card(figure: reports.Compared) -> Card:
    return Card(
        figure.title,
        shown(round(figure.today)),
        "" if figure.amount is None else f"R$ {shown(round(figure.amount))}",
        shown(round(figure.before)),
        figure.change,
    )


def _plots(hours: reports.Hours, shown_hours: list[datetime]) -> list[Plot]:
    def line(title: str, colour: str, column: str) -> Line:
        values: list[int | float | Decimal | None] = [*hours.series(shown_hours, column)]
        return Line(title, colour, values)

    return [
        plot(
            "Consultas por hora",
            shown_hours,
            [line("Consultas", BLUE, "queries"), line("Com ofertas", GREEN, "with_offers")],
        ),
        plot("Ofertas por hora", shown_hours, [line("Ofertas", ORANGE, "offers")]),
        plot(
            "Propostas por hora",
            shown_hours,
            [
                line("Enviadas", BLUE, "submitted"),
                line("Assinadas", ORANGE, "signed"),
                line("Pagas", GREEN, "disbursed"),
            ],
        ),
    ]


def _concerns(may: Any) -> Iterator[Concern]:
    late = timezone.now() - OVERDUE
    if may("partners.view_apikey"):
        born = ApiKey.objects.filter(expires_at=None, revoked_at=None, created_at__lt=timezone.now() - OLD_KEY)
        old = born.aggregate(count=Count("pk"), first=Min("created_at"))
        days = (timezone.now() - old["first"]).days if old["first"] else 0
        oldest = f"A mais antiga tem {days} dias." if days else ""
        address = reverse("admin:partners_apikey_changelist")
        yield Concern("Chaves sem validade com mais de um ano", old["count"], oldest, f"{address}?o=5")
    if may("webhooks.view_event"):
        yield from _webhook_concerns(late)
    if may("consultas.view_step"):
        steps = Step.objects.filter(state=Step.State.OPEN, due_at__lt=late)
        counts = steps.aggregate(count=Count("pk"), since=Min("due_at"))
        address = f"{reverse('admin:consultas_step_changelist')}?state__exact=open"
        yield Concern("Passos do titular sem verificação", counts["count"], "", address, counts["since"])
    if may("proposals.view_proposal"):
        unknown = Proposal.objects.filter(submission=Proposal.Submission.UNKNOWN, next_reconcile_at__isnull=False)
        counts = unknown.aggregate(count=Count("pk"), since=Min("created_at"))
        # The second condition makes PostgreSQL use the index of the first.
        filters = "submission__exact=unknown&next_reconcile_at__isnull=False"
        address = f"{reverse('admin:proposals_proposal_changelist')}?{filters}"
        yield Concern("Propostas de resultado desconhecido", counts["count"], "", address, counts["since"])
    if may("providers.view_provider"):
        troubled = _troubled_banks()
        yield Concern(
            "Bancos com problema", len(troubled), "; ".join(troubled), reverse("admin:providers_provider_changelist")
        )


def _webhook_concerns(late: datetime) -> Iterator[Concern]:
    now, address = timezone.now(), reverse("admin:webhooks_event_changelist")
    due = Q(state=Event.State.DUE)
    overdue = due & ~UNREACHABLE & Q(next_attempt_at__lt=late) & (Q(claimed_until=None) | Q(claimed_until__lte=now))
    # Two statements, each with its own index. One statement for both states would read all events ever sent.
    failed = Event.objects.filter(state=Event.State.FAILED, purged_at=None).count()
    counts = Event.objects.filter(due).aggregate(
        overdue=Count("pk", filter=overdue),
        overdue_since=Min("next_attempt_at", filter=overdue),
        mute=Count("pk", filter=UNREACHABLE),
        mute_since=Min("created_at", filter=UNREACHABLE),
    )
    waiting = f"{address}?state__exact=due"
    yield Concern("Eventos de webhook falhados", failed, "", f"{address}?state__exact=failed")
    troubled = sorted(health.of_partners(), key=lambda each: each.failing_since or now)
    for state, title in _TROUBLED.items():
        found = [each for each in troubled if each.state == state]
        names = _named([f"{each.name} ({each.words})" for each in found])
        since = found[0].failing_since if found else None
        yield Concern(title, len(found), names, waiting, since, "a falha mais antiga")
    yield Concern(
        "Eventos atrasados", counts["overdue"], "A entrega está em execução?", waiting, counts["overdue_since"]
    )
    yield Concern(
        "Eventos retidos, ou à espera de URL ou segredo do parceiro", counts["mute"], "", waiting, counts["mute_since"]
    )


def _named(names: list[str]) -> str:
    rest = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" e mais {rest}" if rest > 0 else "")


def _troubled_banks() -> list[str]:
    """The banks with a problem, each with its state, since when, and of how many calls."""
    banks = {name: health for name, health in health_of().items() if health.kind.is_problem}
    names = partner_names(banks.values())
    told = {name: (health.words(names), health.detail(names)) for name, health in banks.items()}
    return [f"{name}: {', '.join(filter(None, words))}" for name, words in sorted(told.items())]
