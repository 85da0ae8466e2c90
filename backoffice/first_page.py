"""The back office's first page: what is wrong; then the figures of today compared with a week ago, and by hour."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from backoffice.figures.charts import BLUE, GREEN, Plot, shown
from backoffice.figures.counting import hour_of
from backoffice.figures.reports import PERIODS, WEEK, Hours, hours_of_all, midnight_of
from backoffice.figures.sweep import counted_until
from backoffice.figures.tables import Card, whole_reais
from backoffice.figures.views import PERMISSION, period_of, plot_of, sales_plots
from backoffice.problems.checks import look
from backoffice.problems.problem import Problem
from foundation.formats import counted, share_of

#: The figures are a few minutes old. If they are older, nobody counts them.
UNCOUNTED = timedelta(minutes=5)
#: The figures of today, each with its column and that of its amount.
_TODAY = (
    ("Consultas", "queries", ""),
    ("Consultas com ofertas", "with_offers", "offered"),
    ("Ofertas", "offers", ""),
    ("Propostas enviadas", "submitted", "submitted_amount"),
    ("Propostas pagas", "disbursed", "disbursed_amount"),
)


def with_problems(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """UNFOLD's DASHBOARD_CALLBACK. Users see only the problems whose rows they may view, and the figures only with the
    permission for them. At most 24 SQL statements."""
    found, context["well"] = look(request.user.has_perm)
    may_see_figures = request.user.has_perm(PERMISSION)
    until = counted_until() if may_see_figures else None
    found += _uncounted(until)
    context["problems"] = problems = [each for each in found if not each.is_neutral]
    context["planned"] = {each.title: each for each in found if each.is_neutral}.values()
    context["verdict"] = counted(len(problems), "problema", "problemas", "Tudo bem") if found or context["well"] else ""
    if may_see_figures:
        now, period = timezone.now(), period_of(request)
        # One query for both: a week and a day back for the comparison, or the whole period.
        hours = hours_of_all(min(period.since(now), hour_of(now) - timedelta(days=8)))
        context["cards"] = list(cards_of_today(hours, now, until))
        context["plots"] = _plots(hours.by_slot(period), period.slots(now))
        context["periods"], context["period"] = PERIODS.values(), period
        context["counted_until"] = until
    return context


def _uncounted(until: datetime | None) -> Iterator[Problem]:
    """A problem if the figures, which are counted until then, stand still. None before the first count."""
    if until and timezone.now() - until > UNCOUNTED:
        yield Problem(
            "Os números pararam",
            reverse("figures:banks"),
            "Desempenho dos bancos",
            f"Estão contados até {timezone.localtime(until):%d/%m %H:%M}.",
            "Confira o beat e o worker de default: sem o beat nada se repete, e nada se verifica de novo.",
            until,
        )


def cards_of_today(hours: Hours, now: datetime, until: datetime | None) -> Iterator[Card]:
    """Queries, offers, proposals and payments of today. Its whole hours, as far as they are counted, are compared with
    the same hours of the same weekday a week ago."""
    midnight = midnight_of(now)
    whole = max(midnight, hour_of(min(now, until or now)))
    for title, column, amount in _TODAY:
        today, before = hours.total(column, midnight, whole), hours.total(column, midnight - WEEK, whole - WEEK)
        change = share_of(today - before, before)
        changed = "" if change is None else f" ({change:+.0f} %)"
        yield Card(
            title,
            shown(hours.total(column, midnight, now)),
            whole_reais(hours.total(amount, midnight, now)) if amount else "",
            compared=f"{shown(today)} até {timezone.localtime(whole):%Hh}; há uma semana {shown(before)}{changed}",
            has_fallen=change is not None and change < -30,
        )


def _plots(sums: Hours, slots: list[datetime]) -> list[Plot]:
    lines = (("Consultas", BLUE, "queries"), ("Com ofertas", GREEN, "with_offers"))
    return [plot_of("Consultas", sums, slots, *lines), *sales_plots(sums, slots)]
