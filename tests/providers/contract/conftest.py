"""One connected bank at a time, of all banks in the registry. Those that stand behind a front in the sandbox, and one
with tokens, demand a client certificate and are reached through a proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from providers import registry
from providers.types.proposal import BankProposal, ProposalStatus
from providers.types.query import BankOffer
from providers.words import data_of
from tests.front import connection_to
from tests.processes import Simulator
from tests.providers.conftest import Connect, at
from tests.providers.samples import FULL_FLOW, a_submission

if TYPE_CHECKING:
    from providers.operation import BankClient  # needs the settings, which this file is loaded before

FRONTED = {registry.names()[0], *(name for name in registry.names() if data_of(name).sandbox.get("has_front"))}


@pytest.fixture
def connect(connect: Connect) -> Connect:
    """A bank, connected to its simulated bank for `seconds` seconds from now."""

    def connected(name: str, **options: Any) -> BankClient:
        if name not in FRONTED:
            return connect(name, **options)
        way = connection_to(name)
        return at(name, way.pop("base_url"), **{**way, **options})

    return connected


@pytest.fixture(params=registry.names())
def name(request: pytest.FixtureRequest) -> str:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def bank(connect: Connect, name: str) -> BankClient:
    return connect(name)


@pytest.fixture
def submitted(bank: BankClient, offer: BankOffer) -> BankProposal:
    return bank.submit(a_submission(offer))


@pytest.fixture
def approved(bank: BankClient, submitted: BankProposal, simulator: Simulator) -> BankProposal:
    """The submitted proposal after the bank's desk, if it has one, let it pass."""
    if submitted.status is ProposalStatus.IN_ANALYSIS:
        simulator.complete(FULL_FLOW, bank.name, "desk")
    return submitted
