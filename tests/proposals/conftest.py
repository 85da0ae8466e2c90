from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client as DjangoClient

from tests.consultas.conftest import client, partner, stranger

if TYPE_CHECKING:
    from partners.models import Partner

__all__ = ["client", "partner", "stranger"]


@pytest.fixture
def http(partner: Partner) -> DjangoClient:
    """The partner's requests, served in this process."""
    from tests.factories import issue_key  # needs the settings

    return DjangoClient(headers={"X-Partner-Api-Key": issue_key(partner)[1]})
