from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.providers.simulator.ipe_client import IpeClient
from tests.simulator import Simulator, running_simulator


@pytest.fixture(scope="session")
def simulator_process() -> Iterator[Simulator]:
    with running_simulator() as simulator:
        yield simulator


@pytest.fixture
def simulator(simulator_process: Simulator) -> Simulator:
    """The simulator of this test run, with nothing in its memory."""
    simulator_process.reset()
    return simulator_process


@pytest.fixture
def ipe(simulator: Simulator) -> IpeClient:
    """A client of the simulated bank ipe that has a token."""
    return IpeClient(simulator)
