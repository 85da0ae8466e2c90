"""The data of the figures' pages: percentiles, the same weekday a week ago, funnels and breakers' histories."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from backoffice.figures import breaker_history, reports
from backoffice.figures.breaker_history import Opening
from backoffice.figures.counting import LONGER_MS
from backoffice.figures.models import BankHour, BreakerMove, QueryHour, ReasonHour
from backoffice.figures.tables import opening_table, part_of
from foundation.redis import redis
from partners.models import Partner
from providers.breaker import ALL, HISTORY, Breaker
from providers.reasons import ReasonCode
from tests.factories import PartnerFactory

pytestmark = pytest.mark.django_db

#: 14:30 on a Sunday in São Paulo.
NOW = datetime(2026, 11, 22, 17, 30, tzinfo=UTC)
TODAY = datetime(2026, 11, 22, tzinfo=ZoneInfo("America/Sao_Paulo"))
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("classes", "share", "found"),
    [
        ({}, 0.5, None),
        ({1000: 10}, 0.5, 875.0),  # between 750 and 1000 ms
        ({100: 50, 1000: 50}, 0.5, 100.0),
        ({100: 95, 20_000: 5}, 0.95, 100.0),
        ({100: 94, 20_000: 6}, 0.95, 15_000 + 5_000 / 6),
        ({100: 1, LONGER_MS: 9}, 0.5, float("inf")),
    ],
)
def test_percentiles(classes: dict[int, int], share: float, found: float | None) -> None:
    assert reports.Sums(classes).percentile(share) == (None if found is None else pytest.approx(found))


def some_queries(partner: Partner, **by_hour: int) -> None:
    """Queries of today or of a week ago, in the hours `h0`, `h14`, `w0` (of a week ago), …"""
    for name, number in by_hour.items():
        day = TODAY - timedelta(days=7 * (name[0] == "w"))
        QueryHour.objects.create(hour=day + int(name[1:]) * HOUR, partner=partner, queries=number)


def queries_compared(until: datetime | None = NOW) -> reports.Compared:
    found = {each.title: each for each in reports.today_compared(reports.hours_of_all(NOW - 8 * DAY), NOW, until)}
    return found["Consultas"]


def test_today_beside_the_same_weekday_a_week_ago() -> None:
    """At 14:30 the fourteen whole hours are compared, and no part of an hour."""
    partner = PartnerFactory()
    some_queries(partner, h0=20, h13=10, h14=5, w0=15, w13=5, w14=1000)
    for day in (TODAY, TODAY - 7 * DAY):
        QueryHour.objects.create(hour=day - HOUR, partner=partner, queries=1000)
    BankHour.objects.create(hour=TODAY, partner=partner, bank="ipe", submitted=3, submitted_amount=Decimal("900.50"))
    queries = queries_compared()
    assert (queries.today, queries.whole_hours, queries.before, queries.change) == (35, 30, 20, 50)
    assert queries.until == TODAY + 14 * HOUR
    hours = reports.hours_of_all(NOW - 8 * DAY)
    sent = {each.title: each for each in reports.today_compared(hours, NOW, NOW)}["Propostas enviadas"]
    assert (sent.today, sent.before, sent.change, sent.amount) == (3, 0, None, Decimal("900.50"))


def test_a_small_number_is_no_base_of_a_percentage() -> None:
    """Before the fix, 577 queries beside the twelfth part of 29 were told as +23940 %."""
    some_queries(PartnerFactory(), h0=577, w0=19)
    assert (queries_compared().before, queries_compared().change) == (19, None)


def test_an_hour_that_is_not_counted_whole_is_not_compared() -> None:
    some_queries(PartnerFactory(), h0=40, h13=5, w0=20, w13=50)
    late = queries_compared(TODAY + 13 * HOUR + timedelta(minutes=50))
    assert (late.today, late.whole_hours, late.before, late.change) == (45, 40, 20, 100)
    yesterday = queries_compared(TODAY - HOUR)
    assert (yesterday.whole_hours, yesterday.before, yesterday.until) == (0, 0, TODAY)


@pytest.mark.parametrize(("part", "whole", "told"), [(3, 19, "3 de 19"), (5, 20, "25,0%"), (0, 0, "—")])
def test_a_share_of_few_answers_is_told_as_counts(part: int, whole: int, told: str) -> None:
    """Before the fix, one failure of two answers was 50 %, and then a dash."""
    assert part_of(part, whole) == told


def test_the_slots_of_a_period() -> None:
    hours = reports.PERIODS["24h"].slots(NOW)
    assert (len(hours), hours[0], hours[-1]) == (24, NOW.replace(minute=0) - 23 * HOUR, NOW.replace(minute=0))
    days = reports.PERIODS["30d"].slots(NOW)
    assert (len(days), days[0], days[-1]) == (30, TODAY - 29 * DAY, TODAY)
    assert reports.PERIODS["30d"].since(NOW) == days[0]
    assert reports.PERIODS["7d"].slot_of(NOW - 15 * HOUR) == TODAY - DAY


def test_funnels() -> None:
    one, other = PartnerFactory(name="Um"), PartnerFactory(name="Outro")
    for partner, queries, with_offers, later in ((one, 100, 40, 6), (other, 10, 10, 0)):
        QueryHour.objects.create(
            hour=NOW,
            partner=partner,
            queries=queries,
            with_offers=with_offers,
            offered=Decimal(with_offers * 1000),
            later_with_offers=later,
            later_offered=Decimal(later * 500),
        )
    values = {"submitted": 5, "signed": 3, "disbursed": 2, "disbursed_amount": Decimal(2000), "withdrawn": 1}
    BankHour.objects.create(hour=NOW, partner=one, bank="ipe", ok=30, no_offers=50, failed=20, **values)
    BankHour.objects.create(hour=NOW, partner=one, bank="cedro", pending=100, steps_with_offers=7, submitted=1)
    BankHour.objects.create(hour=NOW, partner=other, bank="ipe", ok=10, offered=Decimal(500))
    BankHour.objects.create(hour=NOW - 25 * HOUR, partner=other, bank="ipe", ok=10_000)

    def shown(funnel: reports.Sums) -> tuple[int, ...]:
        return tuple(number for number, _, _ in reports.funnel_steps(funnel))[:-1]

    all_of_it = reports.funnels(NOW - 24 * HOUR)
    assert shown(all_of_it.whole) == (110, 56, 6, 3, 2), "with the offers that came after a step"
    assert all_of_it.whole["offered"] == 53_000
    assert [each["withdrawn"] for each in (all_of_it.whole, *all_of_it.by_bank.values())] == [1, 0, 1]
    assert {name: shown(funnel) for name, funnel in all_of_it.by_bank.items()} == {
        "cedro": (100, 7, 1, 0, 0),
        "ipe": (110, 40, 5, 3, 2),
    }
    assert {name: shown(funnel) for (_, name), funnel in all_of_it.by_partner.items()} == {
        "Outro": (10, 10, 0, 0, 0),
        "Um": (100, 46, 6, 3, 2),
    }
    assert shown(reports.funnels(NOW - 24 * HOUR, bank="ipe").whole) == (110, 40, 5, 3, 2), "answers of that bank"
    assert shown(reports.funnels(NOW - 24 * HOUR, partner=other.pk).whole) == (10, 10, 0, 0, 0)
    assert shown(reports.funnels(NOW - 24 * HOUR, bank="ipe", partner=other.pk).whole) == (10, 10, 0, 0, 0)


def test_all_reasons_the_commonest_first() -> None:
    """Before the fix, those after the eighth were left out, and nothing said so."""
    partner = PartnerFactory()
    codes = [code.value for code in ReasonCode]
    for number, code in enumerate(codes, 1):
        for bank in ("ipe", "cedro"):
            ReasonHour.objects.create(hour=NOW, partner=partner, bank=bank, stage="offer", code=code, count=number)
    ReasonHour.objects.create(hour=NOW, partner=partner, bank="ipe", stage="payment", code="other", count=9, amount=90)
    found = reports.reasons(NOW - HOUR)
    expected = [(code, 2 * number) for number, code in enumerate(codes, 1)]
    assert [(each.code, each.count) for each in found["offer"]] == expected[::-1]
    assert [(each.code, each.amount) for each in found["payment"]] == [("other", Decimal(90))]
    assert reports.reasons(NOW - HOUR, bank="cedro")["payment"] == found["signature"] == []


@pytest.fixture
def history() -> None:
    redis().delete(HISTORY)


def test_what_breakers_did_is_kept_once(history: None) -> None:
    partner = PartnerFactory()
    for scope in (ALL, str(partner.pk), "-"):
        breaker = Breaker("ipe")
        breaker._open(scope)
        breaker._close(scope)
    told = redis().lrange(HISTORY, 0, -1)
    assert breaker_history.fetch() == 6
    assert redis().llen(HISTORY) == 0
    redis().rpush(HISTORY, *told)
    breaker_history.fetch()
    kept = BreakerMove.objects.order_by("at").values_list("bank", "partner_id", "is_open")
    assert list(kept) == [
        ("ipe", None, True),
        ("ipe", None, False),
        ("ipe", partner.pk, True),
        ("ipe", partner.pk, False),
    ], "the call without a partner is nobody's"


def test_a_breaker_that_closed_a_moment_ago_is_not_told_as_open(history: None) -> None:
    """Before the fix, the page said `ainda aberto` until the next sweep, a minute later."""
    breaker = Breaker("ipe")
    breaker._open(ALL)
    breaker_history.fetch()
    assert [row[1] for row in opening_table("ipe", timezone.now()).rows] == ["ainda aberto"]
    breaker._close(ALL)
    assert "ainda aberto" not in [row[1] for row in opening_table("ipe", timezone.now()).rows]


def test_the_times_for_which_a_breaker_was_open(history: None) -> None:
    at, partner = timezone.now().replace(microsecond=0), PartnerFactory().pk

    def ago(seconds: int) -> datetime:
        return at - timedelta(seconds=seconds)

    for seconds, scope, is_open in (
        (9000, None, True),  # no further call was made
        (5000, None, True),
        (4990, partner, True),
        (4985, None, True),  # a probe failed
        (4960, None, False),
        (4950, partner, False),
        (20, None, True),
    ):
        BreakerMove.objects.create(bank="ipe", partner_id=scope, is_open=is_open, at=ago(seconds))
    assert breaker_history.openings("ipe", ago(10_000), at) == [
        Opening(ago(20), None, None),
        Opening(ago(4990), ago(4950), partner),
        Opening(ago(5000), ago(4960), None),
        Opening(ago(9000), ago(5400), None),
    ]
    assert breaker_history.openings("cedro", ago(10_000), at) == []
