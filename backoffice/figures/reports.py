"""Reads the figures for the back office's pages: a period's sums by hour, by bank, by partner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import F, QuerySet, Sum
from django.utils import timezone

from backoffice.figures.counting import LATENCY_BOUNDS_MS, LONGER_MS, hour_of
from backoffice.figures.models import BankHour, LatencyHour, QueryHour, ReasonHour, Stage
from providers.reasons import OperatorCode, ReasonCode

HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(days=7)
#: The summed columns of `QueryHour` and of `BankHour`.
QUERY_COLUMNS, BANK_COLUMNS = (
    tuple(each.name for each in model._meta.concrete_fields if each.name not in ("id", "hour", "partner", "bank"))
    for model in (QueryHour, BankHour)
)
#: The columns of a bank's answers, by how they ended for the partner.
_ANSWERS = ("ok", "no_offers", "requires_action", "pending", "refused", "closed", "failed")
#: The reasons of answers that are missing because somebody planned it.
_PLANNED = (
    ReasonCode.BANK_CLOSED,
    ReasonCode.DISABLED,
    OperatorCode.WINDOW,
    OperatorCode.PAUSED,
    OperatorCode.KEPT_OUT,
)
#: The funnel's steps, each with the column of its amount. `asked` are queries; for a single bank, its answers.
FUNNEL = {
    "asked": "",
    "with_offers": "offered",
    "submitted": "submitted_amount",
    "signed": "signed_amount",
    "disbursed": "disbursed_amount",
    "withdrawn": "withdrawn_amount",
}


@dataclass(frozen=True)
class Period:
    """The last `hours` hours, including the current one, or the last `days` days of the service's time zone, including
    today. Plots divide it into slots: its hours, or its days. `name` is used in URLs, `label` on pages."""

    name: str
    label: str
    hours: int = 0
    days: int = 0

    def since(self, now: datetime) -> datetime:
        """Its beginning: a full hour, or a midnight."""
        return self.slots(now)[0]

    def slots(self, now: datetime) -> list[datetime]:
        last = self.slot_of(now)
        return [last - age * (DAY if self.days else HOUR) for age in reversed(range(self.days or self.hours))]

    def slot_of(self, moment: datetime) -> datetime:
        """The beginning of the slot that contains `moment`."""
        return midnight_of(moment) if self.days else hour_of(moment)


PERIODS = {
    each.name: each
    for each in (
        Period("2h", "esta hora e a anterior", hours=2),
        Period("24h", "24 horas", hours=24),
        Period("7d", "7 dias", days=7),
        Period("30d", "30 dias", days=30),
    )
}


def midnight_of(moment: datetime) -> datetime:
    """The beginning of the day that contains `moment`, in the service's time zone."""
    return timezone.localtime(moment).replace(hour=0, minute=0, second=0, microsecond=0)


class Sums(Counter[Any]):
    """The sums of columns over any hours, banks and partners; 0 for a column in which nothing was counted.

    Answer times are counted under the upper bound of their class, in milliseconds. `closed` are the answers for a bank
    known to be closed, by an operator's window, pause, switch or order, or by the bank's own word; `failed` are the
    other missing answers.
    """

    @staticmethod
    def of(rows: Iterable[Sums]) -> Sums:
        """The sum of each column of the `rows`."""
        whole = Sums()
        for row in rows:
            whole.update(row)
        return whole

    @property
    def answers(self) -> int:
        """The number of answers that partners got."""
        return sum(self[name] for name in _ANSWERS)

    def percentile(self, share: float) -> float | None:
        """The milliseconds within which the part `share` (0 to 1) of the answers came. Answers are assumed to be evenly
        spread within a class. Infinity in the last class; None without answers."""
        total = sum(self[bound] for bound in (*LATENCY_BOUNDS_MS, LONGER_MS))
        if not total:
            return None
        target, passed, lower = share * total, 0, 0
        for bound in LATENCY_BOUNDS_MS:
            inside = self[bound]
            if inside and passed + inside >= target:
                return lower + (bound - lower) * (target - passed) / inside
            passed, lower = passed + inside, bound
        return float("inf") if self[LONGER_MS] else float(lower)


@dataclass(frozen=True)
class Hours:
    """Sums by hour. An hour without a row counts as zero."""

    rows: dict[datetime, Sums]

    def series(self, hours: Iterable[datetime], column: str) -> list[int]:
        return [self.rows.get(hour, Sums())[column] for hour in hours]

    def percentiles(self, hours: Iterable[datetime], share: float) -> list[float | None]:
        """By hour, in seconds. None for an hour without answers. The last class counts as its lower bound."""
        times_ms = [self.rows.get(hour, Sums()).percentile(share) for hour in hours]
        return [None if ms is None else min(ms, LATENCY_BOUNDS_MS[-1]) / 1000 for ms in times_ms]

    def by_slot(self, period: Period) -> Hours:
        slots: dict[datetime, list[Sums]] = {}
        for hour, row in self.rows.items():
            slots.setdefault(period.slot_of(hour), []).append(row)
        return Hours({slot: Sums.of(rows) for slot, rows in slots.items()})

    def total(self, column: str, since: datetime, until: datetime) -> Decimal:
        """The sum over the hours that begin in [since, until)."""
        return Decimal(sum(row[column] for hour, row in self.rows.items() if since <= hour < until))


def _sums(rows: QuerySet[Any], by: str | tuple[str, ...], columns: tuple[str, ...]) -> dict[Any, Sums]:
    """The sums of `columns` for each value of `by`, or for each tuple of them. One statement."""
    names = (by,) if isinstance(by, str) else by
    sums = rows.order_by().values_list(*names).annotate(**{f"sum_{name}": Sum(name) for name in columns})
    return {
        row[0] if isinstance(by, str) else row[: len(names)]: Sums(dict(zip(columns, row[len(names) :], strict=True)))
        for row in sums
    }


def _chosen(since: datetime, bank: str, partner: Any) -> dict[str, Any]:
    """The conditions for rows since that time, of one bank and one partner if given."""
    return {"hour__gte": since, **({"bank": bank} if bank else {}), **({"partner": partner} if partner else {})}


def _of_queries(by: str | tuple[str, ...], chosen: dict[str, Any]) -> dict[Any, Sums]:
    """The sums of queries by the column `by`. One statement. Offers that came later, after a step of the holder, count
    like those that came at once: every page says "com ofertas" of the same rows."""
    found = _sums(QueryHour.objects.filter(**chosen), by, QUERY_COLUMNS)
    for row in found.values():
        row.update({name: row.pop(f"later_{name}") for name in ("with_offers", "offered")})
    return found


def hours_of_all(since: datetime) -> Hours:
    """The sums of queries and proposals over all partners and banks since that time. Two statements."""
    hours = _of_queries("hour", {"hour__gte": since})
    sold = ("submitted", "submitted_amount", "signed", "disbursed", "disbursed_amount", "step_offers")
    for hour, row in _sums(BankHour.objects.filter(hour__gte=since), "hour", sold).items():
        hours.setdefault(hour, Sums()).update({**row, "offers": row["step_offers"]})
    return Hours(hours)


def _of_banks(by: str, chosen: dict[str, Any]) -> dict[Any, Sums]:
    """The sums of banks by the column `by`. Two statements. `failed` is stored with the answers of closed banks."""
    closed = ReasonHour.objects.filter(**chosen, stage=Stage.OFFER, code__in=_PLANNED)
    closed_sums = _sums(closed, by, ("count",))
    found = _sums(BankHour.objects.filter(**chosen), by, BANK_COLUMNS)
    for key, sums in found.items():
        number = min(closed_sums.get(key, Sums())["count"], sums["failed"])
        sums.update({"closed": number, "failed": -number})
    return found


def answers_of(partner: Any, since: datetime) -> Sums:
    """The sums of all banks for one partner since that time. Two statements."""
    return Sums.of(_of_banks("bank", _chosen(since, "", partner)).values())


def _with_times(by: str, chosen: dict[str, Any]) -> dict[Any, Sums]:
    """Like `_of_banks`, with answer times. Three statements."""
    found = _of_banks(by, chosen)
    times = _sums(LatencyHour.objects.filter(**chosen), (by, "up_to_ms"), ("count",))
    for (key, bound), row in times.items():
        found.setdefault(key, Sums())[bound] = row["count"]
    return found


def banks(since: datetime) -> dict[str, Sums]:
    """The sums of every bank since that time, with its answer times, by name. Three statements."""
    return _with_times("bank", _chosen(since, "", None))


def bank_by_hour(bank: str, since: datetime) -> Hours:
    """The sums of one bank since that time, with its answer times. Three statements."""
    return Hours(_with_times("hour", _chosen(since, bank, None)))


@dataclass(frozen=True)
class ReasonFigures:
    """How often something ended for a reason."""

    stage: str
    code: str
    count: int
    amount: Decimal


def reasons(since: datetime, *, bank: str = "", partner: Any = None) -> dict[str, list[ReasonFigures]]:
    """The reasons of each stage, the most frequent first, of one bank and one partner if given. One statement."""
    sums = _sums(ReasonHour.objects.filter(**_chosen(since, bank, partner)), ("stage", "code"), ("count", "amount"))
    by_stage: dict[str, list[ReasonFigures]] = {stage: [] for stage in Stage.values}
    for (stage, code), row in sorted(sums.items(), key=lambda each: -each[1]["count"]):
        by_stage[stage].append(ReasonFigures(stage, code, row["count"], Decimal(row["amount"])))
    return by_stage


def funnel_steps(funnel: Sums) -> Iterator[tuple[int, int, int]]:
    """How many cases reached each step of `FUNNEL`, how many reached the step before it, and its amount."""
    before = 0
    for column, amount in FUNNEL.items():
        yield funnel[column], before, funnel[amount]
        before = funnel[column]


def funnel_of(banks: Sums, queries: Sums | None = None) -> Sums:
    """The sums of banks as a funnel, which begins with their answers; with the sums of queries it begins with these."""
    if queries is not None:
        first = {"asked": queries["queries"], "with_offers": queries["with_offers"], "offered": queries["offered"]}
        return Sums({**banks, **first})
    with_offers, offered = banks["ok"] + banks["steps_with_offers"], banks["offered"] + banks["step_offered"]
    return Sums({**banks, "asked": banks.answers, "with_offers": with_offers, "offered": offered})


@dataclass(frozen=True)
class Funnels:
    """The whole funnel, and the same by bank, and by the id and the name of each partner."""

    whole: Sums
    by_bank: dict[str, Sums]
    by_partner: dict[tuple[Any, str], Sums]


def funnels(since: datetime, *, bank: str = "", partner: Any = None) -> Funnels:
    """The funnels of one bank and one partner if given. Two statements."""
    rows = BankHour.objects.filter(**_chosen(since, bank, partner)).annotate(partner_name=F("partner__name"))
    cells = _sums(rows, ("bank", "partner_id", "partner_name"), BANK_COLUMNS)
    of_partners = {} if bank else _of_queries(("partner_id", "partner__name"), _chosen(since, "", partner))
    by_bank: dict[str, Sums] = {}
    by_partner: dict[tuple[Any, str], Sums] = {}
    for (name, *of_partner), row in cells.items():
        by_bank.setdefault(name, Sums()).update(row)
        by_partner.setdefault(tuple(of_partner), Sums()).update(row)
    return Funnels(
        funnel_of(Sums.of(cells.values()), None if bank else Sums.of(of_partners.values())),
        {name: funnel_of(by_bank[name]) for name in sorted(by_bank)},
        {
            each: funnel_of(by_partner.get(each, Sums()), None if bank else of_partners.get(each, Sums()))
            for each in sorted(by_partner.keys() | of_partners.keys(), key=lambda each: each[1].casefold())
        },
    )
