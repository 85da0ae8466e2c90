"""The back office in a real Chromium: its Content-Security-Policy, axe-core's findings, and its look on a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page
from pytest_django.live_server_helper import LiveServer

from tests.backoffice.figures.rows import figures_of_a_month
from tests.browser import DESK, PHONE, Desk, is_wider_than_its_window, shoot, violations
from tests.factories import PartnerFactory, ProviderFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

#: Of each plot, whether one of its bars is at least 20 pixels high.
DRAWN = """all => all.map(plot => [...plot.querySelectorAll('rect:not(.slot)')]
    .some(bar => bar.getBoundingClientRect().height > 20))"""


@pytest.fixture
def operator(transactional_db: None) -> User:
    return User.objects.create_superuser("operadora")


def faults(page: Page) -> list[str]:
    """The faults of a page on this screen."""
    return [*violations(page), *(["too wide"] if is_wider_than_its_window(page) else [])]


def on_each_screen(page: Page) -> Iterator[int]:
    """The widths of a desk's and a phone's screen, each once the page has it."""
    for width in (DESK, PHONE):
        page.set_viewport_size({"width": width, "height": 900})
        yield width


def test_the_first_page(desk: Desk, operator: User) -> None:
    page = desk.open("/admin/", operator)
    for width in on_each_screen(page):
        shoot(page, f"first-{width}")
        assert faults(page) == [], width


def test_the_pages_of_figures(desk: Desk, live_server: LiveServer, operator: User) -> None:
    """Each page at both widths. Plots need no script."""
    for name in ("ipe", "cedro"):
        ProviderFactory(name=name)
    figures_of_a_month(PartnerFactory(name="Financeira Exemplo"), PartnerFactory(name="Corresponde Crédito e Serviços"))
    page, found = desk.open("/admin/", operator), {}
    for name, address in {
        "first": "/admin/?period=7d",
        "banks": "/admin/figures/banks/",
        "bank": "/admin/figures/banks/ipe/?period=24h",
        "bank-30d": "/admin/figures/banks/ipe/?period=30d",
        "funnel": "/admin/figures/funnel/?period=30d",
    }.items():
        page.goto(live_server.url + address)
        for summary in page.locator(".figures details summary").all():
            summary.click()
        for width in on_each_screen(page):
            shoot(page, f"{name}-{width}")
            drawn = page.locator(".plot svg").evaluate_all(DRAWN)
            assert all(drawn), name
            assert len(drawn) == {"first": 3, "bank": 4, "bank-30d": 4}.get(name, 0)
            cut = page.locator(".figures .wide > table.blocks").evaluate_all(
                "all => all.some(each => each.scrollWidth > each.parentElement.clientWidth)"
            )
            assert not cut, f"{name} has to be pushed sideways at {width}"
            broken = page.locator(".figures tbody th:visible").evaluate_all(
                "all => all.some(th => th.offsetWidth < 60)"
            )
            found[name, width] = [*faults(page), *(["a row's name is broken"] if broken else [])]
    assert {key: told for key, told in found.items() if told} == {}
