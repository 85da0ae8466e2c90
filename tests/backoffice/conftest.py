# Django's models can't be imported at the top of a conftest: it may be loaded before the settings are.
from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.backoffice.story import Story


@pytest.fixture
def story(db: None) -> Story:
    """A partner with a query, an offer, a proposal, events, and a session with evidence."""
    from tests.backoffice.story import tell

    return tell()
