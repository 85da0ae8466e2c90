"""Web processes and Redis that go away while a query is under way."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import requests
from django.db import connection
from redis import Redis

from tests.client import Client, query_body
from tests.processes import LiveService, Simulator, answers, wait_until
from webhooks.models import Event


def test_a_repeat_soon_takes_over_from_a_web_process_that_was_killed(
    client: Client, simulator: Simulator, live_service: LiveService
) -> None:
    """It used to wait for the dead process until its own deadline: just what a partner's retry would meet."""
    simulator.bank("ipe", latency_ms=4000, operation="query")
    with ThreadPoolExecutor() as pool:
        cut_off = pool.submit(client.post, "/consultas", query_body(providers=["ipe"]))
        wait_until(lambda: simulator.calls("ipe", "query"), 10, "the bank was asked", live_service.logs)
        master = live_service.programs.pid("web")
        for child in Path(f"/proc/{master}/task/{master}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        with pytest.raises(requests.ConnectionError):
            cut_off.result(60)
    simulator.bank("ipe")
    wait_until(lambda: answers(f"{live_service.url}/health/live"), 20, "another process serves", live_service.logs)
    began = time.monotonic()
    assert len(client.query(providers=["ipe"])["proposals"]) == 2
    assert time.monotonic() - began < 15


def test_answers_that_land_while_redis_is_away_are_kept_until_it_is_back(
    client: Client, simulator: Simulator, live_service: LiveService
) -> None:
    client.query(providers=["ipe"], nome="Outra Pessoa")  # all have connected before
    simulator.bank("ipe", latency_ms=1500, operation="query")
    with ThreadPoolExecutor() as pool, Redis.from_url(os.environ["REDIS_URL"]) as redis:
        waiting = pool.submit(client.query, providers=["ipe"])
        wait_until(lambda: simulator.calls("ipe", "query"), 10, "the bank was asked", live_service.logs)
        redis.client_pause(8000)  # longer than the client's own time-out and repeat
        assert len(waiting.result(60)["proposals"]) == 2


def test_a_query_while_redis_is_frozen_ends_within_its_deadline(client: Client, live_service: LiveService) -> None:
    """Each look at a frozen Redis takes a time-out: one for every bank's answer used to add up to minutes."""
    with Redis.from_url(os.environ["REDIS_URL"]) as redis:
        redis.client_pause(28_000)
        began = time.monotonic()
        response = client.post("/consultas", query_body())
        assert (response.status_code, response.json()["code"]) == (502, "provider_unavailable")
        assert time.monotonic() - began < 30
        wait_until(redis.ping, 30, "Redis answers again")


def test_a_database_that_is_away_when_the_banks_have_answered_loses_no_answer(
    client: Client, simulator: Simulator, live_service: LiveService
) -> None:
    """It used to be a 500, with the answers of all banks gone."""
    own, name = connection.connection.info.backend_pid, connection.settings_dict["NAME"]
    simulator.bank("ipe", latency_ms=1500, operation="query")
    server = urlsplit(os.environ["DATABASE_URL"])._replace(path="/postgres").geturl()
    with ThreadPoolExecutor() as pool, psycopg.connect(server, autocommit=True) as database:
        waiting = pool.submit(client.query, providers=["ipe"])
        wait_until(lambda: simulator.calls("ipe", "query"), 10, "the bank was asked", live_service.logs)
        database.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> %s"
            database.execute(end, (name, own))
            told = len(live_service.programs.logs("web"))
            refused = "not currently accepting connections"
            wait_until(lambda: refused in live_service.programs.logs("web")[told:], 8, "the web process tries to store")
        finally:
            database.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        assert len(waiting.result(60)["proposals"]) == 2
    assert Event.objects.filter(name="lead").count() == 1
