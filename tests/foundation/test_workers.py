"""How a web process has a worker do something, against the real broker."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import redis

from foundation import channels, workers
from foundation.redis import per_process
from tests.processes import Programs, wait_until

TASK = "foundation.tasks.pong"


@pytest.fixture
def broker(sandbox: None, programs: Programs, redis_url: str) -> Iterator[redis.Redis]:
    """The broker, and no worker that takes tasks from it."""
    programs.kill("banks")
    with redis.Redis.from_url(redis_url) as server:
        yield server
        server.delete("banks")


@pytest.fixture
def request_id() -> str:
    return uuid.uuid4().hex


def wait_for_task(broker: redis.Redis) -> None:
    wait_until(lambda: broker.llen("banks"), 10, "the task is published")


def asked(pool: ThreadPoolExecutor, request_id: str, seconds: float = 20) -> Future[bytes | None]:
    return pool.submit(workers.ask, TASK, request_id, seconds)


def test_the_answer_is_the_workers(broker: redis.Redis, request_id: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = asked(pool, request_id)
        wait_for_task(broker)
        channels.tell(request_id, channels.START)
        channels.tell(request_id, channels.END, {"number": 7})
        assert answer.result() == b'{"number":7}'
    assert broker.llen("banks") == 1, "published once"


def test_a_task_is_published_once_its_answer_would_be_heard(
    broker: redis.Redis, request_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a process whose connection to Redis is new: an answer that came before it listened was lost."""
    connect, connecting, may_connect = channels._Listener._connect, threading.Event(), threading.Event()

    def connect_late(listener: channels._Listener) -> redis.Connection:
        connecting.set()
        may_connect.wait(10)
        return connect(listener)

    monkeypatch.setattr(channels._Listener, "_connect", connect_late)
    monkeypatch.setattr(channels, "_listener", per_process(channels._Listener))
    with ThreadPoolExecutor(1) as pool:
        answer = asked(pool, request_id, 10)
        assert connecting.wait(10)
        time.sleep(0.5)  # long enough for a task to be published that does not wait
        assert broker.llen("banks") == 0
        may_connect.set()
        wait_for_task(broker)
        channels.tell(request_id, channels.END, {"number": 7})
        assert answer.result() == b'{"number":7}'


def test_a_worker_that_breaks_gives_no_answer(broker: redis.Redis, request_id: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = asked(pool, request_id)
        wait_for_task(broker)
        channels.tell(request_id, channels.FAILED)
        assert answer.result() is None


def test_without_a_worker_there_is_no_answer(broker: redis.Redis, request_id: str) -> None:
    assert workers.ask(TASK, request_id, 0.3) is None
