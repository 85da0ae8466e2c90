"""The code step of the holder's page in a real Chromium, with a worker that sends to a gateway."""

from collections.abc import Callable, Iterator
from importlib import import_module

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from authorizations import codes
from authorizations.models import Evidence, PhoneCode, Session, Terms
from authorizations.phone_code import PAUSE, VALIDITY
from config.celery import app
from tests.authorizations.clients import open_session, other_than, public, sent_code
from tests.browser import ANY, violations
from tests.factories import PartnerFactory
from tests.receiver import Receiver

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

OpenPage = Callable[..., Page]
SCREEN = {"width": 390, "height": 844}
NARROWEST = {"width": 320, "height": 640}
ASK, AGAIN, ACCEPT = "Receber o código por SMS", "Receber outro código", "Li e autorizo"
MISSED, FIELD, SHARE = "Não recebeu o código?", "Código de seis dígitos", "Compartilhar localização"
SAO_PAULO = {"latitude": -23.550520, "longitude": -46.633308, "accuracy": 35}


@pytest.fixture
def nobodys_queue() -> Iterator[None]:
    """No worker of another test takes the published tasks: each test does their work itself."""
    routes = app.conf.task_routes
    app.conf.update(task_routes={"authorizations.codes.send_due": {"queue": "nobodys"}})
    app.amqp.router = app.amqp.Router()
    yield
    app.conf.update(task_routes=routes)
    app.amqp.router = app.amqp.Router()


@pytest.fixture
def session(transactional_db: None, nobodys_queue: None, gateway: Receiver) -> Session:
    Terms(version="longa", text=import_module("authorizations.migrations.0001_initial").TEXT).publish()
    return open_session(PartnerFactory(name="Crédito Fácil & Cia", sms_code=True))


def expect_fit(page: Page) -> None:
    assert violations(page, impacts=ANY) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROWEST["width"]


def ask(page: Page, gateway: Receiver) -> str:
    """Ask for a code on the page. Returns the code that the phone shows."""
    page.get_by_role("button", name=ASK).tap()
    expect(page.get_by_label(FIELD)).to_be_visible()
    codes.send_due()
    return sent_code(gateway)


def answer(page: Page, code: str, button: str = ACCEPT) -> None:
    page.get_by_label(FIELD).fill(code)
    page.get_by_role("button", name=button).tap()


def expect_wrong(page: Page) -> None:
    expect(page.locator("#code-fault")).to_have_text("O código não confere. Tentativas que restam: 4.")
    expect(page.locator("#code-fault")).to_be_in_viewport()
    expect(page.get_by_label(FIELD)).to_be_in_viewport()


@pytest.mark.parametrize("script", [True, False])
def test_the_holder_confirms_by_code(phone: OpenPage, session: Session, gateway: Receiver, script: bool) -> None:
    """The page is loaded again for the code and after a wrong one. It neither forgets the location nor folds the terms
    again, and the evidence says what was unfolded before, too."""
    page = phone(public(session), script=script, viewport=SCREEN, geolocation=SAO_PAULO, permissions=["geolocation"])
    expect(page.get_by_role("button", name=ACCEPT)).to_have_count(0)
    page.get_by_role("link", name="Ler o texto inteiro").tap()
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
    assert seen == (("folded", [*range(1, len(session.terms.headings) + 1)]) if script else ("open", None))
    assert (evidence.facts["geolocation"] or {}).get("accuracy") == ("35" if script else None)


def test_another_code_can_be_asked_for_after_a_while(phone: OpenPage, session: Session, gateway: Receiver) -> None:
    page = phone(public(session))
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


def test_the_code_step_is_accessible_and_fits(phone: OpenPage, session: Session, gateway: Receiver) -> None:
    """Before a code is asked for; where it is awaited, wrong and expired."""
    page = phone(public(session), viewport=NARROWEST)
    expect_fit(page)
    code = ask(page, gateway)
    page.get_by_text(MISSED).tap()
    expect_fit(page)
    answer(page, other_than(code))
    expect_wrong(page)
    expect_fit(page)
    PhoneCode.objects.update(sent_at=timezone.now() - VALIDITY)
    page.reload()
    expect(page.get_by_text("O código expirou")).to_be_visible()
    expect_fit(page)
