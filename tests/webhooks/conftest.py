from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.processes import Programs
from tests.receiver import Receiver

if TYPE_CHECKING:  # pytest loads this file before the settings
    from partners.models import Partner


@pytest.fixture(autouse=True)
def _no_other_deliverer(programs: Programs) -> None:
    """Tests elsewhere may have left the webhooks worker running: it would take these tests' events."""
    programs.kill("webhooks")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A partner's endpoint that confirms everything until it is told otherwise."""
    with Receiver() as running:
        yield running


@pytest.fixture
def partner(db: None, receiver: Receiver) -> Partner:
    """A partner with that endpoint, a secret, and every event asked for."""
    from tests.webhooks.deliveries import new_partner

    return new_partner(receiver.url)
