"""Readiness is public, and checks database, broker and worker at most every two seconds."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import urllib3
from django.db import Error, InterfaceError, OperationalError, connection
from django.test.utils import CaptureQueriesContext

from config import health
from foundation.redis import Sender
from tests.processes import LiveService, Programs, wait_until


@pytest.fixture(autouse=True)
def _no_look_yet() -> Iterator[None]:
    health._state.good_until = 0.0
    yield
    health._state.good_until = 0.0


def told(path: str, **changes: str) -> tuple[int, dict[str, str], bytes]:
    """The status, headers and body of the answer to a check."""
    heads: list[Any] = []
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, **changes}
    [body] = health.answer(environ, lambda *head: heads.append(head)) or []
    [(status, headers)] = heads
    return int(status[:3]), dict(headers), body


def looks(times: int) -> int:
    """How often the database was asked while readiness was asked `times` times."""
    with CaptureQueriesContext(connection) as queries:
        assert {told("/health/ready")[0] for _ in range(times)} == {503}, "no worker runs"
    return sum(each["sql"] == "SELECT 1" for each in queries)


def test_one_check_counts_for_two_seconds(transactional_db: None, programs: Programs) -> None:
    """Before the fix, each call asked database, broker and a worker."""
    programs.kill("banks")  # another test may have left it running
    assert looks(20) == 1
    health._state.good_until = time.monotonic() - 0.001
    assert looks(20) == 1
    assert health._state.good_until - time.monotonic() <= health.FRESH_S == 2


@pytest.mark.parametrize("fault", [OperationalError, InterfaceError])
def test_a_database_that_fails_in_whatever_way_is_down(monkeypatch: pytest.MonkeyPatch, fault: type[Error]) -> None:
    monkeypatch.setattr(health, "connection", Mock(cursor=Mock(side_effect=fault)))
    assert health._database() is False


def test_the_broker_is_asked_where_it_stands(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    """Before the fix, a broker with a server of its own counted as up while the other Redis answered."""
    assert health._broker()
    monkeypatch.setattr(health, "to_broker", lambda: Sender("redis://127.0.0.1:1/0"))
    assert not health._broker()


READINESS = {"status": "unavailable", "parts": {"database": "ok", "broker": "down"}}


@pytest.mark.parametrize(
    ("path", "status", "report"), [("/health/live", 200, {"status": "ok"}), ("/health/ready", 503, READINESS)]
)
def test_checks_bypass_django(path: str, status: int, report: dict[str, Any]) -> None:
    """Before the fix, with twenty clients that asked for readiness without a pause, `GET /banks` took 303 instead of 9
    ms."""
    health._state.parts, health._state.good_until = {"database": True, "broker": False}, time.monotonic() + 60
    body = json.dumps(report).encode()
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "X-Request-Id": "ours-12345678",
        "X-Content-Type-Options": "nosniff",
    }
    sent = {"HTTP_X_REQUEST_ID": "ours-12345678", "HTTP_HOST": "elsewhere.example"}
    assert told(path, **sent) == (status, headers, body)
    assert told(path, **sent, REQUEST_METHOD="HEAD") == (status, headers, b"")


@pytest.mark.parametrize(
    "change",
    [{"REQUEST_METHOD": "POST"}, {"PATH_INFO": "/partners/v1/banks"}, {"CONTENT_LENGTH": "1"}],
)
def test_all_other_paths_go_to_django(change: dict[str, str]) -> None:
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/health/live"}
    assert health.answer({**environ, **change}, lambda *_: pytest.fail("it was answered")) is None


def test_a_missing_worker_is_reported_within_the_time_of_a_check(live_service: LiveService) -> None:
    url = f"{live_service.url}/health/ready"
    live_service.programs.kill("banks")
    wait_until(lambda: urllib3.request("GET", url, timeout=10, retries=False).status == 503, 6, "it is noticed")


def test_the_web_answers_only_on_this_machine(live_service: LiveService) -> None:
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if line.split()[3] == "0A"]
    port = urllib3.util.parse_url(live_service.url).port
    assert {host for host, _, at in (each.partition(":") for each in listening) if int(at, 16) == port} == {"0100007F"}
