"""The back office in a real Chromium, on a desk and on a phone."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.backoffice.story import Story, tell
from tests.browser import DESK, PHONE, Desk, is_wider_than_its_window, shoot, violations

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

#: Whether the list's table is wider than its frame, which would have to be scrolled.
CUT = """() => {
    const table = document.querySelector('#result_list');
    return table !== null && table.scrollWidth > table.closest('.simplebar-content-wrapper').clientWidth;
}"""


@pytest.fixture
def operator(transactional_db: None) -> User:
    return User.objects.create_superuser("operadora")


@pytest.fixture
def story(transactional_db: None) -> Story:
    return tell()


def page_of(row: Any, step: str = "change") -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{step}", args=[row.pk])


def main_pages(story: Story) -> dict[str, str]:
    """The addresses of the pages that operators use most, by a name for their pictures."""
    return {
        "parceiros": reverse("admin:partners_partner_changelist"),
        "parceiro": page_of(story.partner),
        "eventos": reverse("admin:webhooks_event_changelist"),
        "evento": page_of(story.event),
        "consultas": reverse("admin:consultas_query_changelist"),
        "consulta": page_of(story.query),
        "ofertas": reverse("admin:consultas_offer_changelist"),
        "propostas": reverse("admin:proposals_proposal_changelist"),
        "proposta": page_of(story.proposal),
        "bancos": reverse("admin:providers_provider_changelist"),
    }


def faults(page: Page) -> list[str]:
    """What keeps somebody from using the page on this screen."""
    found = violations(page)
    if page.evaluate(CUT):
        found.append("a column is cut")
    if is_wider_than_its_window(page):
        found.append("wider than its window")
    return found


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_the_main_pages_fit_their_screen_and_have_no_serious_fault(
    desk: Desk, live_server: LiveServer, story: Story, operator: User, width: int
) -> None:
    """Before the fix, the last column of lists was cut and fields of a partner's banks had no label."""
    page, found = desk.open("/admin/", operator, width=width), {}
    for name, address in main_pages(story).items():
        page.goto(live_server.url + address)
        shoot(page, f"{name}-{width}")
        found[name] = faults(page)
    assert {name: told for name, told in found.items() if told} == {}


def test_an_id_is_copied_by_a_button(desk: Desk, story: Story, operator: User) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    page = desk.open(page_of(story.proposal), operator, permissions=permissions)
    field = page.locator("[data-field=id]")
    field.get_by_role("button", name="Copiar").click()
    expect(field.get_by_role("status")).to_have_text("Copiado")
    assert page.evaluate("navigator.clipboard.readText()") == str(story.proposal.pk)
