"""The back office in a real Chromium, on a desk and on a phone. SCREENSHOTS=folder keeps pictures of the main pages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse
from playwright.sync_api import Page, expect

from tests.backoffice.conftest import OpenPage
from tests.backoffice.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

DESK = {"viewport": {"width": 1400, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
#: Whether the list's table is wider than its frame, which would have to be scrolled.
CUT = """() => {
    const table = document.querySelector('#result_list');
    return table !== null && table.scrollWidth > table.closest('.simplebar-content-wrapper').clientWidth;
}"""
SERIOUS = ("serious", "critical")


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


def picture(page: Page, name: str) -> None:
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def accessibility_faults(page: Page) -> list[str]:
    """What axe-core calls serious or critical, with the elements concerned."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:160]}" for each in found if each["impact"] in SERIOUS for node in each["nodes"]
    ]


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_main_pages_fit_their_screen_and_have_no_serious_fault(
    desk: OpenPage, live_server: Any, story: Story, size: dict[str, Any]
) -> None:
    page = desk(**size, bypass_csp=True)
    width, faults = size["viewport"]["width"], {}
    for name, address in main_pages(story).items():
        page.goto(live_server.url + address)
        picture(page, f"{name}-{width}")
        if found := accessibility_faults(page):
            faults[name] = found
        wide = page.evaluate("document.documentElement.scrollWidth")
        if page.evaluate(CUT):
            faults.setdefault(name, []).append("a column is cut")
        if wide > width:
            faults.setdefault(name, []).append(f"{wide} px wide")
    assert faults == {}


def test_an_id_is_copied_by_a_button(desk: OpenPage, story: Story) -> None:
    page = desk(page_of(story.proposal), permissions=["clipboard-read", "clipboard-write"])
    field = page.locator("[data-field=id]")
    field.get_by_role("button", name="Copiar").click()
    expect(field.get_by_role("status")).to_have_text("Copiado")
    assert page.evaluate("navigator.clipboard.readText()") == str(story.proposal.pk)
