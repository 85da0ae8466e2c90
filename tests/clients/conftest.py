"""The built clients."""

import fcntl
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from clients import build as clients


@pytest.fixture(scope="session")
def packages() -> Path:
    """The folder that the service serves, up to date."""
    lock = clients.ROOT / "var" / "clients.lock"
    with lock.open("w") as held:  # another worker of this test run may build them
        fcntl.flock(held, fcntl.LOCK_EX)
        clients.build()
    return clients.DEFAULT_FOLDER


@pytest.fixture(scope="session")
def wheel(packages: Path) -> Path:
    [found] = packages.glob("origination-*.whl")
    return found


@pytest.fixture(scope="session")
def origination(wheel: Path) -> Iterator[ModuleType]:
    """The package, imported from the wheel."""
    sys.path.insert(0, str(wheel))
    import origination

    yield origination
    sys.path.remove(str(wheel))
