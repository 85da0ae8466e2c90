"""The back office in a real Chromium, on a desk and on a phone: axe-core's findings, what fits, and first tasks."""

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from consultas.models import Query
from partners.models import Partner
from proposals.models import Proposal
from providers.maintenance import Maintenance
from tests.backoffice.figures.rows import some_figures
from tests.backoffice.story import Story, tell
from tests.backoffice.test_roles import addresses, rows_of
from tests.browser import DESK, PHONE, Desk, darken, is_wider_than_its_window, violations
from tests.factories import PartnerFactory, ProviderFactory
from tests.operators import page_of
from tests.processes import Programs
from webhooks.models import Event

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

#: Whether a list's table, or a table inside a row's page, is wider than its frame and would have to be scrolled.
CUT = """() => {
    const table = document.querySelector('#result_list');
    const list = table === null ? [] : [[table, table.closest('.simplebar-content-wrapper')]];
    const inner = [...document.querySelectorAll('.wide > .inner')].map(each => [each, each.parentElement]);
    return [...list, ...inner].some(([each, frame]) => each.scrollWidth > frame.clientWidth);
}"""

#: Of each plot, whether one of its bars is at least 20 pixels high.
DRAWN = """all => all.map(plot => [...plot.querySelectorAll('i')]
    .some(bar => bar.getBoundingClientRect().height > 20))"""

#: Whether a table of figures has to be pushed sideways, or the name of a row is broken.
BROKEN = """all => all.some(table => table.scrollWidth > table.parentElement.clientWidth ||
    [...table.querySelectorAll('tbody th')].some(th => th.checkVisibility() && th.offsetWidth < 60))"""

#: The icons that a screen reader would read as a word.
ICONS = """() => [...document.querySelectorAll('.material-symbols-outlined')]
    .filter(icon => !icon.ariaHidden && !icon.ariaLabel).map(icon => 'read aloud: ' + icon.textContent.trim())"""


@pytest.fixture(scope="module", autouse=True)
def _no_deliverer(programs: Programs) -> None:
    """Tests elsewhere may have left the webhooks worker running: it would send these tests' events."""
    programs.kill("webhooks")


def main_pages(story: Story) -> dict[str, str]:
    """The addresses of the pages that operators use most."""
    holder = f"/admin/titular/?cpf_index={story.query.cpf_index}"
    return {
        "titular": holder,
        "consulta": page_of(story.query),
        "proposta": page_of(story.proposal),
        "propostas": reverse("admin:proposals_proposal_changelist"),
        "evento": page_of(story.event),
        "eventos": reverse("admin:webhooks_event_changelist"),
        "parceiro": page_of(story.partner),
        "atividade": f"/admin/parceiro/{story.partner.pk}/",
        "bancos": reverse("admin:providers_provider_changelist"),
        "banco": page_of(story.partner.allowances.get(provider="ipe").provider),
        "falhas": reverse("admin:partners_failedcall_changelist"),
    }


def misfits(page: Page) -> list[str]:
    """What does not fit this screen."""
    found = ["a column is cut"] if page.evaluate(CUT) else []
    return [*found, "wider than its window"] if is_wider_than_its_window(page) else found


def test_the_main_pages_fit_each_screen_and_have_no_serious_fault(
    desk: Desk, live_server: LiveServer, story: Story, admin_user: User
) -> None:
    """In light and dark, of which only the contrast is another. The menu is the same on all pages, and judged on one.
    Before the fixes, the last column of lists was cut and fields of a partner's banks had no label."""
    page, found, seen = desk.open("/admin/", admin_user), {}, set[str]()
    screens = list(product((DESK, PHONE), (False, True)))
    for name, address in main_pages(story).items():
        page.goto(live_server.url + address)
        if name == "proposta":
            expect(page.locator("#submit-row")).to_have_css("position", "static")  # before the fix, it covered fields
        menu = "" if name == "propostas" else "#nav-sidebar"
        screens.reverse()  # the next page begins on this one's last screen, because another width takes long
        for width, is_dark in screens:
            page.set_viewport_size({"width": width, "height": 900})
            darken(page, is_dark)
            told = violations(page, seen, of_colours_alone=is_dark, but=menu)
            found[f"{name}-{width}-{is_dark}"] = [*told, *misfits(page)]
    assert {name: told for name, told in found.items() if told} == {}


def test_a_card_on_a_phone_begins_with_the_state(desk: Desk, live_server: LiveServer, admin_user: User) -> None:
    """Before the fix, it began with "Selecionar registro": as the title of the state, or with its box."""
    tell()
    Proposal.objects.update(provider="sucupira")
    Query.objects.update(request_id="d" * 32)
    first = """() => [...document.querySelectorAll('#result_list .data-row > *')]
        .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)[0]"""
    page, found = desk.open("/admin/", admin_user), {}
    page.set_viewport_size({"width": PHONE, "height": 900})
    for model in ("consultas_query", "proposals_proposal", "providers_provider"):
        page.goto(live_server.url + reverse(f"admin:{model}_changelist"))
        title = f"(({first})()).className.includes('checkbox') || getComputedStyle(({first})(), '::before').content"
        found[model] = page.evaluate(title)
        cells = "[...document.querySelectorAll('#result_list td')].filter(each => each.scrollWidth > each.clientWidth)"
        assert page.evaluate(f"{cells}.map(each => each.className)") == [], "Before the fix: a request's id was cut off"
    assert found == {"consultas_query": "none", "proposals_proposal": '"situação"', "providers_provider": "none"}
    page.set_viewport_size({"width": DESK, "height": 900})
    page.goto(live_server.url + reverse("admin:proposals_proposal_changelist"))
    lines = """cell => {
        const words = document.createRange();
        words.selectNodeContents(cell);
        return new Set([...words.getClientRects()].map(each => each.top)).size;
    }"""
    assert page.locator("#result_list td.field-bank").first.evaluate(lines) == 1, "Before the fix: Sucupir/a"
    Partner.objects.update(name="Demonstração")
    page.goto(live_server.url + reverse("admin:webhooks_event_changelist"))
    assert page.locator("#result_list td.field-partner").first.evaluate(lines) == 1, "Before the fix: Demonstra/ção"


def test_a_long_state_on_a_phone_covers_nothing(desk: Desk, live_server: LiveServer, admin_user: User) -> None:
    """Before the fix, a bank's window lay over the next line of its card."""
    tell()
    Maintenance.objects.update(reason="virada de folha de pagamento, e a troca do certificado de cliente " * 3)
    page = desk.open("/admin/", admin_user)
    page.set_viewport_size({"width": PHONE, "height": 900})
    page.goto(live_server.url + reverse("admin:providers_provider_changelist"))
    covering = """cells => cells.filter(cell => [...cell.children].some(
        each => each.getBoundingClientRect().bottom > cell.getBoundingClientRect().bottom + 1
    )).map(cell => cell.className)"""
    assert page.locator("#result_list td").evaluate_all(covering) == []


def test_the_pages_of_figures(desk: Desk, live_server: LiveServer, admin_user: User) -> None:
    """Without figures and with those of a month, at both widths. Plots need no script. A bank's page has the same
    elements for each period, and most for a month. Before the fix, the operator's e-mail address was too pale below the
    mouse."""
    page, found, seen = desk.open("/admin/", admin_user), {}, set[str]()
    plots = {"first": 3, "bank": 4, "bank-30d": 4}
    for name, address in {
        "empty": "/admin/",
        "first": "/admin/?period=7d",
        "banks": "/admin/figures/banks/",
        "bank": "/admin/figures/banks/ipe/?period=24h",
        "bank-30d": "/admin/figures/banks/ipe/?period=30d",
        "funnel": "/admin/figures/funnel/?period=30d",
    }.items():
        page.goto(live_server.url + address)
        for summary in page.locator(".figures details summary").all():
            summary.click()
        for width in (DESK, PHONE):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.locator(".plot .slots").evaluate_all(DRAWN) == [True] * plots.get(name, 0), name
            is_broken = page.locator(".figures .wide > table.blocks").evaluate_all(BROKEN)
            told = violations(page, seen, of_colours_alone=name == "bank-30d")
            found[name, width] = [*told, *misfits(page), *["a table is broken"] * is_broken]
        if name == "empty":
            for bank in ("ipe", "cedro"):
                ProviderFactory(name=bank)
            names = ("Financeira Exemplo", "Corresponde Crédito e Serviços")
            some_figures(*(PartnerFactory(name=each) for each in names), hours=720)
    assert {key: told for key, told in found.items() if told} == {}


def test_the_first_column_of_a_list_stays_in_sight(desk: Desk, story: Story, admin_user: User) -> None:
    """Before the fix, who pushed a list sideways no longer saw whose values these were."""
    page = desk.open(reverse("admin:proposals_proposal_changelist"), admin_user)
    page.add_style_tag(content="#result_list { min-width: 3000px }")
    pushed = """() => {
        const frame = document.querySelector('#result_list').closest('.simplebar-content-wrapper');
        frame.scrollLeft = 900;
        const left = selector => document.querySelector(selector).getBoundingClientRect().left;
        const begin = frame.getBoundingClientRect().left;
        return [left('tbody .field-coloured_status') - begin, left('tbody .field-created_at') - begin];
    }"""
    state, created = page.evaluate(pushed)
    assert 0 < state < 60
    assert created < 0


def other_pages(rows: dict[str, Any], seen: Iterable[str]) -> dict[str, str]:
    """The addresses of the pages that are not among those already `seen`: each list, each form, and one of each kind of
    page that asks for confirmation."""
    alike = (
        *("_suspend", "_suspend_and_hold", "_export_dossier", "_publish", "_reopen"),
        *("_resume", "_rotate_secret", "_apikey_revoke"),
    )
    found = {name: address for name, address, _ in addresses(rows) if not name.endswith(alike) and address not in seen}
    return {
        **found,
        "password": "/admin/password_change/",
        "search": reverse("search"),
        "not found": "/admin/nada/",
        "second factor": "/admin/second-factor/",
    }


def test_every_other_page_has_no_serious_fault_and_names_its_icons(
    desk: Desk, live_server: LiveServer, story: Story, admin_user: User
) -> None:
    """On a desk in light, on a phone in dark colours. Before the fix, a screen reader read "search Consultas" in the
    menu, and icons were the only name of links."""
    page, found, seen = desk.open("/admin/", admin_user), {}, set[str]()
    found["menu"] = [*violations(page, seen), *page.evaluate(ICONS)]
    screens = [(DESK, False), (PHONE, True)]
    for name, address in other_pages(rows_of(story), main_pages(story).values()).items():
        page.goto(live_server.url + address)
        found[name] = []
        screens.reverse()  # as above
        for width, is_dark in screens:
            page.set_viewport_size({"width": width, "height": 900})
            darken(page, is_dark)
            found[name] += [*violations(page, seen, but="#nav-sidebar"), *page.evaluate(ICONS)]
    page.context.clear_cookies()
    page.goto(live_server.url + "/admin/login/")
    found["log-in"] = [*violations(page, seen), *page.evaluate(ICONS)]
    assert {name: told for name, told in found.items() if told} == {}


def test_an_id_is_copied_by_a_button_and_a_form_is_sent(desk: Desk, story: Story, admin_user: User) -> None:
    """All forms are sent by `tests.operators.press`, but without the theme's scripts."""
    failed = Event.objects.get(state=Event.State.FAILED)
    page = desk.open(page_of(failed), admin_user, permissions=["clipboard-read", "clipboard-write"])
    field = page.locator("[data-field=id]")
    field.get_by_role("button", name="Copiar").click()
    expect(field.get_by_role("status")).to_have_text("Copiado")
    assert page.evaluate("navigator.clipboard.readText()") == failed.pk
    page.get_by_role("link", name="Reenviar", exact=True).click()
    page.get_by_role("button", name="Reenviar", exact=True).click()
    expect(page.get_by_text("Colocado na fila de entrega.")).to_be_visible()
