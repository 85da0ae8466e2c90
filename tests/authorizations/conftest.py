# Django's models can't be imported at the top of a conftest: it may be loaded before the settings are.
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page
    from pytest_django.live_server_helper import LiveServer

    from authorizations.models import Session
    from partners.models import Partner
    from tests.authorizations.clients import HolderClient, PartnerClient

PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True, "locale": "pt-BR"}


@pytest.fixture
def partner(db: None) -> Partner:
    from tests.factories import PartnerFactory

    return PartnerFactory(name="Crédito Fácil & Cia")


@pytest.fixture
def api(partner: Partner) -> PartnerClient:
    """Calls as `partner`."""
    from tests.authorizations.clients import PartnerClient

    return PartnerClient(partner)


@pytest.fixture
def stranger(db: None) -> PartnerClient:
    """Calls as another partner."""
    from tests.authorizations.clients import PartnerClient
    from tests.factories import PartnerFactory

    return PartnerClient(PartnerFactory())


@pytest.fixture
def holder(db: None) -> HolderClient:
    """Calls as the holder's browser."""
    from tests.authorizations.clients import HolderClient

    return HolderClient()


@pytest.fixture
def session(partner: Partner) -> Session:
    """A pending session of `partner`."""
    from tests.authorizations.clients import open_session

    return open_session(partner)


@pytest.fixture
def phone(chromium: Browser, live_server: LiveServer) -> Iterator[Callable[..., Page]]:
    """Opens a path in a new browser of a phone's size. Takes Playwright's context options, and `script=False`."""
    from tests.browser import watch

    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def open_page(path: str, *, script: bool = True, **options: Any) -> Page:
        context = chromium.new_context(**{**PHONE, "java_script_enabled": script, **options})
        contexts.append(context)
        context.set_default_timeout(10_000)
        page = context.new_page()
        watch(page, live_server.url, faults)
        page.goto(live_server.url + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []
