"""The holder's page in a real Chromium, the size of a phone. A CSP violation or a request elsewhere is a failure."""

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import product
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from authorizations import codes, seal
from authorizations.models import Evidence, PhoneCode, Session, Terms
from authorizations.phone_code import PAUSE
from authorizations.phone_code import VALIDITY as CODE_VALIDITY
from config.celery import app
from tests.authorizations.clients import UNKNOWN, open_session, other_than, public, sent_code
from tests.browser import ANY, DESK, PHONE, Phone, violations
from tests.factories import PartnerFactory, update_encrypted
from tests.operators import page_of, see
from tests.receiver import Receiver

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SAO_PAULO = {"latitude": -23.550520, "longitude": -46.633308, "accuracy": 35}
NARROWEST = {"width": 320, "height": 640}
OpenPage = Callable[..., Page]
ACCEPT, DECLINE, SHARE = "Li e autorizo", "Não autorizo", "Compartilhar localização"
WHOLE, JUMP = "Ler o texto inteiro", "Ir para a decisão"
REVOKE = "Revogar agora"
ASK, AGAIN = "Receber o código por SMS", "Receber outro código"
MISSED, FIELD = "Não recebeu o código?", "Código de seis dígitos"
SCREEN = {"width": PHONE, "height": 844}
BANKS = ["aroeira", "canela", "cedro", "imbuia", "ipe", "jatoba", "peroba", "sucupira"]
# The words that are drawn on two lines. Digests have no words.
BROKEN = """() => {
  const found = [], walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.parentElement.closest('.code, .off')) continue;
    for (const word of node.data.matchAll(/[^\\s-]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(line => Math.round(line.top))).size > 1) found.push(word[0]);
    }
  }
  return found;
}"""


@pytest.fixture(scope="module")
def phones(chromium: Browser, live_server: LiveServer) -> Iterator[Phone]:
    """The phone that is kept for later tests."""
    phone = Phone(chromium, live_server.url)
    yield phone
    phone.close()


@pytest.fixture
def phone(phones: Phone) -> Iterator[OpenPage]:
    """Opens a path on a phone (`Phone.open`)."""
    yield phones.open
    assert phones.clear() == []


def long_session(**registered: Any) -> Session:
    """A session with the first terms of a deployment."""
    Terms(version="longa", text=import_module("authorizations.migrations.0001_initial").TEXT).publish()
    return open_session(PartnerFactory(name="Crédito Fácil & Cia", **registered))


@pytest.fixture
def longest(transactional_db: None) -> Session:
    """A long session of a partner that has registered everything."""
    contact = "privacidade@exemplo.com.br"
    return long_session(cnpj="11222333000181", privacy_contact=contact, providers=BANKS)


@pytest.fixture
def coded(transactional_db: None, gateway: Receiver) -> Iterator[Session]:
    """A long session whose partner asks for a code. No worker of another test takes the published tasks: each test
    does their work itself."""
    routes = app.conf.task_routes
    app.conf.update(task_routes={"authorizations.codes.send_due": {"queue": "nobodys"}})
    app.amqp.router = app.amqp.Router()
    yield long_session(sms_code=True)
    app.conf.update(task_routes=routes)
    app.amqp.router = app.amqp.Router()


def told() -> dict[str, Any]:
    return Evidence.objects.get().content["told_by_browser"]


def expect_accepted(page: Page) -> None:
    expect(page.get_by_role("heading", name="Autorização registrada")).to_be_visible()


def expect_declined(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text("Você não autorizou")
    colour = page.locator(".state svg").evaluate("mark => getComputedStyle(mark).stroke")
    assert colour == page.locator("h1").evaluate("title => getComputedStyle(title).color"), "neither yes nor no"


@pytest.mark.parametrize("button", [ACCEPT, DECLINE])
def test_a_phone_without_a_connection_stays_on_the_page(phone: OpenPage, session: Session, button: str) -> None:
    page = phone(public(session))
    page.context.set_offline(True)
    page.get_by_role("button", name=button).tap()
    expect(page.get_by_role("alert")).to_have_text(
        "Você está sem internet. Nada foi enviado: conecte-se e toque de novo."
    )
    expect(page.get_by_role("alert")).to_be_focused()
    page.context.set_offline(False)
    expect(page.get_by_role("alert")).to_have_text("")
    assert Session.objects.get().status == "pending"
    page.get_by_role("button", name=button).tap()
    (expect_accepted if button == ACCEPT else expect_declined)(page)
    assert Evidence.objects.exists() is (button == ACCEPT)


def test_a_double_tap_sends_once_and_the_receipt_can_be_kept(phone: OpenPage, session: Session) -> None:
    """A reload sends nothing again, nor does a way back."""
    page = phone(public(session))
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    page.get_by_role("button", name=ACCEPT).dblclick()
    expect_accepted(page)
    before = Evidence.objects.get().record
    page.reload()
    expect_accepted(page)
    page.go_back()
    expect_accepted(page)
    assert (Evidence.objects.get().record, len(posts)) == (before, 1)
    page.get_by_text("Ler os termos que você aceitou").tap()
    assert gap(page, "#terms", "#terms + .note") >= 12
    page.evaluate("() => { window.print = () => { document.title = 'impresso' } }")
    page.get_by_role("button", name="Guardar o comprovante").tap()
    expect(page).to_have_title("impresso")
    page.emulate_media(media="print")
    expect(page.get_by_role("button", name="Guardar o comprovante")).to_be_hidden()
    expect(page.get_by_text("Registro", exact=True)).to_be_visible()
    assert page.pdf()[:5] == b"%PDF-"


#: What the browser does with the question: the phone's options, a script, the page's words, and what the evidence says.
NO_PLACE = {
    "refused": ({}, "", "você pode autorizar mesmo assim", ("denied", "denied")),
    "not found": (
        {"permissions": ["geolocation"]},
        "",
        "não informou a localização",
        ("unavailable", "unavailable"),
    ),
    "never answered": (
        {},
        "navigator.geolocation.getCurrentPosition = () => {}",
        "Responda à pergunta do navegador",
        ("unavailable", "unavailable"),
    ),
    "unasked": ({"geolocation": SAO_PAULO, "permissions": ["geolocation"]}, "", "", (None, "not_shared")),
}


@pytest.mark.parametrize("case", NO_PLACE)
def test_without_a_location_the_holder_accepts_all_the_same(phone: OpenPage, session: Session, case: str) -> None:
    options, script, words, reason = NO_PLACE[case]
    page = phone(public(session), **options)
    if case == "not found":
        page.context.set_geolocation(None)
    page.evaluate(f"() => {{ {script} }}")
    if case != "unasked":
        page.get_by_role("button", name=SHARE).tap()
    expect(page.get_by_role("status")).to_contain_text(words)
    page.get_by_role("button", name=ACCEPT).tap()
    expect_accepted(page)
    assert told()["geolocation"] is None
    assert (told()["geolocation_status"], told()["geolocation_reason"]) == reason


def test_a_submission_that_breaks_off_can_be_tried_again(phone: OpenPage, session: Session) -> None:
    page = phone(public(session))
    page.evaluate("() => { window.setTimeout = (act, ms) => { window.later = { act, ms } } }")
    page.route("**/accept", lambda route: route.abort("aborted"))  # as if the holder stopped it
    page.get_by_role("button", name=ACCEPT).tap()
    expect(page.get_by_role("button", name="Registrando…")).to_be_visible()
    assert page.evaluate("later.ms") == 15_000
    page.evaluate("later.act()")
    page.unroute("**/accept")
    page.get_by_role("button", name=ACCEPT).tap()
    expect_accepted(page)
    assert Evidence.objects.count() == 1


def test_the_decision_is_two_screens_away(phone: OpenPage, longest: Session) -> None:
    """Before the fix, the unfolded terms put it behind four screens. Without a script the page is shorter."""
    page = phone(public(longest), viewport=SCREEN)
    box = page.get_by_role("button", name=DECLINE).bounding_box()
    assert box["y"] + box["height"] <= 2 * SCREEN["height"]
    page.get_by_role("link", name=JUMP).tap()
    for button in (ACCEPT, DECLINE):
        expect(page.get_by_role("button", name=button)).to_be_in_viewport(ratio=1)


def test_the_evidence_says_what_was_unfolded(phone: OpenPage, longest: Session) -> None:
    page = phone(public(longest))
    purpose = page.get_by_text("Somente para verificar")
    expect(purpose).to_be_hidden()
    for heading in ("3. Para quê", "3. Para quê", "1. Quem pede"):
        page.get_by_text(heading).tap()
    expect(purpose).to_be_hidden()
    page.reload()
    page.get_by_text("6. Seus direitos").tap()
    expect(page.get_by_text("Lei Geral de Proteção de Dados")).to_be_visible()
    page.get_by_role("button", name=ACCEPT).tap()
    expect_accepted(page)
    assert Evidence.objects.get().content["shown_by_session"]["terms_layout"] == "folded"
    assert told()["terms_unfolded"] == [3, 1, 6]


def test_no_word_is_broken(phone: OpenPage, longest: Session) -> None:
    """Before the fix, the address of the privacy contact was cut in the middle."""
    page = phone(public(longest))
    for step in ("ask", "accepted"):
        if step == "accepted":
            page.get_by_role("button", name=ACCEPT).tap()
            expect_accepted(page)
        for width, font in product((NARROWEST["width"], PHONE), ("serif", "sans-serif", "monospace")):
            page.set_viewport_size({"width": width, "height": 844})
            page.evaluate("font => { document.body.style.fontFamily = font }", font)
            assert page.evaluate(BROKEN) == [], (step, width, font)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (step, font)


def test_the_holder_shares_the_location_by_keyboard_alone(phone: OpenPage, session: Session) -> None:
    page = phone(public(session), geolocation=SAO_PAULO, permissions=["geolocation"])
    for link in (WHOLE, JUMP):
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name=link)).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name=SHARE)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Localização incluída")
    expect(page.get_by_role("status")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name=ACCEPT)).to_be_focused()
    page.keyboard.press("Enter")
    expect_accepted(page)
    assert told()["geolocation"] == {"lat": "-23.55052", "lng": "-46.633308", "accuracy": "35"}
    assert (told()["geolocation_status"], told()["geolocation_reason"]) == ("granted", None)
    device = told()["device"]
    assert device["userAgent"] == page.evaluate("navigator.userAgent")
    assert device["language"] == "pt-BR"
    assert device["screen"].startswith("360x740@")
    assert {"platform", "timezone"} <= set(device)


@pytest.mark.control("LGPD 9")
def test_the_terms_are_shown_byte_for_byte(phone: OpenPage, session: Session) -> None:
    page = phone(public(session))
    shown = page.locator("#terms").evaluate("element => element.textContent")
    assert seal.sha256(shown.encode()) == session.terms.sha256
    expect(page.get_by_text(session.name).first).to_be_visible()
    expect(page.get_by_text("***.982.247-**").first).to_be_visible()


def show_code(page: Page, gateway: Receiver, state: str) -> None:
    """Bring the code step into a state, from the one before it in `WAYS`."""
    if state == "code":
        ask(page, gateway)
        page.get_by_text(MISSED).tap()
    elif state == "wrong-code":
        answer(page, other_than(sent_code(gateway)))
        expect_wrong(page)
    elif state == "late-code":
        PhoneCode.objects.update(sent_at=timezone.now() - CODE_VALIDITY)
        page.reload()
        expect(page.get_by_text("O código expirou")).to_be_visible()


def show(page: Page, state: str) -> None:
    """Bring the page into a state, from the one before it in `WAYS`. In the end the holder revokes."""
    button = {"shared": SHARE, "refused": SHARE, "declined": DECLINE, "revoked": REVOKE}.get(state, ACCEPT)
    if state == "refused form":
        page.locator("[name=accepted]").evaluate("field => { field.value = 'no' }")
    page.context.set_offline(state == "offline")
    if state in ("shared", "refused", "offline", "accepted", "declined", "revoked", "refused form"):
        page.get_by_role("button", name=button).tap()
    if state in ("shared", "refused"):
        expect(page.get_by_role("status")).to_contain_text("Localização")
    if state == "offline":
        expect(page.get_by_role("alert")).to_contain_text("Você está sem internet")
    if state in HEADINGS:
        expect(page.get_by_role("heading", level=1)).to_have_text(HEADINGS[state])
    if state in ("accepted", "revoked"):
        page.get_by_text("Ler os termos que você aceitou").tap()
    if state == "accepted":
        expect(page.get_by_role("button", name=REVOKE)).to_be_hidden()
        page.get_by_text("Revogar esta autorização").tap()
    assert Session.objects.get().revoked_by == ("titular" if state == "revoked" else "")


CODE_WAY = "no-code code wrong-code late-code"
#: The states of the page, which follow each other in one visit.
WAYS = ("ask refused offline accepted revoked", "shared declined", "refused form", "expired", "unknown", CODE_WAY)
HEADINGS = {
    "accepted": "Autorização registrada",
    "declined": "Você não autorizou",
    "revoked": "Autorização revogada",
    "refused form": "Este envio não autorizou nada",
    "expired": "Este link expirou",
    "unknown": "Não encontramos este link",
}
#: Of each element all that decides about its contrast, but the size of its text, and whether it is shown and scrolls.
LOOKS = """() => [...document.querySelectorAll('*')].map(each => {
    const style = getComputedStyle(each);
    const shown = each.checkVisibility({visibilityProperty: true});
    return [shown, style.color, style.backgroundColor, style.opacity, style.fontWeight, style.overflow];
})"""


@pytest.mark.parametrize("way", WAYS)
def test_no_accessibility_fault(phone: OpenPage, request: pytest.FixtureRequest, way: str) -> None:
    """All rules of axe-core, on the narrowest phone; in dark those of colours. Wider screens show the same elements in
    the same colours. No element scrolls or is wider than the screen."""
    session: Session = request.getfixturevalue("coded" if way == CODE_WAY else "longest")
    place = {"geolocation": SAO_PAULO, "permissions": ["geolocation"]} if way.startswith("shared") else {}
    if way == "expired":
        Session.objects.update(expires_at=timezone.now())
    page, seen = phone(UNKNOWN if way == "unknown" else public(session), **place), set[str]()
    for state in [way] if way in HEADINGS else way.split():
        if way == CODE_WAY:
            show_code(page, request.getfixturevalue("gateway"), state)
        else:
            show(page, state)
        for is_dark in (True, False):
            page.emulate_media(color_scheme="dark" if is_dark else "light")
            assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == is_dark
            looks = []
            for width in (DESK, PHONE, NARROWEST["width"]):
                page.set_viewport_size({"width": width, "height": 844})
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                looks.append(page.evaluate(LOOKS))
            assert looks == looks[:1] * 3
            assert {overflow for *_, overflow in looks[0]} <= {"visible", "hidden", "clip"}
            assert violations(page, seen, of_colours_alone=is_dark, impacts=ANY) == [], (state, is_dark)


def gap(page: Page, above: str, below: str) -> float:
    """How many pixels are free between two elements."""
    top, bottom = (page.locator(selector).bounding_box() for selector in (above, below))
    return bottom["y"] - top["y"] - top["height"]


def test_the_preview_leaves_room_below_its_note(phone: OpenPage, admin_client: Client, session: Session) -> None:
    page = phone("/schema/?format=json")
    page.set_content(see(admin_client, page_of(session.terms, "preview")))
    assert gap(page, "p.sheet", "h1") >= 16


def test_long_names_fit_the_narrowest_screen(phone: OpenPage, transactional_db: None) -> None:
    session = open_session(PartnerFactory(name="Companhia" + "x" * 100))
    update_encrypted(Session.objects.all(), name="M" * 120)
    page = phone(public(session), viewport=NARROWEST)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROWEST["width"]
    for name in (SHARE, ACCEPT):
        box = page.get_by_role("button", name=name).bounding_box()
        assert box["height"] >= 44


# --- The code step ------------------------------------------------------------------------------------------------


def ask(page: Page, gateway: Receiver) -> str:
    """Ask for a code on the page. Returns the code that the phone shows."""
    page.get_by_role("button", name=ASK).tap()
    expect(page.get_by_label(FIELD)).to_be_visible()
    codes.send_due()
    return sent_code(gateway)


def answer(page: Page, code: str) -> None:
    page.get_by_label(FIELD).fill(code)
    page.get_by_role("button", name=ACCEPT).tap()


def expect_wrong(page: Page) -> None:
    expect(page.locator("#code-fault")).to_have_text("O código não confere. Tentativas que restam: 4.")
    expect(page.locator("#code-fault")).to_be_in_viewport()
    expect(page.get_by_label(FIELD)).to_be_in_viewport()


@pytest.mark.parametrize("script", [True, False])
def test_the_holder_confirms_by_code(phone: OpenPage, coded: Session, gateway: Receiver, script: bool) -> None:
    """The page is loaded again for the code and after a wrong one. It neither forgets the location nor folds the terms
    again, and the evidence says what was unfolded before, too."""
    page = phone(public(coded), script=script, viewport=SCREEN, geolocation=SAO_PAULO, permissions=["geolocation"])
    expect(page.get_by_role("button", name=ACCEPT)).to_have_count(0)
    page.get_by_role("link", name=WHOLE).tap()
    for body in ("pede esta autorização para si", "Autorizar é opcional."):
        expect(page.get_by_text(body)).to_be_visible()
    code = ask(page, gateway)
    expect(page.get_by_role("heading", name="Código enviado")).to_be_in_viewport()
    expect(page.get_by_role("button", name=SHARE)).to_have_count(1 if script else 0)
    if script:
        page.get_by_role("button", name=SHARE).tap()
        expect(page.get_by_text("Localização incluída")).to_be_visible()
    answer(page, other_than(code))
    expect_wrong(page)
    expect(page.get_by_text("Localização incluída")).to_have_count(1 if script else 0)
    answer(page, code)
    expect(page.get_by_role("heading", name="Autorização registrada")).to_be_visible()
    expect(page.get_by_text("por código enviado a (11) *****-4321")).to_be_visible()
    evidence = Evidence.objects.get()
    assert evidence.phone_confirmation is not None
    seen = evidence.facts["terms_layout"], evidence.facts["terms_unfolded"]
    assert seen == (("folded", [*range(1, len(coded.terms.headings) + 1)]) if script else ("open", None))
    assert (evidence.facts["geolocation"] or {}).get("accuracy") == ("35" if script else None)


def test_another_code_can_be_asked_for_after_a_while(phone: OpenPage, coded: Session, gateway: Receiver) -> None:
    page = phone(public(coded))
    ask(page, gateway)
    page.get_by_text(MISSED).tap()
    expect(page.get_by_role("button", name=AGAIN)).to_be_disabled()
    PhoneCode.objects.update(requested_at=timezone.now() - PAUSE)
    page.evaluate("ms => { const now = Date.now; Date.now = () => now() + ms }", PAUSE.seconds * 1000)
    page.get_by_role("button", name=AGAIN).tap()
    expect(page.get_by_role("heading", name="Código enviado")).to_be_in_viewport()
    page.get_by_text(MISSED).tap()
    expect(page.get_by_role("button", name=AGAIN)).to_be_disabled()
    assert PhoneCode.objects.get().number == 2
