"""Readiness is public, and costs a look only now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator

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


def test_one_look_counts_for_two_seconds(transactional_db: None, client: Client, programs: Programs) -> None:
    """Before the fix, each call asked database, broker and a worker."""
    programs.kill("banks")  # another test may have left it running
    assert looks(client, 20) == 1
    health._state.good_until = time.monotonic() - 0.001
    assert looks(client, 20) == 1
    assert health._state.good_until - time.monotonic() <= health.FRESH_S == 2


def test_a_missing_worker_is_told_within_the_time_of_a_look(live_service: LiveService) -> None:
    url = f"{live_service.url}/health/ready"
    live_service.programs.kill("banks")
    wait_until(lambda: urllib3.request("GET", url, timeout=10, retries=False).status == 503, 6, "it is noticed")
