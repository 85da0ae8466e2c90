# Django's models can't be imported at the top of a conftest: it may be loaded before the settings are.
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from authorizations.models import Session
    from partners.models import Partner
    from tests.authorizations.clients import HolderClient, PartnerClient
    from tests.receiver import Receiver


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
def accepted(session: Session, holder: HolderClient) -> Session:
    """`session`, which the holder has accepted."""
    assert holder.accept(session).status_code == 200
    session.refresh_from_db()
    return session


@pytest.fixture
def gateway(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """The text-message gateway. Where no worker runs, each test does its work itself."""
    from authorizations import texting
    from tests.receiver import Receiver, Reply

    monkeypatch.setattr(texting, "PAUSES_S", (0.0, 0.0))
    with Receiver(Reply(202)) as receiver:
        settings.SMS_GATEWAY_URL, settings.SMS_GATEWAY_TOKEN = receiver.url, "gateway-token"
        yield receiver
