"""The tables of the figures' pages: cells in Portuguese notation, and tables that several pages share."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from backoffice.figures.breaker_history import fetch, openings
from backoffice.figures.charts import shown
from backoffice.figures.counting import LATENCY_BOUNDS_MS
from backoffice.figures.models import UNTAKEN
from backoffice.figures.reports import Period, ReasonFigures, Sums, funnel_steps
from foundation.backoffice.cells import Table, link
from foundation.backoffice.pages import page_of
from foundation.formats import share_of
from partners.models import Partner
from providers import registry
from providers.health import Health
from providers.reasons import MEANINGS, OPERATOR_MEANINGS, ReasonCode

#: Meanings for operators. The shared one of `other` sends readers to a field of the API.
_MEANINGS = {
    **{code.value: told.meaning for code, told in MEANINGS.items()},
    ReasonCode.OTHER.value: "Outro motivo do banco.",
    **OPERATOR_MEANINGS,
    UNTAKEN: "O banco não foi chamado: nenhum processo nosso tomou a consulta.",
}


@dataclass(frozen=True)
class Card:
    """A figure of a page. `note` stands below it, then what of it is `compared` with a week ago, and whether it is much
    less (`has_fallen`). `address` leads to the rows behind it."""

    title: str
    value: str
    note: str = ""
    address: str = ""
    compared: str = ""
    has_fallen: bool = False


_FUNNEL_HEAD = ("Com ofertas", "Enviadas", "Assinadas", "Pagas", "Desistências")
#: Titles of a funnel that begins with queries, and of one that begins with a bank's answers.
FUNNEL_OF_QUERIES, FUNNEL_OF_ANSWERS = ("", "Consultas", *_FUNNEL_HEAD), ("", "Respostas", *_FUNNEL_HEAD)


def funnel_cells(first: Any, funnel: Sums) -> tuple[Any, ...]:
    """A row of a funnel's table: each step with its share of the previous step, and with its amount."""
    (asked, _, _), *steps = funnel_steps(funnel)
    return (
        first,
        shown(asked),
        *(format_html("{}<br>{}", _with_share(now, before), whole_reais(amount)) for now, before, amount in steps),
    )


def whole_reais(amount: Decimal | int) -> str:
    """An amount as `R$ 1.235`, without cents."""
    return f"R$ {shown(round(amount))}"


def _with_share(now: int, before: int) -> str:
    share = share_of(now, before)
    return shown(now) if share is None else f"{shown(now)} ({percent(share)})"


def reason_table(reasons: list[ReasonFigures], of: int, *, has_amount: bool) -> Table:
    """Reasons, the most frequent first, with their share of `of` answers if given. Proposals have an amount."""
    head = (
        "Motivo",
        "Código",
        "Propostas" if has_amount else "Respostas de bancos",
        *(("Das respostas",) if of else ()),
        *(("Valor",) if has_amount else ()),
    )
    rows = [
        (
            _MEANINGS.get(each.code, "—"),  # a later release may have others
            each.code,
            shown(each.count),
            *((part_of(each.count, of),) if of else ()),
            *((whole_reais(each.amount),) if has_amount else ()),
        )
        for each in reasons
    ]
    return Table(head, rows)


def opening_table(name: str, now: datetime) -> Table:
    """The breaker's history of 30 days, up to now. Three statements."""
    fetch()
    opened = openings(name, now - timedelta(days=30), now)
    partners = Partner.objects.in_bulk({each.partner_id for each in opened if each.partner_id})
    rows = [
        (
            timezone.localtime(each.since).strftime("%d/%m %H:%M:%S"),
            timezone.localtime(each.until).strftime("%d/%m %H:%M:%S") if each.until else "ainda aberto",
            f"{((each.until or now) - each.since).total_seconds():.0f} s",
            _partner_cell(each.partner_id, partners),
        )
        for each in opened
    ]
    return Table(("Abriu", "Fechou", "Duração", "Para quem"), rows, "Nenhuma guardada. Uma nova aparece em minutos.")


def _partner_cell(partner_id: Any, partners: dict[Any, Partner]) -> Any:
    if partner_id is None:
        return "todos os parceiros"
    partner = partners.get(partner_id)
    return link(page_of(partner), partner.name) if partner else str(partner_id)


def state_of(health: Health | None) -> str:
    """A bank's state in words, in red if somebody has to act."""
    if health is None:
        return "sem cadastro"
    words = health.words()
    return format_html('<span class="is-bad">{}</span>', words) if health.kind.is_problem else words


def bank_link(name: str, period: Period) -> SafeString:
    """A link to the bank's page of figures, with the same period."""
    return link(f"{reverse('figures:bank', args=[name])}?period={period.name}", registry.label(name))


def percent(share: Decimal | None) -> str:
    """A share as `12,5%`. Only a whole is `100,0%`."""
    if share is None:
        return "—"
    return f"{share if share >= 100 else min(share, Decimal('99.9')):.1f}%".replace(".", ",")


def part_of(part: int, whole: int) -> str:
    """A part as `12,5%` of the whole, or as `9 de 17` if the whole is too small for a percentage. A dash of nothing."""
    share = share_of(part, whole)
    return f"{part} de {whole}" if whole and share is None else percent(share)


def seconds(ms: float | None) -> str:
    """Milliseconds as `1,2 s`. Within the first class nothing is known but its bound. Infinity is the last class."""
    if ms is None:
        return "—"
    ms, most = max(ms, LATENCY_BOUNDS_MS[0]), "≤\xa0" if ms <= LATENCY_BOUNDS_MS[0] else ""
    return ">\xa025\xa0s" if math.isinf(ms) else f"{most}{ms / 1000:.1f}\xa0s".replace(".", ",")
