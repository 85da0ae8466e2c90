"""The back office's pages of figures: all banks side by side, one bank by hour, and the funnel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from backoffice.figures import reports
from backoffice.figures.charts import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, Line, Plot, plot, shown
from backoffice.figures.models import Stage
from backoffice.figures.reports import PERIODS, BankFigures, Period
from backoffice.figures.sweep import counted_until
from backoffice.figures.tables import (
    FUNNEL_OF_ANSWERS,
    FUNNEL_OF_QUERIES,
    Table,
    added,
    bank_link,
    funnel_cells,
    link,
    opening_table,
    partner_names,
    percent,
    reason_table,
    seconds,
    state_of,
    whole_reais,
)
from foundation.formats import counted, share_of
from partners.models import Partner
from providers import registry
from providers.health import health_of

PERMISSION = "figures.view_bankhour"
View = Callable[..., HttpResponse]


def figures_page(view: View) -> View:
    """Decorates a page of the back office for users who may view figures."""

    @wraps(view)
    def guarded(request: HttpRequest, **words: Any) -> HttpResponse:
        if not request.user.has_perm(PERMISSION):
            raise PermissionDenied
        return view(request, **words)

    page: View = admin.site.admin_view(guarded)
    return page


def period_of(request: HttpRequest) -> Period:
    """The period in the URL; one day if there is none."""
    return PERIODS.get(request.GET.get("period", ""), PERIODS["24h"])


def period_links(request: HttpRequest, chosen: Period) -> list[dict[str, Any]]:
    """The links that change a page's period, and keep the rest of its URL."""
    links = []
    for each in PERIODS.values():
        parameters = request.GET.copy()
        parameters["period"] = each.name
        links.append({"label": each.label, "address": f"?{parameters.urlencode()}", "is_chosen": each == chosen})
    return links


def _page(request: HttpRequest, template: str, title: str, period: Period, **words: Any) -> HttpResponse:
    context = {
        **admin.site.each_context(request),
        "title": title,
        "periods": period_links(request, period),
        "period": period,
        "counted_since": period.since(timezone.now()),
        "counted_until": counted_until(),
        **words,
    }
    return TemplateResponse(request, template, context)


@figures_page
def banks(request: HttpRequest) -> HttpResponse:
    """All banks side by side."""
    period, now = period_of(request), timezone.now()
    figures = {each.bank: each for each in reports.banks(period.since(now))}
    states = health_of()
    names = partner_names(states.values())
    head = (
        "Banco",
        "Agora",
        "Respostas",
        "Com ofertas",
        "Sem ofertas",
        "Aguardam o titular",
        "Recusadas",
        "Fechado",
        "Falhas",
        "p50 / p95",
        "Enviadas",
        "Pagas",
    )
    rows = []
    for name in registry.names():
        bank = figures.get(name) or BankFigures(name, {})
        rows.append((bank_link(name, period), state_of(states.get(name), names), *_bank_cells(bank)))
    return _page(request, "figures/banks.html", "Desempenho dos bancos", period, table=Table(head, rows))


def _bank_cells(bank: BankFigures) -> tuple[str, ...]:
    return (
        shown(bank.answers),
        percent(bank.share("ok")),
        percent(bank.share("no_offers")),
        percent(added(bank.share("pending"), bank.share("requires_action"))),
        percent(bank.share("refused")),
        percent(bank.share("closed")),
        percent(bank.share("failed")),
        f"{seconds(bank.percentile(0.5))} / {seconds(bank.percentile(0.95))}",
        shown(bank.submitted),
        shown(bank.disbursed),
    )


@figures_page
def bank(request: HttpRequest, name: str) -> HttpResponse:
    """One bank by hour."""
    adapter = registry.get(name)
    if adapter is None:
        raise Http404
    period, now = period_of(request), timezone.now()
    since = period.since(now)
    figures = reports.bank_by_hour(name, since).by_slot(period)
    whole = figures.whole(name)
    reasons = reports.reasons(since, bank=name)
    health = health_of([name]).get(name)
    names = partner_names([health] if health else [])
    return _page(
        request,
        "figures/bank.html",
        f"Desempenho: {adapter.label}",
        period,
        now=state_of(health, names),
        health=health,
        now_detail=", ".join(filter(None, (health.began, health.detail(names)))) if health else "",
        cards=_bank_cards(whole),
        plots=_bank_plots(figures, period.slots(now)),
        reasons=reason_table(reasons[Stage.OFFER], whole.answers, has_amount=False),
        funnel=Table(FUNNEL_OF_ANSWERS, [funnel_cells("No período", reports.funnel_of_bank(name, whole.sums))]),
        breaker=opening_table(name, now),
        all_banks=f"{reverse('figures:banks')}?period={period.name}",
        settings=reverse("admin:providers_provider_change", args=[quote(name)])
        if request.user.has_perm("providers.view_provider")
        else "",
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
_PROPOSALS = (("Enviadas", BLUE, "submitted"), ("Assinadas", ORANGE, "signed"), ("Pagas", GREEN, "disbursed"))


def _bank_plots(figures: reports.BankByHour, slots: Sequence[datetime]) -> list[Plot]:
    def lines(columns: Iterable[tuple[str, str, str]]) -> list[Line]:
        return [Line(title, colour, figures.hours.series(slots, column)) for title, colour, column in columns]

    times = [
        Line(f"p{share}", each, figures.percentiles(slots, share / 100)) for share, each in ((50, BLUE), (95, RED))
    ]
    return [
        plot("Respostas", slots, lines(_STATUSES), stacked=True),
        plot("Tempo de resposta (s)", slots, times),
        plot("Ofertas", slots, lines([("Ofertas", GREEN, "offers")])),
        plot("Propostas", slots, lines(_PROPOSALS)),
    ]


def _bank_cards(bank: BankFigures) -> list[dict[str, str]]:
    steps = bank.steps_approved + bank.steps_refused + bank.steps_expired
    cards = (
        ("Respostas", shown(bank.answers), ""),
        ("Com ofertas", percent(bank.share("ok")), _answers(bank.ok)),
        ("Sem ofertas", percent(bank.share("no_offers")), _answers(bank.no_offers)),
        ("Falta um passo", percent(added(bank.share("pending"), bank.share("requires_action"))), "do titular"),
        ("Recusadas", percent(bank.share("refused")), _answers(bank.refused)),
        ("Fechado", percent(bank.share("closed")), _answers(bank.closed)),
        ("Falhas", percent(bank.share("failed")), _answers(bank.failed)),
        ("p50 e p95", f"{seconds(bank.percentile(0.5))} / {seconds(bank.percentile(0.95))}", "por resposta"),
        ("Ofertas", shown(bank.offers + bank.step_offers), f"{shown(bank.offers_per_answer)} por resposta"),
        (
            "Passos do titular",
            shown(steps),
            counted(bank.steps_approved, "concluído", "concluídos", "nenhum concluído"),
        ),
        ("Propostas pagas", shown(bank.disbursed), whole_reais(bank.disbursed_amount)),
        ("Desistências", shown(bank.withdrawn), whole_reais(bank.withdrawn_amount)),
    )
    return [{"title": title, "value": value, "note": note} for title, value, note in cards]


def _answers(number: int) -> str:
    return counted(number, "resposta", "respostas", "nenhuma resposta")


@figures_page
def funnel(request: HttpRequest) -> HttpResponse:
    """The funnel, of a partner and a bank if the URL names them."""
    period, now = period_of(request), timezone.now()
    since = period.since(now)
    name, partner = request.GET.get("bank", ""), _partner(request.GET.get("partner", ""))
    if name and registry.get(name) is None:
        raise Http404
    funnels = reports.funnels(since, bank=name, partner=partner.pk if partner else None)
    reasons = reports.reasons(since, bank=name, partner=partner.pk if partner else None)

    def narrowed(**chosen: str) -> str:
        parameters = request.GET.copy()
        parameters["period"] = period.name
        for key, value in chosen.items():
            if value:
                parameters[key] = value
            else:
                parameters.pop(key, None)
        return f"?{parameters.urlencode()}"

    return _page(
        request,
        "figures/funnel.html",
        "Funil",
        period,
        steps=_funnel_steps(funnels.whole, reasons, of_bank=bool(name)),
        of_bank=registry.label(name) if registry.get(name) else "",
        of_partner=partner,
        all_banks=narrowed(bank=""),
        all_partners=narrowed(partner=""),
        by_bank=Table(
            FUNNEL_OF_ANSWERS,
            [funnel_cells(link(narrowed(bank=each.key), registry.label(each.key)), each) for each in funnels.by_bank],
        ),
        by_partner=Table(
            FUNNEL_OF_ANSWERS if name else FUNNEL_OF_QUERIES,
            [funnel_cells(link(narrowed(partner=each.key), each.name), each) for each in funnels.by_partner],
        ),
    )


def _funnel_steps(
    whole: reports.Funnel, reasons: Mapping[str, list[reports.ReasonFigures]], *, of_bank: bool
) -> list[dict[str, Any]]:
    """The funnel's steps for its template: the number at each step, its share of the previous step, and the reasons why
    the others ended."""
    return [
        {
            "title": title,
            "count": shown(count),
            "share": percent(share_of(count, before)),
            "width": min(100, round(count * 100 / whole.asked)) if whole.asked else 0,
            "amount": whole_reais(amount) if amount is not None else "",
            "reasons": reason_table(reasons[stage], 0, has_amount=stage != Stage.OFFER) if stage else None,
            "lost": lost,
        }
        for title, count, before, amount, stage, lost in (
            (
                "Respostas" if of_bank else "Consultas",
                whole.asked,
                0,
                None,
                Stage.OFFER,
                "Por que não houve oferta, por resposta de banco",
            ),
            ("Com ofertas", whole.with_offers, whole.asked, whole.offered, None, ""),
            (
                "Propostas enviadas",
                whole.submitted,
                whole.with_offers,
                whole.submitted_amount,
                Stage.SIGNATURE,
                "Por que não foram assinadas",
            ),
            (
                "Assinadas",
                whole.signed,
                whole.submitted,
                whole.signed_amount,
                Stage.PAYMENT,
                "Por que não foram pagas",
            ),
            ("Pagas", whole.disbursed, whole.signed, whole.disbursed_amount, None, ""),
            ("Desistências", whole.withdrawn, whole.disbursed, whole.withdrawn_amount, None, ""),
        )
    ]


def _partner(text: str) -> Partner | None:
    """The partner with the id `text`; None for an empty text. Raises Http404."""
    if not text:
        return None
    try:
        return Partner.objects.get(pk=UUID(text))
    except (ValueError, Partner.DoesNotExist):
        raise Http404 from None
