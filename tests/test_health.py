"""Readiness is public, and checks database, broker and worker at most every two seconds."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from config import health
from tests.processes import LiveService, Programs, wait_until


@pytest.fixture(autouse=True)
def _no_look_yet() -> Iterator[None]:
    health._state.good_until = 0.0
    yield
    health._state.good_until = 0.0


def looks(client: Client, times: int) -> int:
    """How often the database was asked while readiness was asked `times` times."""
    with CaptureQueriesContext(connection) as queries:
        told = {client.get("/health/ready").status_code for _ in range(times)}
    assert told == {503}, "no worker runs"
    return sum(each["sql"] == "SELECT 1" for each in queries)


def test_one_check_counts_for_two_seconds(transactional_db: None, client: Client, programs: Programs) -> None:
    """Before the fix, each call asked database, broker and a worker."""
    programs.kill("banks")  # another test may have left it running
    assert looks(client, 20) == 1
    health._state.good_until = time.monotonic() - 0.001
    assert looks(client, 20) == 1
    assert health._state.good_until - time.monotonic() <= health.FRESH_S == 2


@pytest.mark.parametrize("path", ["/health/live", "/health/ready"])
def test_readiness_bypasses_django_and_answers_the_same(client: Client, db: None, path: str) -> None:
    """Before the fix, with twenty clients that asked for readiness without a pause, `GET /banks` took 303 instead of 9
    ms."""
    health._state.parts, health._state.good_until = {"database": True, "broker": False}, time.monotonic() + 60
    by_django = client.get(path)
    told: list[Any] = []
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "HTTP_X_REQUEST_ID": "ours-12345678"}
    [body] = health.answer(environ, lambda *heads: told.append(heads)) or []
    [(status, headers)] = told
    assert (int(status[:3]), body) == (by_django.status_code, json.dumps(by_django.json()).encode())
    assert {"X-Request-Id": "ours-12345678", "Content-Length": str(len(body))}.items() <= dict(headers).items()
    assert health.answer({**environ, "REQUEST_METHOD": "HEAD"}, lambda *heads: told.append(heads)) == [b""]
    assert told[1] == told[0]


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
