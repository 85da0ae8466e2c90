"""One connected bank at a time, of all banks in the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from providers import registry
from providers.types.answer import BankOffer
from providers.types.proposal import BankProposal
from tests.providers.conftest import Connect
from tests.providers.samples import a_query, a_submission

if TYPE_CHECKING:
    from providers.operation import BankClient  # needs the settings, which this file is loaded before


@pytest.fixture(params=registry.names())
def name(request: pytest.FixtureRequest) -> str:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def bank(connect: Connect, name: str) -> BankClient:
    return connect(name)


@pytest.fixture
def offer(bank: BankClient) -> BankOffer:
    return bank.query(a_query()).offers[0]


@pytest.fixture
def submitted(bank: BankClient, offer: BankOffer) -> BankProposal:
    return bank.submit(a_submission(offer))
