"""The back office in a real Chromium, on a desk and on a phone: axe-core's findings, what fits, and first tasks."""

from collections.abc import Iterable
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from proposals.models import Erasure, Proposal
from tests.backoffice.figures.rows import some_figures
from tests.backoffice.story import Story, tell
from tests.backoffice.test_roles import addresses, rows_of
from tests.browser import DESK, OF_COLOURS, PHONE, Desk, darken, is_wider_than_its_window, shoot, violations
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
DRAWN = """all => all.map(plot => [...plot.querySelectorAll('rect:not(.slot)')]
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


@pytest.fixture
def operator(transactional_db: None) -> User:
    return User.objects.create_superuser("operadora")


@pytest.fixture
def story(transactional_db: None) -> Story:
    return tell()


def main_pages(story: Story) -> dict[str, str]:
    """The addresses of the pages that operators use most, by a name for their pictures."""
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
    desk: Desk, live_server: LiveServer, story: Story, operator: User
) -> None:
    """In light and dark, of which only the contrast is another. The menu is the same on all pages, and judged on one.
    Before the fixes, the last column of lists was cut and fields of a partner's banks had no label."""
    page, found = desk.open("/admin/", operator), {}
    for name, address in main_pages(story).items():
        page.goto(live_server.url + address)
        menu = "" if name == "propostas" else "#nav-sidebar"
        for width, is_dark in product((DESK, PHONE), (False, True)):
            page.set_viewport_size({"width": width, "height": 900})
            darken(page, is_dark)
            shoot(page, f"{name}-{width}-{'dark' if is_dark else 'light'}")
            told = violations(page, but=menu, rules=OF_COLOURS if is_dark else ())
            found[f"{name}-{width}-{is_dark}"] = [*told, *misfits(page)]
    assert {name: told for name, told in found.items() if told} == {}


def test_a_card_on_a_phone_begins_with_the_state(desk: Desk, live_server: LiveServer, operator: User) -> None:
    """Before the fix, it began with "Selecionar registro": as the title of the state, or with its box."""
    tell()
    Proposal.objects.update(provider="sucupira")
    first = """() => [...document.querySelectorAll('#result_list .data-row > *')]
        .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)[0]"""
    page, found = desk.open("/admin/", operator), {}
    page.set_viewport_size({"width": PHONE, "height": 900})
    for model in ("consultas_query", "proposals_proposal", "providers_provider"):
        page.goto(live_server.url + reverse(f"admin:{model}_changelist"))
        title = f"(({first})()).className.includes('checkbox') || getComputedStyle(({first})(), '::before').content"
        found[model] = page.evaluate(title)
    assert found == {"consultas_query": "none", "proposals_proposal": '"situação"', "providers_provider": "none"}
    page.set_viewport_size({"width": DESK, "height": 900})
    page.goto(live_server.url + reverse("admin:proposals_proposal_changelist"))
    bank = page.locator("#result_list td.field-bank").first
    assert (
        bank.evaluate("""cell => {
        const words = document.createRange();
        words.selectNodeContents(cell);
        return new Set([...words.getClientRects()].map(each => each.top)).size;
    }""")
        == 1
    ), "Before the fix: Sucupir/a"


def test_the_pages_of_figures(desk: Desk, live_server: LiveServer, operator: User) -> None:
    """Without figures and with those of a month, at both widths. Plots need no script. A bank's page has the same
    elements for each period, and most for a month."""
    page, found = desk.open("/admin/", operator), {}
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
            shoot(page, f"{name}-{width}")
            assert page.locator(".plot svg").evaluate_all(DRAWN) == [True] * plots.get(name, 0), name
            is_broken = page.locator(".figures .wide > table.blocks").evaluate_all(BROKEN)
            told = [] if name == "bank-30d" else violations(page)
            found[name, width] = [*told, *misfits(page), *["a table is broken"] * is_broken]
        if name == "empty":
            for bank in ("ipe", "cedro"):
                ProviderFactory(name=bank)
            names = ("Financeira Exemplo", "Corresponde Crédito e Serviços")
            some_figures(*(PartnerFactory(name=each) for each in names), hours=720)
    assert {key: told for key, told in found.items() if told} == {}


def test_the_first_column_of_a_list_stays_in_sight(desk: Desk, story: Story, operator: User) -> None:
    """Before the fix, who pushed a list sideways no longer saw whose values these were."""
    page = desk.open(reverse("admin:proposals_proposal_changelist"), operator)
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
    desk: Desk, live_server: LiveServer, story: Story, operator: User
) -> None:
    """On a desk in light, on a phone in dark colours. Before the fix, a screen reader read "search Consultas" in the
    menu, and icons were the only name of links."""
    page, found = desk.open("/admin/", operator), {}
    found["menu"] = [*violations(page), *page.evaluate(ICONS)]
    for name, address in other_pages(rows_of(story), main_pages(story).values()).items():
        page.goto(live_server.url + address)
        found[name] = []
        for width, is_dark in ((DESK, False), (PHONE, True)):
            page.set_viewport_size({"width": width, "height": 900})
            darken(page, is_dark)
            found[name] += [*violations(page, but="#nav-sidebar"), *page.evaluate(ICONS)]
    page.context.clear_cookies()
    page.goto(live_server.url + "/admin/login/")
    found["log-in"] = [*violations(page), *page.evaluate(ICONS)]
    assert {name: told for name, told in found.items() if told} == {}


def test_an_id_is_copied_by_a_button(desk: Desk, story: Story, operator: User) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    page = desk.open(page_of(story.proposal), operator, permissions=permissions)
    field = page.locator("[data-field=id]")
    field.get_by_role("button", name="Copiar").click()
    expect(field.get_by_role("status")).to_have_text("Copiado")
    assert page.evaluate("navigator.clipboard.readText()") == str(story.proposal.pk)


def look_for(page: Page, what: str) -> None:
    """Types `what` into the box in the menu."""
    box = page.get_by_role("search").get_by_role("searchbox")
    box.fill(what)
    box.press("Enter")


def test_what_happened_to_a_call_a_proposal_and_a_holder(desk: Desk, story: Story, operator: User) -> None:
    """The search box finds a failed call, a proposal with its timeline, and a person's page without the CPF in its
    address."""
    page = desk.open("/admin/", operator)
    look_for(page, "pedido-com-erro")
    expect(page.locator("[data-field=code]")).to_have_text("invalid_input")
    look_for(page, story.proposal.reference)
    timeline = page.locator("[data-field=timeline]")
    for told in (
        "consulta agregada",
        "passo do titular: biometria",
        "chamada ao banco: envio",
        "webhook proposal.created",
    ):
        expect(timeline).to_contain_text(told)
    expect(timeline).to_contain_text("812 ms")
    expect(page.locator("#submit-row")).to_have_css("position", "static")  # Before the fix, it covered fields.
    look_for(page, "900.000.001-75")
    expect(page.get_by_role("heading", name="Titular ***.000.001-**")).to_be_visible()
    assert story.cpf not in page.url
    assert violations(page) == []
    page.get_by_role("link", name=str(story.proposal.pk), exact=True).click()
    expect(page.locator("[data-field=id]")).to_contain_text(str(story.proposal.pk))


def test_a_partner_s_page_sends_a_test_event(desk: Desk, story: Story, operator: User) -> None:
    page = desk.open(page_of(story.partner), operator)
    page.get_by_role("link", name="Atividade").click()
    expect(page.get_by_role("link", name="Chamadas com falha, 24 h: 1")).to_be_visible()
    page.get_by_role("button", name="Enviar evento de teste").click()
    expect(page.locator("[data-field=name]")).to_have_text("webhook.test")


def test_a_bank_is_taken_out_of_service(desk: Desk, story: Story, operator: User) -> None:
    page = desk.open(reverse("admin:providers_provider_change", args=["cedro"]), operator)
    page.get_by_role("link", name="Pôr fora do ar").click()
    page.get_by_label("Por quantos minutos").fill("30")
    page.get_by_label("Motivo").fill("troca de sistema")
    page.get_by_role("button", name="Pôr fora do ar").click()
    expect(page.locator("[data-field=standing_now]")).to_contain_text("fora do ar até")
    page.get_by_role("link", name="Pôr de volta no ar").click()
    page.get_by_role("button", name="Pôr de volta").click()
    expect(page.locator("[data-field=standing_now]")).to_have_text("no ar")


def test_events_are_sent_again(desk: Desk, live_server: LiveServer, story: Story, operator: User) -> None:
    failed = Event.objects.get(state=Event.State.FAILED)
    page = desk.open(page_of(failed), operator)
    expect(page.locator("[data-field=content]")).to_contain_text("***.000.001-**")
    page.get_by_role("button", name="Reenviar", exact=True).click()
    expect(page.get_by_text("Colocados na fila de entrega: 1.")).to_be_visible()
    Event.objects.filter(pk=failed.pk).update(state="failed", due_at=None)
    page.goto(live_server.url + reverse("admin:webhooks_event_resend_window"))
    moment = timezone.localtime()
    page.get_by_label("Parceiro").select_option(str(story.partner.pk))
    page.get_by_label("Criados desde").fill(f"{moment - timedelta(hours=1):%Y-%m-%dT%H:%M}")
    page.get_by_label("Criados até").fill(f"{moment + timedelta(hours=1):%Y-%m-%dT%H:%M}")
    page.get_by_role("button", name="Contar").click()
    page.get_by_role("button", name="Reenviar 1").click()
    expect(page.get_by_text("reenviados: 1, criados")).to_be_visible()


def test_a_holder_is_erased_after_a_look_and_a_typed_confirmation(desk: Desk, story: Story, operator: User) -> None:
    page = desk.open(reverse("admin:proposals_erasure_erase"), operator)
    page.locator("#id_cpf").fill(story.cpf)
    page.get_by_role("button", name="Ver o que seria apagado").click()
    expect(page.get_by_text("Parceiros a avisar")).to_be_visible()
    expect(page.get_by_text(story.partner.name)).to_be_visible()
    assert not Erasure.objects.exists()
    page.get_by_label("digite o CPF de novo").fill(story.cpf)
    page.get_by_role("button", name="Apagar").click()
    expect(page.get_by_text("Apagados: ")).to_be_visible()
    assert Erasure.objects.count() == 1


def test_a_colleague_gets_a_role_and_reads_only(desk: Desk, story: Story, operator: User) -> None:
    colleague = User.objects.create_user("rui", is_staff=True)
    page = desk.open(page_of(colleague), operator)
    page.get_by_label("suporte").check()
    page.get_by_role("button", name="Salvar", exact=True).click()
    page.locator("#result_list").get_by_role("link", name="rui", exact=True).click()
    page.get_by_role("link", name="Auditoria").first.click()
    expect(page.locator("#result_list")).to_contain_text("grupos")
    page = desk.open(page_of(story.partner), colleague)
    expect(page.get_by_text(story.partner.name).first).to_be_visible()
    for name in ("Salvar", "Emitir chave", "Suspender"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    assert page.goto(page.url.replace("/change/", "/issue_key/")).status == 403  # type: ignore[union-attr]
    expect(page.get_by_text("A sua conta não tem a permissão")).to_be_visible()


def test_a_list_leaves_as_a_file(desk: Desk, story: Story, operator: User) -> None:
    page = desk.open(reverse("admin:proposals_proposal_changelist"), operator)
    with page.expect_download() as download:
        page.get_by_role("button", name="Exportar esta lista em CSV").click()
    assert "***.000.001-**" in download.value.path().read_text()
