# Django's models can't be imported at the top of a conftest: it may be loaded before the settings are.
from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from authorizations.models import Session
    from partners.models import Partner
    from tests.authorizations.clients import HolderClient, PartnerClient


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
