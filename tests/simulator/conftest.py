import pytest

from tests.processes import Simulator
from tests.providers.conftest import simulator
from tests.simulator.dialect import Caller
from tests.simulator.test_ipe import IpeClient

__all__ = ["simulator"]


@pytest.fixture
def ipe(simulator: Simulator) -> IpeClient:
    """A client of the simulated bank ipe that has a token."""
    return IpeClient(simulator)


@pytest.fixture
def bank(simulator: Simulator, request: pytest.FixtureRequest) -> Caller:
    """A caller of the simulated bank whose `DIALECT` the test's module has."""
    return Caller(simulator, request.module.DIALECT)
