"""The pages of figures: who may see them, what they show, how many statements they need; and the data behind them."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from backoffice.figures import breaker_history, reports
from backoffice.figures.breaker_history import Opening
from backoffice.figures.charts import BLUE, GREEN, RED, Line, plot
from backoffice.figures.counting import LONGER_MS, hour_of
from backoffice.figures.models import BankHour, BreakerMove, Progress, QueryHour, ReasonHour
from backoffice.figures.tables import opening_table, part_of, seconds
from backoffice.first_page import cards_of_today
from foundation.redis import redis
from partners.models import Partner
from providers import registry
from providers.breaker import ALL, HISTORY, Breaker
from providers.maintenance import Maintenance
from providers.reasons import ReasonCode
from tests.backoffice.figures.rows import some_figures
from tests.factories import PartnerFactory, ProviderFactory
from tests.operators import says

pytestmark = pytest.mark.django_db

PAGES = ("/admin/figures/banks/", "/admin/figures/banks/ipe/", "/admin/figures/funnel/")


@pytest.fixture
def partner() -> Partner:
    BreakerMove.objects.all().delete()  # the tests' service may have kept one after the test before
    for name in ("ipe", "cedro"):
        ProviderFactory(name=name)
    return PartnerFactory(name="Financeira Um")


@pytest.fixture
def figures(partner: Partner) -> Partner:
    some_figures(partner)
    return partner


def text_of(response: Any) -> str:
    """The words of a page, in one line."""
    assert response.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", response.text).split())


@pytest.mark.parametrize("page", PAGES)
def test_a_page_without_figures(admin_client: Client, partner: Partner, page: str) -> None:
    for period in ("24h", "7d", "30d", "nonsense"):
        shown = admin_client.get(page, {"period": period})
        assert shown.status_code == 200
        # Before the fix, a breaker that had just opened "did not open in 30 days".
        assert ("Uma nova aparece em minutos." in text_of(shown)) == (page == PAGES[1])


@pytest.mark.parametrize("page", PAGES)
def test_figures_are_for_who_may_see_them(client: Client, partner: Partner, page: str) -> None:
    """All roles see them (`test_roles.py`)."""
    client.force_login(User.objects.create_user("curious", is_staff=True))
    assert client.get(page).status_code == 403
    first = client.get("/admin/")
    assert "Desempenho dos bancos" not in first.text
    assert "cards" not in first.context


@pytest.mark.parametrize(
    "wrong",
    [
        "banks/none/",
        "banks/%00/",
        "funnel/?bank=none",
        "funnel/?partner=1",
        f"funnel/?partner={'0' * 32}",
        "funnel/?partner=%00",
    ],
)
def test_what_does_not_exist_is_not_found(admin_client: Client, wrong: str) -> None:
    assert admin_client.get(f"/admin/figures/{wrong}").status_code == 404


def test_all_banks_side_by_side(admin_client: Client, figures: Partner) -> None:
    page = admin_client.get(PAGES[0])
    # Before the fix, a bank of which only few calls did not time out looked fast.
    assert "p50 / p95, sem falhas" in page.context["table"].head
    found = {row[0]: row[1:] for row in page.context["table"].rows}
    assert len(found) == len(registry.names())
    [told] = [cells for link, cells in found.items() if "/banks/ipe/" in link]
    assert "; ".join(told) == ("no ar; 3.600; 41,7%; 33,3%; 4,2%; 12,5%; 0,0%; 8,3%; 0,9\xa0s / 4,8\xa0s; 120; 60")


def test_a_banks_page(admin_client: Client, figures: Partner) -> None:
    page = admin_client.get(PAGES[1])
    text = text_of(page)
    assert "O titular não tem margem consignável suficiente. no_margin 33 0,9%" in text
    assert "todos os parceiros" in text
    assert "Conta as chamadas mais novas" in text, "before the fix, nothing told why both numbers differ"
    assert "o funil conta também as que vieram depois de um passo" in text
    assert "17 s" in text
    assert f"/admin/partners/partner/{figures.pk}/change/" in page.text
    assert "3.600 1.500 (41,7%) R$ 12.000.002 120 (8,0%) R$ 600.000 90 (75,0%) R$ 450.000 60 (66,7%) R$ 300.000" in text
    assert {card.title: card.note for card in page.context["cards"]}["p50 e p95"] == "por resposta, sem falhas"
    plots = {plot.title: plot for plot in page.context["plots"]}
    assert plots["Ofertas por hora"].rows[0][1:] == ["20.000"]
    assert plots["Tempo de resposta, sem falhas (s) por hora"].rows[0][1:] == ["0,88", "4,85"]


@pytest.mark.parametrize("page", PAGES)
def test_how_it_went_in_the_last_hour(admin_client: Client, figures: Partner, page: str) -> None:
    """The page shows the current hour and the one before, with their times."""
    shown = admin_client.get(page, {"period": "2h"})
    text, since = text_of(shown), timezone.localtime(shown.context["counted_since"])
    assert "esta hora e a anterior" in text
    assert f"Desde {since:%d/%m/%Y %H:00}, contado até" in text
    assert "2.400" in text, "of three hours with 1.200 each"
    assert "3.600" not in text


def test_a_known_window_is_not_a_failure(admin_client: Client, partner: Partner) -> None:
    """Answers refused by a window or a pause raise no alarm and stand apart from failures, and every page about banks
    names the window. Before the fix, a pause counted as failures."""
    now = timezone.now()
    window = Maintenance.objects.create(provider_id="ipe", ends_at=now + timedelta(hours=2), reason="troca de chaves")
    hour = hour_of(now)
    BankHour.objects.create(hour=hour, partner=partner, bank="ipe", ok=70, failed=30)
    ReasonHour.objects.create(hour=hour, partner=partner, bank="ipe", stage="offer", code="bank_closed", count=12)
    for code, count in (("window", 10), ("disabled", 4), ("paused", 2), ("kept_out", 1)):
        ReasonHour.objects.create(hour=hour, partner=partner, bank="ipe", stage="offer", code=code, count=count)
    first = admin_client.get("/admin/", {"period": "2h"})
    assert first.context["problems"] == []
    assert '<a href="?period=2h" aria-current="true">esta hora e a anterior</a>' in first.text
    side_by_side = {row[0]: row[1:] for row in admin_client.get(PAGES[0]).context["table"].rows}
    [ipe] = [cells for link, cells in side_by_side.items() if "/banks/ipe/" in link]
    assert (ipe[6:8], ipe[0]) == (("29,0%", "1,0%"), str(window))
    page = admin_client.get(PAGES[1])
    assert f"Agora: {window}" in text_of(page)
    cards = {card.title: (card.value, card.note) for card in page.context["cards"]}
    assert (cards["Fechado"], cards["Falhas"]) == (("29,0%", "29 respostas"), ("1,0%", "1 resposta"))
    assert cards["Sem ofertas"] == ("0,0%", "nenhuma resposta")


def test_few_answers_are_told_as_counts(admin_client: Client, partner: Partner) -> None:
    """Before the fix, a bank with fewer than twenty answers had a dash in every column."""
    BankHour.objects.create(hour=hour_of(timezone.now()), partner=partner, bank="ipe", ok=9, no_offers=7, failed=1)
    table = admin_client.get(PAGES[0], {"period": "2h"}).context["table"]
    [ipe] = [row for row in table.rows if "/banks/ipe/" in row[0]]
    assert ipe[2:9] == ("17", "9 de 17", "7 de 17", "0 de 17", "0 de 17", "0 de 17", "1 de 17")
    [cedro] = [row for row in table.rows if "/banks/cedro/" in row[0]]
    assert set(cedro[3:9]) == {"—"}
    cards = {card.title: card.value for card in admin_client.get(PAGES[1]).context["cards"]}
    assert cards["Falhas"] == "1 de 17"


def test_a_step_of_few_tells_its_part_of_the_step_before(admin_client: Client, partner: Partner) -> None:
    """Before the fix: `— da etapa anterior`."""
    QueryHour.objects.create(hour=hour_of(timezone.now()), partner=partner, queries=9, with_offers=2)
    text = text_of(admin_client.get(PAGES[2]))
    assert "Com ofertas 2 2 de 9 da etapa anterior R$ 0" in text
    assert "Propostas enviadas 0 0 de 2 da etapa anterior R$ 0" in text
    assert "Assinadas 0 R$ 0" in text


def test_the_funnel(admin_client: Client, figures: Partner) -> None:
    ReasonHour.objects.create(
        hour=hour_of(timezone.now()), partner=figures, bank="ipe", stage="offer", code="other", count=1
    )
    page = admin_client.get(PAGES[2])
    text = text_of(page)
    assert "Por que não houve oferta, por resposta de banco Motivo Código Respostas de bancos" in text
    assert "Outro motivo do banco. other 1" in text
    assert "Consultas 3.600" in text
    assert "Com ofertas 1.500 41,7% da etapa anterior R$ 12.000.002" in text
    assert "Pagas 120 66,7% da etapa anterior R$ 600.000" in text
    assert "Desistências 12 10,0% da etapa anterior R$ 60.000" in text
    assert "A assinatura não" in text or "signature_expired 66" in text
    assert "none_yet 66" in text, "a code of another release is shown as it is"
    narrowed = admin_client.get(f"{PAGES[2]}?bank=cedro&partner={figures.pk}&period=7d")
    assert "Financeira Um, Cedro" in text_of(narrowed)
    assert [step["count"] for step in narrowed.context["steps"]] == ["3.600", "1.500", "120", "90", "60", "6"]


def test_the_first_page_shows_today(admin_client: Client, figures: Partner) -> None:
    """And the hours or days: `test_the_pages_show_what_sql_counts`."""
    page = admin_client.get("/admin/", {"period": "7d"})
    titles = "Consultas, Consultas com ofertas, Ofertas, Propostas enviadas, Propostas pagas"
    assert ", ".join(card.title for card in page.context["cards"]) == titles
    says(page, reverse("figures:banks"), reverse("figures:funnel"))  # their places in the menu


@pytest.mark.parametrize("page", ["/admin/", *PAGES])
def test_a_page_says_up_to_when_it_is_counted(admin_client: Client, partner: Partner, page: str) -> None:
    """Before the fix, only the first page said so, without the year and the time zone."""
    assert "Nada foi contado ainda." in text_of(admin_client.get(page))
    Progress.objects.create(until=datetime(2026, 11, 22, 21, 5, tzinfo=UTC))
    assert "ontado até 22/11/2026 18:05, horário de Brasília." in text_of(admin_client.get(page))


def test_a_day_has_a_bar_each_hour_and_its_ticks_at_whole_quarters() -> None:
    """Before the fix, the ticks of a day stood wherever there was room: 13h, 16h, 19h."""
    hours = [datetime(2026, 11, 22, 18, tzinfo=UTC) + timedelta(hours=number) for number in range(24)]  # 15 h here
    drawn = plot("Consultas", hours, [Line("Todas", BLUE, range(24)), Line("Boas", GREEN, [0] * 23 + [12])])
    assert (drawn.title, drawn.levels) == ("Consultas por hora", ["30", "15", "0"])
    ticks = {index: slot.tick for index, slot in enumerate(drawn.slots) if slot.tick}
    assert ticks == {3: "18h", 9: "23/11", 15: "6h", 21: "12h"}
    assert drawn.slots[-1].bars == [(BLUE, "76.7%"), (GREEN, "40.0%")]
    assert drawn.slots[-1].words == "23/11 14h: Todas 23, Boas 12"
    assert drawn.rows[0] == ["23/11 14h", "23", "12"]
    assert len(drawn.rows) == 23, "an hour without a number has no row"


@pytest.mark.parametrize(("highest", "levels"), [(1, "2 1"), (3, "4 2"), (9, "10 5"), (13, "20 10"), (110, "150 75")])
def test_the_levels_of_counts_are_whole_numbers(highest: int, levels: str) -> None:
    """Before the fix, a plot of queries had half of one: 7,5."""
    drawn = plot("Consultas", [datetime(2026, 11, 25, tzinfo=UTC)], [Line("Todas", BLUE, [highest])])
    assert drawn.levels == [*levels.split(), "0"]


def test_stacked_bars_stand_on_each_other() -> None:
    hours = [hour_of(timezone.now())]
    lines = [Line("a", BLUE, [3]), Line("b", RED, [5])]
    for stacked, heights in ((True, ["37.5%", "62.5%"]), (False, ["50.0%", "83.3%"])):
        [slot] = plot("x", hours, lines, stacked=stacked).slots
        assert [height for _, height in slot.bars] == heights


@pytest.mark.parametrize(("period", "slots", "ticks"), [("7d", 7, 7), ("30d", 30, 6)])
def test_many_days_have_a_bar_each_day(
    admin_client: Client, partner: Partner, period: str, slots: int, ticks: int
) -> None:
    """Before the fix, 720 hours were a line."""
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    for hour, queries in ((midnight, 5), (midnight - timedelta(hours=1), 7), (midnight - timedelta(days=1), 3)):
        QueryHour.objects.create(hour=hour, partner=partner, queries=queries)
    page = admin_client.get("/admin/", {"period": period})
    [drawn] = [each for each in page.context["plots"] if each.title == "Consultas por dia"]
    assert (len(drawn.slots), sum(bool(slot.tick) for slot in drawn.slots)) == (slots, ticks)
    yesterday = midnight - timedelta(days=1)
    assert drawn.rows == [[f"{midnight:%d/%m}", "5", "0"], [f"{yesterday:%d/%m}", "10", "0"]]


def test_a_plot_without_numbers_says_so(admin_client: Client, partner: Partner) -> None:
    """Before the fix, it showed an empty frame."""
    page = admin_client.get("/admin/")
    assert all(plot.slots == plot.rows == [] for plot in page.context["plots"])
    assert page.text.count("Nada neste período.") == 3
    assert 'class="slots' not in page.text


@pytest.mark.parametrize(("page", "most"), [("/admin/", 24), (PAGES[0], 8), (PAGES[1], 11), (PAGES[2], 6)])
def test_a_page_costs_few_statements(
    admin_client: Client, figures: Partner, django_assert_max_num_queries: Any, page: str, most: int
) -> None:
    """Including session and user. The number does not depend on banks, partners and hours."""
    with django_assert_max_num_queries(most):
        admin_client.get(page, {"period": "30d"})


# --- The data ------------------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize(
    ("ms", "told"), [(None, "—"), (9, "≤ 0,1 s"), (100, "≤ 0,1 s"), (180, "0,2 s"), (float("inf"), "> 25 s")]
)
def test_a_time_is_told_as_exactly_as_it_is_known(ms: float | None, told: str) -> None:
    """Before the fix, every bank that answers within a tenth of a second took just that."""
    assert seconds(ms).replace("\xa0", " ") == told


def some_queries(partner: Partner, **by_hour: int) -> None:
    """Queries of today or of a week ago, in the hours `h0`, `h14`, `w0` (of a week ago), …"""
    for name, number in by_hour.items():
        day = TODAY - timedelta(days=7 * (name[0] == "w"))
        QueryHour.objects.create(hour=day + int(name[1:]) * HOUR, partner=partner, queries=number)


def told_of_today(until: datetime | None = NOW, title: str = "Consultas") -> tuple[str, str, str]:
    """The figure of today, its amount, and what of it is compared."""
    cards = cards_of_today(reports.hours_of_all(NOW - 8 * DAY), NOW, until)
    [found] = [card for card in cards if card.title == title]
    return found.value, found.note, found.compared


def test_today_beside_the_same_weekday_a_week_ago() -> None:
    """At 14:30 the fourteen whole hours are compared, and no part of an hour."""
    partner = PartnerFactory()
    some_queries(partner, h0=20, h13=10, h14=5, w0=15, w13=5, w14=1000)
    for day in (TODAY, TODAY - 7 * DAY):
        QueryHour.objects.create(hour=day - HOUR, partner=partner, queries=1000)
    BankHour.objects.create(hour=TODAY, partner=partner, bank="ipe", submitted=3, submitted_amount=Decimal("900.51"))
    assert told_of_today() == ("35", "", "30 até 14h; há uma semana 20 (+50 %)")
    assert told_of_today(title="Propostas enviadas") == ("3", "R$ 901", "3 até 14h; há uma semana 0")


def test_a_small_number_is_no_base_of_a_percentage() -> None:
    """Before the fix, 577 queries beside the twelfth part of 29 were told as +23940 %."""
    some_queries(PartnerFactory(), h0=577, w0=19)
    assert told_of_today() == ("577", "", "577 até 14h; há uma semana 19")


def test_an_hour_that_is_not_counted_whole_is_not_compared() -> None:
    some_queries(PartnerFactory(), h0=40, h13=5, w0=20, w13=50)
    late = told_of_today(TODAY + 13 * HOUR + timedelta(minutes=50))
    assert late == ("45", "", "40 até 13h; há uma semana 20 (+100 %)")
    assert told_of_today(TODAY - HOUR) == ("45", "", "0 até 00h; há uma semana 0")


@pytest.mark.parametrize(
    ("part", "whole", "told"),
    [(3, 19, "3 de 19"), (5, 20, "25,0%"), (0, 0, "—"), (2580, 2581, "99,9%"), (20, 20, "100,0%")],
)
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
    untaken = PartnerFactory(name="Fora")  # before the fix, a partner whose queries no worker took was left out
    for partner, queries, with_offers, later in ((one, 100, 40, 6), (other, 10, 10, 0), (untaken, 7, 0, 0)):
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
    assert shown(all_of_it.whole) == (117, 56, 6, 3, 2), "with the offers that came after a step"
    assert all_of_it.whole["offered"] == 53_000
    assert [each["withdrawn"] for each in (all_of_it.whole, *all_of_it.by_bank.values())] == [1, 0, 1]
    assert {name: shown(funnel) for name, funnel in all_of_it.by_bank.items()} == {
        "cedro": (100, 7, 1, 0, 0),
        "ipe": (110, 40, 5, 3, 2),
    }
    assert {name: shown(funnel) for (_, name), funnel in all_of_it.by_partner.items()} == {
        "Fora": (7, 0, 0, 0, 0),
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

    def ago(passed: int) -> datetime:
        return at - timedelta(seconds=passed)

    for passed, scope, is_open in (
        (9000, None, True),  # no further call was made
        (5000, None, True),
        (4990, partner, True),
        (4985, None, True),  # a probe failed
        (4960, None, False),
        (4950, partner, False),
        (20, None, True),
    ):
        BreakerMove.objects.create(bank="ipe", partner_id=scope, is_open=is_open, at=ago(passed))
    assert breaker_history.openings("ipe", ago(10_000), at) == [
        Opening(ago(20), None, None),
        Opening(ago(4990), ago(4950), partner),
        Opening(ago(5000), ago(4960), None),
        Opening(ago(9000), ago(5400), None),
    ]
    assert breaker_history.openings("cedro", ago(10_000), at) == []
