"""Refuses what tests in this folder may not use. They need only the virtual environment: no server is started."""

import socket
from collections.abc import Iterator
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pytest
import structlog
from django.conf import settings

from foundation.redis import redis


@pytest.fixture(scope="session")
def django_db_setup() -> NoReturn:
    """Refuse the fixtures that lead to the database, the service's programs or the simulator."""
    pytest.fail("a test in tests/unit asks for the database or for a program: it belongs into another folder")


@pytest.fixture(autouse=True)
def _no_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections to Redis, which tests of other folders may have started in the same run."""
    address = urlsplit(settings.REDIS_URL)
    connect = socket.socket.connect

    def refuse_redis(self: socket.socket, target: Any) -> None:
        if isinstance(target, tuple) and target[:2] == (address.hostname, address.port):
            raise ConnectionRefusedError("a test in tests/unit asks for Redis: it belongs into another folder")
        connect(self, target)

    monkeypatch.setattr(socket.socket, "connect", refuse_redis)
    redis().connection_pool.disconnect()  # connections that an earlier test left open would still work


@pytest.fixture(autouse=True)
def _logs_stay() -> Iterator[None]:
    """A logger keeps the processors of its first line: `capture_logs` of a later test would not reach it if they were
    replaced. Before the fix, three tests failed in a process that had run `test_logs.py`."""
    processors = structlog.get_config()["processors"]
    yield
    assert structlog.get_config()["processors"] is processors
