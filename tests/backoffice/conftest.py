# Django's models can't be imported at the top of a conftest: it may be loaded before the settings are.
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from playwright.sync_api import Browser, BrowserContext, Page
    from pytest_django.live_server_helper import LiveServer

    from tests.backoffice.story import Story

OpenPage = Callable[..., "Page"]


@pytest.fixture
def story(transactional_db: None) -> Story:
    """A partner with a query, an offer, a proposal, events, a session with evidence, and a failed call."""
    from tests.backoffice.story import tell

    return tell()


@pytest.fixture(scope="session")
def browser(chromium_path: str, django_db_setup: None) -> Iterator[Browser]:
    """Playwright keeps an event loop in this thread while it runs, in which Django would refuse the database."""
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=chromium_path, args=[*quiet, "--disable-sync"])
        yield browser
        browser.close()


@pytest.fixture
def desk(browser: Browser, live_server: LiveServer, transactional_db: None) -> Iterator[OpenPage]:
    """Opens the back office in a browser where `user` (a new superuser) is logged in. A violation of the page's policy,
    a fault of a script and a request elsewhere are failures. Takes Playwright's context options."""
    from django.contrib.auth.models import User
    from django.test import Client

    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def watch_request(request: Any) -> None:
        if not request.url.startswith((live_server.url, "data:")):
            faults.append(f"foreign request: {request.url}")

    def watch_console(message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            faults.append(f"console: {message.text}")

    def open_page(path: str = "/admin/", *, user: User | None = None, **options: Any) -> Page:
        operator = user or User.objects.filter(username="operadora").first()
        client = Client()
        client.force_login(operator or User.objects.create_superuser("operadora"))
        size = {"width": 1400, "height": 900}
        context = browser.new_context(**{"viewport": size, "locale": "pt-BR", **options})
        contexts.append(context)
        context.set_default_timeout(10_000)
        context.add_cookies([{"name": name, "value": c.value, "url": live_server.url} for name, c in client.cookies.items()])
        page = context.new_page()
        page.on("request", watch_request)
        page.on("console", watch_console)
        page.on("pageerror", lambda error: faults.append(f"script: {error}"))
        page.goto(live_server.url + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []
