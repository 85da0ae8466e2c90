from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.consultas.conftest import client, stranger

if TYPE_CHECKING:
    from partners.models import Partner

__all__ = ["client", "stranger"]


@pytest.fixture
def partner(db: None) -> Partner:
    """A partner with every bank, and the events of proposals' statuses."""
    from providers import registry
    from tests.factories import PartnerFactory  # needs the settings

    return PartnerFactory(providers=registry.names(), webhook_events=["proposal"])
