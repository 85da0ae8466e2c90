from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import CONTROL_TOKEN
from tests.processes import Simulator
from tests.simulator.dialect import Caller
from tests.simulator.http import HttpSimulator
from tests.simulator.ipe_client import IpeClient


@pytest.fixture
def simulator(simulator: Simulator) -> Iterator[HttpSimulator]:
    """The simulator of this test run, with nothing in its memory."""
    found = HttpSimulator(simulator.url, CONTROL_TOKEN)
    found.reset()
    yield found
    found.close()


@pytest.fixture
def ipe(simulator: HttpSimulator) -> IpeClient:
    """A client of the simulated bank ipe that has a token."""
    return IpeClient(simulator)


@pytest.fixture
def bank(simulator: HttpSimulator, request: pytest.FixtureRequest) -> Caller:
    """A caller of the simulated bank whose `DIALECT` the test's module has."""
    return Caller(simulator, request.module.DIALECT)
