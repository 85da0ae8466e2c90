"""Fixtures over the whole service as processes."""

# No import of Django at the top: pytest loads this file before the settings if a test below it is named.
from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.client import Client
from tests.processes import LiveService

if TYPE_CHECKING:
    from partners.models import Partner


@pytest.fixture
def partner(live_service: LiveService) -> Partner:
    """The sandbox's partner."""
    from partners.models import Partner

    return Partner.objects.get(name="Parceiro Sandbox")


@pytest.fixture
def client(live_service: LiveService) -> Client:
    """The sandbox's partner, over HTTP."""
    from partners.models import SANDBOX_KEY

    return Client(live_service.url, SANDBOX_KEY)


@pytest.fixture
def stranger(live_service: LiveService) -> Client:
    """Another partner, with two of the same banks."""
    from tests.factories import PartnerFactory, issue_key

    return Client(live_service.url, issue_key(PartnerFactory(providers=["ipe", "jatoba"]))[1])
