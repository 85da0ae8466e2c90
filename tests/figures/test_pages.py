"""The pages of figures: who may see them, what they show, and how many statements they need."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from figures.charts import BLUE, Line, plot
from figures.counting import hour_of
from figures.models import BankHour, BreakerMove, LatencyHour, Progress, QueryHour, ReasonHour
from partners.models import Partner
from providers.maintenance import Maintenance
from tests.factories import PartnerFactory, ProviderFactory

pytestmark = pytest.mark.django_db

PAGES = ("/admin/figures/banks/", "/admin/figures/banks/ipe/", "/admin/figures/funnel/")


def some_figures(partner: Partner) -> None:
    """Some figures of each kind for two banks, in the last three hours."""
    now = hour_of(timezone.now())
    for number in range(3):
        hour = now - timedelta(hours=number)
        QueryHour.objects.create(
            hour=hour, partner=partner, queries=1200, with_offers=500, offers=20_000, offered=Decimal("4000000.50")
        )
        for bank in ("ipe", "cedro"):
            BankHour.objects.create(
                hour=hour,
                partner=partner,
                bank=bank,
                ok=500,
                no_offers=400,
                pending=50,
                refused=150,
                failed=100,
                offers=20_000,
                offered=Decimal("4000000.50"),
                submitted=40,
                submitted_amount=Decimal(200_000),
                signed=30,
                signed_amount=Decimal(150_000),
                disbursed=20,
                disbursed_amount=Decimal(100_000),
            )
            for code, stage in (("no_margin", "offer"), ("signature_expired", "signature"), ("none_yet", "payment")):
                ReasonHour.objects.create(
                    hour=hour, partner=partner, bank=bank, stage=stage, code=code, count=10 + number
                )
            for bound in (500, 1000, 5000):
                LatencyHour.objects.create(hour=hour, bank=bank, up_to_ms=bound, count=400)
    BreakerMove.objects.create(bank="ipe", is_open=True, at=now)
    BreakerMove.objects.create(bank="ipe", is_open=False, at=now + timedelta(seconds=17))
    BreakerMove.objects.create(bank="ipe", partner_id=partner.pk, is_open=True, at=now)
    Progress.objects.create(source="queries", until=timezone.now())


@pytest.fixture
def partner() -> Partner:
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
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


@pytest.mark.parametrize("page", PAGES)
def test_a_page_without_figures(admin_client: Client, partner: Partner, page: str) -> None:
    for period in ("24h", "7d", "30d", "nonsense"):
        assert admin_client.get(page, {"period": period}).status_code == 200


@pytest.mark.parametrize("page", PAGES)
def test_figures_are_for_who_may_see_them(client: Client, partner: Partner, page: str) -> None:
    assert client.get(page).status_code == 302
    client.force_login(User.objects.create_user("curious", is_staff=True))
    assert client.get(page).status_code == 403
    assert "Desempenho dos bancos" not in client.get("/admin/").content.decode()
    assert "cards" not in client.get("/admin/").context
    for group in Group.objects.filter(name__startswith="Papel: "):
        user = User.objects.create_user(f"member of {group}", is_staff=True)
        user.groups.add(group)
        client.force_login(user)
        assert client.get(page).status_code == 200


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
    found = {row[0]: row[1:] for row in page.context["table"].rows}
    assert len(found) == 8
    [told] = [cells for link, cells in found.items() if "/banks/ipe/" in link]
    assert told == (
        "3.600",
        "41,7%",
        "33,3%",
        "4,2%",
        "12,5%",
        "0,0%",
        "8,3%",
        "0,9 s",
        "4,8 s",
        "16,7",
        "120",
        "60",
        "no ar",
    )


def test_a_banks_page(admin_client: Client, figures: Partner) -> None:
    page = admin_client.get(PAGES[1])
    text = text_of(page)
    assert "O titular não tem margem consignável suficiente. no_margin 33 0,9%" in text
    assert "todos os parceiros" in text
    assert "17 s" in text
    assert f"/admin/partners/partner/{figures.pk}/change/" in page.content.decode()
    assert "3.600 1.500 (41,7%) 120 (8,0%) 90 (75,0%) 60 (66,7%)" in text
    plots = {plot.title: plot for plot in page.context["plots"]}
    assert plots["Ofertas por hora"].rows[0][1:] == ["20.000"]
    assert plots["Tempo de resposta (s)"].rows[0][1:] == ["0,88", "4,85"]


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
    """Answers refused by a window raise no alarm and stand apart from failures, and every page about banks names the
    window."""
    now = timezone.now()
    window = Maintenance.objects.create(provider_id="ipe", ends_at=now + timedelta(hours=2), reason="troca de chaves")
    hour = hour_of(now)
    BankHour.objects.create(hour=hour, partner=partner, bank="ipe", ok=70, failed=30)
    ReasonHour.objects.create(hour=hour, partner=partner, bank="ipe", stage="offer", code="bank_closed", count=29)
    first = admin_client.get("/admin/", {"period": "2h"})
    assert first.context["problems"] == []
    assert '<a href="?period=2h" aria-current="true">esta hora e a anterior</a>' in first.content.decode()
    side_by_side = {row[0]: row[1:] for row in admin_client.get(PAGES[0]).context["table"].rows}
    [ipe] = [cells for link, cells in side_by_side.items() if "/banks/ipe/" in link]
    assert (ipe[5:7], ipe[-1]) == (("29,0%", "1,0%"), str(window))
    page = admin_client.get(PAGES[1])
    assert f"Agora: {window}" in text_of(page)
    cards = {card["title"]: (card["value"], card["note"]) for card in page.context["cards"]}
    assert (cards["Fechado"], cards["Falhas"]) == (("29,0%", "29 respostas"), ("1,0%", "1 resposta"))
    assert cards["Sem ofertas"] == ("0,0%", "nenhuma resposta")


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
    assert "A assinatura não" in text or "signature_expired 66" in text
    assert "none_yet 66" in text, "a code of another release is shown as it is"
    narrowed = admin_client.get(f"{PAGES[2]}?bank=cedro&partner={figures.pk}&period=7d")
    assert "Financeira Um, Cedro" in text_of(narrowed)
    assert [step["count"] for step in narrowed.context["steps"]] == ["3.600", "1.500", "120", "90", "60"]


def test_the_first_page_shows_today_and_the_hours(admin_client: Client, figures: Partner) -> None:
    page = admin_client.get("/admin/", {"period": "7d"})
    assert [card.title for card in page.context["cards"]] == [
        "Consultas",
        "Consultas com ofertas",
        "Ofertas",
        "Propostas enviadas",
        "Propostas pagas",
    ]
    plots = {plot.title: plot for plot in page.context["plots"]}
    assert plots["Propostas por hora"].rows[0][1:] == ["80", "60", "40"]
    assert "Contado até" in text_of(page)


@pytest.mark.parametrize("page", ["/admin/", *PAGES])
def test_a_page_says_up_to_when_it_is_counted(admin_client: Client, partner: Partner, page: str) -> None:
    """Before the fix, only the first page said so, without the year and the time zone."""
    assert "Nada foi contado ainda." in text_of(admin_client.get(page))
    Progress.objects.create(source="queries", until=datetime(2026, 11, 22, 21, 5, tzinfo=UTC))
    assert "ontado até 22/11/2026 18:05, horário de Brasília." in text_of(admin_client.get(page))


def test_an_hour_alone_is_a_point() -> None:
    """Before the fix, a line with a single hour of figures, or with gaps around an hour, showed nothing at that
    hour."""
    hours = [hour_of(timezone.now()) + timedelta(hours=number) for number in range(6)]
    values = (5, None, None, 7, 8, 0)
    [line] = json.loads(plot("x", hours, [Line("y", BLUE, values)], bars=False).data)["datasets"]
    assert [radius > 0 for radius in line["pointRadius"]] == [True, False, False, False, False, False]
    [bars] = json.loads(plot("x", hours, [Line("y", BLUE, values)]).data)["datasets"]
    assert bars["pointRadius"] == 0


@pytest.mark.parametrize(("page", "most"), [("/admin/", 16), (PAGES[0], 8), (PAGES[1], 11), (PAGES[2], 6)])
def test_a_page_costs_few_statements(
    admin_client: Client, figures: Partner, django_assert_max_num_queries: Any, page: str, most: int
) -> None:
    """Including session and user. The number does not depend on banks, partners and hours."""
    with django_assert_max_num_queries(most):
        admin_client.get(page, {"period": "30d"})


def test_every_page_has_its_place_in_the_menu(admin_client: Client) -> None:
    menu = admin_client.get("/admin/").content.decode()
    assert reverse("figures:banks") in menu
    assert reverse("figures:funnel") in menu
