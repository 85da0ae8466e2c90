"""The back office's pages of figures: all banks side by side, one bank by hour, and the funnel."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

from django.contrib import admin
from django.contrib.auth.decorators import permission_required
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone

from backoffice.figures import reports, tables
from backoffice.figures.charts import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, Line, Plot, plot, shown
from backoffice.figures.models import Stage
from backoffice.figures.reports import PERIODS, Hours, Period, Sums
from backoffice.figures.sweep import counted_until
from backoffice.problems.banks import queries_of_concerned
from foundation.backoffice.cells import Table, link
from foundation.backoffice.pages import page
from foundation.formats import counted
from partners.models import Partner
from providers import registry
from providers.health import named
from providers.judging import health_of

PERMISSION = "figures.view_bankhour"
_for_readers = permission_required(PERMISSION, raise_exception=True)


def period_of(request: HttpRequest) -> Period:
    """The period in the URL; one day if there is none."""
    return PERIODS.get(request.GET.get("period", ""), PERIODS["24h"])


def _address_with(request: HttpRequest, **chosen: str) -> str:
    """The page's address with other parameters."""
    parameters = request.GET.copy()
    for key, value in chosen.items():
        parameters[key] = value
    return f"?{parameters.urlencode()}"


def _page(request: HttpRequest, template: str, title: str, period: Period, **words: Any) -> HttpResponse:
    told = {"counted_since": period.since(timezone.now()), "counted_until": counted_until()}
    return page(request, template, title, periods=PERIODS.values(), period=period, **told, **words)


@_for_readers
def banks(request: HttpRequest) -> HttpResponse:
    period, now = period_of(request), timezone.now()
    figures = reports.banks(period.since(now))
    states = named(health_of())
    head = (
        "Banco",
        "Agora",
        "Respostas",
        *(title for title, _ in _OUTCOMES),
        "p50 / p95, sem falhas",
        "Enviadas",
        "Pagas",
    )
    rows = []
    for name in registry.names():
        bank = figures.get(name, Sums())
        rows.append((tables.bank_link(name, period), tables.state_of(states.get(name)), *_bank_cells(bank)))
    return _page(request, "figures/banks.html", "Desempenho dos bancos", period, table=Table(head, rows))


#: How answers end, with the columns that count them.
_WAIT = ("pending", "requires_action")
_OUTCOMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Com ofertas", ("ok",)),
    ("Sem ofertas", ("no_offers",)),
    ("Aguardam o titular", _WAIT),
    ("Recusadas", ("refused",)),
    ("Fechado", ("closed",)),
    ("Falhas", ("failed",)),
)


def _bank_cells(bank: Sums) -> tuple[str, ...]:
    shares = (_part_of(bank, columns) for _, columns in _OUTCOMES)
    return shown(bank.answers), *shares, _times(bank), shown(bank["submitted"]), shown(bank["disbursed"])


def _part_of(bank: Sums, columns: Iterable[str]) -> str:
    return tables.part_of(sum(bank[name] for name in columns), bank.answers)


def _times(bank: Sums) -> str:
    return f"{tables.seconds(bank.percentile(0.5))} / {tables.seconds(bank.percentile(0.95))}"


@_for_readers
def bank(request: HttpRequest, name: str) -> HttpResponse:
    adapter = registry.get(name)
    if adapter is None:
        raise Http404
    period, now = period_of(request), timezone.now()
    since = period.since(now)
    figures = reports.bank_by_hour(name, since).by_slot(period)
    whole = Sums.of(figures.rows.values())
    reasons = reports.reasons(since, bank=name)
    health = named(health_of([name])).get(name)
    return _page(
        request,
        "figures/bank.html",
        f"Desempenho: {adapter.label}",
        period,
        now=tables.state_of(health),
        health=health,
        queries=queries_of_concerned(name, health) if health else (),
        now_detail=", ".join(filter(None, (health.began, health.detail()))) if health else "",
        cards=_bank_cards(whole),
        plots=_bank_plots(figures, period.slots(now)),
        reasons=tables.reason_table(reasons[Stage.OFFER], whole.answers, has_amount=False),
        funnel=Table(tables.FUNNEL_OF_ANSWERS, [tables.funnel_cells("No período", reports.funnel_of(whole))]),
        breaker=tables.opening_table(name, now),
    )


_STATUSES = (
    ("Com ofertas", GREEN, "ok"),
    ("Sem ofertas", GREY, "no_offers"),
    ("Falta um passo do titular", PURPLE, "requires_action"),
    ("Aguardando o titular", BLUE, "pending"),
    ("Recusadas", ORANGE, "refused"),
    ("Fechado", SKY, "closed"),
    ("Falhas", RED, "failed"),
)
_OFFERS = ("Ofertas", GREEN, "offers")
_PROPOSALS = (("Enviadas", BLUE, "submitted"), ("Assinadas", ORANGE, "signed"), ("Pagas", GREEN, "disbursed"))


def plot_of(
    title: str, sums: Hours, slots: Sequence[datetime], *lines: tuple[str, str, str], stacked: bool = False
) -> Plot:
    """A plot with the `lines`, each of which has a name, a colour and a column."""
    drawn = [Line(name, colour, sums.series(slots, column)) for name, colour, column in lines]
    return plot(title, slots, drawn, stacked=stacked)


def sales_plots(sums: Hours, slots: Sequence[datetime]) -> list[Plot]:
    """The plots of offers and of proposals."""
    return [plot_of("Ofertas", sums, slots, _OFFERS), plot_of("Propostas", sums, slots, *_PROPOSALS)]


def _bank_plots(sums: Hours, slots: Sequence[datetime]) -> list[Plot]:
    times = [Line(f"p{share}", each, sums.percentiles(slots, share / 100)) for share, each in ((50, BLUE), (95, RED))]
    return [
        plot_of("Respostas", sums, slots, *_STATUSES, stacked=True),
        plot("Tempo de resposta, sem falhas (s)", slots, times),
        *sales_plots(sums, slots),
    ]


def _bank_cards(bank: Sums) -> list[tables.Card]:
    per_answer = Decimal(bank["offers"]) / bank.answers if bank.answers else None
    approved = bank["steps_approved"]
    return [
        tables.Card("Respostas", shown(bank.answers)),
        *(
            tables.Card("Falta um passo", _part_of(bank, columns), "do titular")
            if columns == _WAIT
            else tables.Card(title, _part_of(bank, columns), _answers(bank[columns[0]]))
            for title, columns in _OUTCOMES
        ),
        tables.Card("p50 e p95", _times(bank), "por resposta, sem falhas"),
        tables.Card("Ofertas", shown(bank["offers"] + bank["step_offers"]), f"{shown(per_answer)} por resposta"),
        tables.Card(
            "Passos do titular",
            shown(approved + bank["steps_refused"] + bank["steps_expired"]),
            counted(approved, "concluído", "concluídos", "nenhum concluído"),
        ),
        tables.Card("Propostas pagas", shown(bank["disbursed"]), tables.whole_reais(bank["disbursed_amount"])),
        tables.Card("Desistências", shown(bank["withdrawn"]), tables.whole_reais(bank["withdrawn_amount"])),
    ]


def _answers(number: int) -> str:
    return counted(number, "resposta", "respostas", "nenhuma resposta")


@_for_readers
def funnel(request: HttpRequest) -> HttpResponse:
    """The funnel, of a partner and a bank if the URL names them."""
    period, now = period_of(request), timezone.now()
    since = period.since(now)
    name, partner_id = request.GET.get("bank", ""), request.GET.get("partner", "")
    pages: Any = admin.site.get_model_admin(Partner)
    partner = pages.row_of(request, partner_id) if partner_id else None
    if name and registry.get(name) is None:
        raise Http404
    funnels = reports.funnels(since, bank=name, partner=partner.pk if partner else None)
    reasons = reports.reasons(since, bank=name, partner=partner.pk if partner else None)

    narrowed = partial(_address_with, request, period=period.name)
    return _page(
        request,
        "figures/funnel.html",
        "Funil",
        period,
        steps=_funnel_steps(funnels.whole, reasons, of_bank=bool(name)),
        of_bank=registry.label(name) if registry.get(name) else "",
        of_partner=partner,
        by_bank=Table(
            tables.FUNNEL_OF_ANSWERS,
            [
                tables.funnel_cells(link(narrowed(bank=each), registry.label(each)), sums)
                for each, sums in funnels.by_bank.items()
            ],
        ),
        by_partner=Table(
            tables.FUNNEL_OF_ANSWERS if name else tables.FUNNEL_OF_QUERIES,
            [
                tables.funnel_cells(link(narrowed(partner=str(key)), title), sums)
                for (key, title), sums in funnels.by_partner.items()
            ],
        ),
    )


def _funnel_steps(
    whole: Sums, reasons: Mapping[str, list[reports.ReasonFigures]], *, of_bank: bool
) -> list[dict[str, Any]]:
    """The funnel's steps for its template: each one's number, share of the step before, and reasons of the others."""
    asked = whole["asked"]
    titles = (
        ("Respostas" if of_bank else "Consultas", Stage.OFFER, "Por que não houve oferta, por resposta de banco"),
        ("Com ofertas", None, ""),
        ("Propostas enviadas", Stage.SIGNATURE, "Por que não foram assinadas"),
        ("Assinadas", Stage.PAYMENT, "Por que não foram pagas"),
        ("Pagas", None, ""),
        ("Desistências", None, ""),
    )
    return [
        {
            "title": title,
            "count": shown(count),
            "share": tables.part_of(count, before) if before else "",
            "width": min(100, round(count * 100 / asked)) if asked else 0,
            "amount": tables.whole_reais(amount) if stage != Stage.OFFER else "",  # queries have none
            "reasons": tables.reason_table(reasons[stage], 0, has_amount=stage != Stage.OFFER) if stage else None,
            "lost": lost,
        }
        for (title, stage, lost), (count, before, amount) in zip(titles, reports.funnel_steps(whole), strict=True)
    ]
