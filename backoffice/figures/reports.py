"""Reads the figures for the back office's pages: a period's sums by hour, by bank, by partner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import F, QuerySet, Sum
from django.utils import timezone

from backoffice.figures.counting import LATENCY_BOUNDS_MS, LONGER_MS, hour_of
from backoffice.figures.models import BankHour, LatencyHour, QueryHour, ReasonHour, Stage
from foundation.formats import share_of
from providers.reasons import ReasonCode

HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(days=7)
Row = dict[str, Any]
#: The summed columns of `QueryHour` and of `BankHour`.
QUERY_COLUMNS = (
    "queries",
    "unfinished",
    "with_offers",
    "offers",
    "offered",
    "later_with_offers",
    "later_offered",
)
#: The columns of the funnel's steps after the submission.
SOLD = tuple(f"{each}{part}" for each in ("submitted", "signed", "disbursed", "withdrawn") for part in ("", "_amount"))
BANK_COLUMNS = tuple(
    each.name for each in BankHour._meta.concrete_fields if each.name not in ("id", "hour", "partner", "bank")
)


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
        """The beginnings of its slots, oldest first."""
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


def _added(rows: Iterable[dict[Any, Any]]) -> dict[Any, Any]:
    """The sum of each column."""
    whole: dict[Any, Any] = {}
    for row in rows:
        for name, value in row.items():
            whole[name] = whole.get(name, 0) + value
    return whole


def _by_slot(rows: Mapping[datetime, dict[Any, Any]], period: Period) -> dict[datetime, dict[Any, Any]]:
    """The sums of the rows of each slot."""
    slots: dict[datetime, list[dict[Any, Any]]] = {}
    for hour, row in rows.items():
        slots.setdefault(period.slot_of(hour), []).append(row)
    return {slot: _added(of_slot) for slot, of_slot in slots.items()}


def _sums(rows: QuerySet[Any], by: str | tuple[str, ...], columns: Iterable[str]) -> list[Row]:
    names = (by,) if isinstance(by, str) else by
    return list(rows.order_by().values(*names).annotate(**{f"sum_{name}": Sum(name) for name in columns}))


def _plain(row: Row) -> Row:
    return {name.removeprefix("sum_"): value or 0 for name, value in row.items() if name.startswith("sum_")}


def _of_queries(row: Row) -> Row:
    """The sums of a partner's or an hour's queries. Offers that came later, after a step of the holder, count like
    those that came at once: every page says "com ofertas" of the same rows."""
    plain = _plain(row)
    for name in ("with_offers", "offered"):
        plain[name] += plain.pop(f"later_{name}")
    return plain


@dataclass(frozen=True)
class Hours:
    """Sums by hour. An hour without a row counts as zero."""

    rows: dict[datetime, Row]

    def series(self, hours: Iterable[datetime], column: str) -> list[int | Decimal]:
        return [self.rows.get(hour, {}).get(column, 0) for hour in hours]

    def by_slot(self, period: Period) -> Hours:
        """The sums by slot of the period."""
        return Hours(_by_slot(self.rows, period))

    def total(self, column: str, since: datetime, until: datetime) -> Decimal:
        """The sum over the hours that begin in [since, until)."""
        return Decimal(sum(row.get(column, 0) for hour, row in self.rows.items() if since <= hour < until))


def hours_of_all(since: datetime) -> Hours:
    """The sums of queries and proposals over all partners and banks since that time. Two statements."""
    hours: dict[datetime, Row] = {}
    for row in _sums(QueryHour.objects.filter(hour__gte=since), "hour", QUERY_COLUMNS):
        hours[row["hour"]] = _of_queries(row)
    sold = ("submitted", "submitted_amount", "signed", "disbursed", "disbursed_amount", "step_offers")
    for row in _sums(BankHour.objects.filter(hour__gte=since), "hour", sold):
        of_hour, of_banks = hours.setdefault(row["hour"], {}), _plain(row)
        of_hour["offers"] = of_hour.get("offers", 0) + of_banks.pop("step_offers")
        of_hour.update(of_banks)
    return Hours(hours)


@dataclass(frozen=True)
class Compared:
    """A figure of today until now, with an amount; and of the whole hours of today, which end at `until`, beside the
    same hours of the same weekday a week ago."""

    title: str
    today: Decimal
    whole_hours: Decimal
    before: Decimal
    until: datetime
    amount: Decimal | None = None

    @property
    def change(self) -> Decimal | None:
        """The change of the whole hours in percent. None if the earlier figure is too small."""
        return share_of(self.whole_hours - self.before, self.before)


def today_compared(hours: Hours, now: datetime, counted_until: datetime | None) -> list[Compared]:
    """Queries, offers, proposals and payments of today, in the service's time zone. Only hours that are counted whole
    are compared."""
    midnight = midnight_of(now)
    whole = max(midnight, hour_of(min(now, counted_until or now)))

    def compared(title: str, column: str, amount: str | None = None) -> Compared:
        return Compared(
            title,
            hours.total(column, midnight, now),
            hours.total(column, midnight, whole),
            hours.total(column, midnight - WEEK, whole - WEEK),
            whole,
            hours.total(amount, midnight, now) if amount else None,
        )

    return [
        compared("Consultas", "queries"),
        compared("Consultas com ofertas", "with_offers", "offered"),
        compared("Ofertas", "offers"),
        compared("Propostas enviadas", "submitted", "submitted_amount"),
        compared("Propostas pagas", "disbursed", "disbursed_amount"),
    ]


@dataclass
class BankFigures:
    """A bank's figures over a period: sums, and the distribution of its answer times. `closed` are the answers for a
    bank known to be closed, by an operator's window or by the bank's own word; `failed` are the other missing
    answers."""

    bank: str
    sums: Row
    latencies: dict[int, int] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        if name in BANK_COLUMNS or name == "closed":
            return self.sums.get(name, 0)
        raise AttributeError(name)

    @property
    def answers(self) -> int:
        """The number of answers that partners got for this bank."""
        statuses = ("ok", "no_offers", "requires_action", "pending", "refused", "closed", "failed")
        return sum(self.sums.get(name, 0) for name in statuses)

    def share(self, name: str) -> Decimal | None:
        """A column as a percentage of the answers. None if they are too few."""
        return share_of(self.sums.get(name, 0), self.answers)

    @property
    def offers_per_answer(self) -> Decimal | None:
        return Decimal(self.sums.get("offers", 0)) / self.answers if self.answers else None

    def percentile(self, share: float) -> float | None:
        """The milliseconds within which the part `share` of the answers came; infinity in the last class. None without
        answers."""
        return percentile(self.latencies, share)


def percentile(classes: dict[int, int], share: float) -> float | None:
    """The milliseconds within which the part `share` (0 to 1) of the answers came. `classes` are counts by upper bound,
    assumed to be evenly spread within a class. Infinity beyond the last bound; None without answers."""
    total = sum(classes.values())
    if not total:
        return None
    target, passed, lower = share * total, 0, 0
    for bound in LATENCY_BOUNDS_MS:
        inside = classes.get(bound, 0)
        if inside and passed + inside >= target:
            return lower + (bound - lower) * (target - passed) / inside
        passed, lower = passed + inside, bound
    return float("inf") if classes.get(LONGER_MS) else float(lower)


def _closed(rows: QuerySet[ReasonHour], by: str) -> dict[Any, int]:
    """How many answers of `rows` were missing because the bank was known to be closed, by the column `by`."""
    closed = rows.filter(stage=Stage.OFFER, code=ReasonCode.BANK_CLOSED)
    return {row[by]: row["sum_count"] for row in _sums(closed, by, ("count",))}


def _with_closed(sums: Row, closed: int) -> Row:
    """The sums with `closed` apart from `failed`, which is stored with both."""
    closed = min(closed, sums["failed"])
    return {**sums, "closed": closed, "failed": sums["failed"] - closed}


def banks_without_times(since: datetime, partner: Any = None) -> dict[str, BankFigures]:
    """The sums of every bank since that time, of one partner if given, without answer times, by name. Two
    statements."""
    closed = _closed(_filtered(ReasonHour.objects.filter(hour__gte=since), "", partner), "bank")
    return {
        row["bank"]: BankFigures(row["bank"], _with_closed(_plain(row), closed.get(row["bank"], 0)))
        for row in _sums(_filtered(BankHour.objects.filter(hour__gte=since), "", partner), "bank", BANK_COLUMNS)
    }


def answers_of(partner: Any, since: datetime) -> BankFigures:
    """The sums of all banks for one partner since that time. Two statements."""
    return BankFigures("", _added(each.sums for each in banks_without_times(since, partner).values()))


def banks(since: datetime) -> list[BankFigures]:
    """The figures of every bank since that time, sorted by name. Three statements."""
    figures = banks_without_times(since)
    for row in _sums(LatencyHour.objects.filter(hour__gte=since), ("bank", "up_to_ms"), ("count",)):
        figures.setdefault(row["bank"], BankFigures(row["bank"], {})).latencies[row["up_to_ms"]] = row["sum_count"]
    return sorted(figures.values(), key=lambda each: each.bank)


@dataclass(frozen=True)
class BankByHour:
    """One bank, hour by hour."""

    hours: Hours
    latencies: dict[datetime, dict[int, int]]

    def percentiles(self, hours: Iterable[datetime], share: float) -> list[float | None]:
        """By hour, in seconds. None for an hour without answers. The last class counts as its lower bound."""
        times_ms = [percentile(self.latencies.get(hour, {}), share) for hour in hours]
        return [None if ms is None else min(ms, LATENCY_BOUNDS_MS[-1]) / 1000 for ms in times_ms]

    def whole(self, bank: str) -> BankFigures:
        """The sum of all hours."""
        return BankFigures(bank, _added(self.hours.rows.values()), _added(self.latencies.values()))

    def by_slot(self, period: Period) -> BankByHour:
        """The sums by slot of the period."""
        return BankByHour(self.hours.by_slot(period), _by_slot(self.latencies, period))


def bank_by_hour(bank: str, since: datetime) -> BankByHour:
    """Three statements."""
    closed = _closed(ReasonHour.objects.filter(bank=bank, hour__gte=since), "hour")
    rows = _sums(BankHour.objects.filter(bank=bank, hour__gte=since), "hour", BANK_COLUMNS)
    latencies: dict[datetime, dict[int, int]] = {}
    classes = LatencyHour.objects.filter(bank=bank, hour__gte=since).values_list("hour", "up_to_ms", "count")
    for hour, bound, count in classes:
        latencies.setdefault(hour, {})[bound] = count
    return BankByHour(
        Hours({row["hour"]: _with_closed(_plain(row), closed.get(row["hour"], 0)) for row in rows}), latencies
    )


@dataclass(frozen=True)
class ReasonFigures:
    """How often something ended for a reason."""

    stage: str
    code: str
    count: int
    amount: Decimal


def reasons(since: datetime, *, bank: str = "", partner: Any = None, most: int = 8) -> dict[str, list[ReasonFigures]]:
    """The most frequent reasons of each stage, of one bank and one partner if given. One statement."""
    rows = _filtered(ReasonHour.objects.filter(hour__gte=since), bank, partner)
    by_stage: dict[str, list[ReasonFigures]] = {stage: [] for stage in Stage.values}
    for row in sorted(_sums(rows, ("stage", "code"), ("count", "amount")), key=lambda each: -each["sum_count"]):
        if len(by_stage[row["stage"]]) < most:
            by_stage[row["stage"]].append(ReasonFigures(row["stage"], row["code"], row["sum_count"], row["sum_amount"]))
    return by_stage


def _filtered(rows: QuerySet[Any], bank: str, partner: Any) -> QuerySet[Any]:
    chosen: Row = {**({"bank": bank} if bank else {}), **({"partner": partner} if partner else {})}
    return rows.filter(**chosen)


@dataclass(frozen=True)
class Funnel:
    """How many cases reached each step. `asked` are queries; for a single bank, its answers."""

    name: str
    key: str
    asked: int
    with_offers: int
    submitted: int
    signed: int
    disbursed: int
    withdrawn: int
    offered: Decimal
    submitted_amount: Decimal
    signed_amount: Decimal
    disbursed_amount: Decimal
    withdrawn_amount: Decimal


def _funnel(name: str, key: str, row: Row, queries: Row | None = None) -> Funnel:
    """The funnel from a bank's sums. With the sums of the queries, the funnel of all banks."""
    if queries is None:
        answers = BankFigures(key, row)
        queries = {
            "queries": answers.answers,
            "with_offers": answers.ok + row.get("steps_with_offers", 0),
            "offered": row.get("offered", Decimal(0)) + row.get("step_offered", Decimal(0)),
        }
    return Funnel(
        name,
        key,
        asked=queries.get("queries", 0),
        with_offers=queries.get("with_offers", 0),
        offered=queries.get("offered", Decimal(0)),
        **{column: row.get(column, 0) for column in SOLD},
    )


def funnel_of_bank(bank: str, sums: Row) -> Funnel:
    """The funnel of one bank with these sums."""
    return _funnel(bank, bank, sums)


@dataclass(frozen=True)
class Funnels:
    """The whole funnel, and the same by bank and by partner."""

    whole: Funnel
    by_bank: list[Funnel]
    by_partner: list[Funnel]


def funnels(since: datetime, *, bank: str = "", partner: Any = None) -> Funnels:
    """The funnels of one bank and one partner if given. Two statements."""
    rows = _filtered(BankHour.objects.filter(hour__gte=since), bank, partner)
    columns = ("ok", "no_offers", "requires_action", "pending", "refused", "failed", "offered", "steps_with_offers")
    cells = _sums(
        rows.annotate(partner_name=F("partner__name")),
        ("bank", "partner_id", "partner_name"),
        (*columns, "step_offered", *SOLD),
    )
    of_partners: dict[Any, Row] = {}
    if not bank:
        queries = _filtered(QueryHour.objects.filter(hour__gte=since), "", partner)
        of_partners = {row["partner_id"]: _of_queries(row) for row in _sums(queries, "partner_id", QUERY_COLUMNS)}

    names = {cell["bank"] for cell in cells}
    partners = {cell["partner_id"]: cell["partner_name"] for cell in cells}
    by_bank = [
        _funnel(name, name, _added(_plain(cell) for cell in cells if cell["bank"] == name)) for name in sorted(names)
    ]
    by_partner = [
        _funnel(
            name,
            str(key),
            _added(_plain(cell) for cell in cells if cell["partner_id"] == key),
            None if bank else of_partners.get(key, {}),
        )
        for key, name in sorted(partners.items(), key=lambda each: str(each[1]).casefold())
    ]
    whole = _funnel("", "", _added(map(_plain, cells)), None if bank else _added(of_partners.values()))
    return Funnels(whole, by_bank, by_partner)
