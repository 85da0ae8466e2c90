"""How a web process has a worker do something, against the real broker."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import redis

from foundation import workers
from foundation.errors import InvalidInput
from foundation.redis import per_process
from tests.processes import Programs, wait_until

TASK = "foundation.tasks.pong"


@pytest.fixture
def broker(programs: Programs, redis_url: str) -> Iterator[redis.Redis]:
    """The broker, and no worker that takes tasks from it."""
    programs.kill("banks")
    with redis.Redis.from_url(redis_url) as server:
        server.delete("banks")
        yield server
        server.delete("banks")


@pytest.fixture
def answer(broker: redis.Redis) -> Iterator[Future[bytes | None]]:
    """The answer to the question 7."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(workers.ask, TASK, 20, 7)


def wait_for_task(broker: redis.Redis) -> tuple[str, str]:
    """The arguments of the published task: its id, and what is asked."""
    wait_until(lambda: broker.llen("banks"), 10, "the task is published")
    [message] = broker.lrange("banks", 0, -1)
    body = base64.b64decode(json.loads(message)["body"])
    work, question = json.loads(body)[0]
    return work, question


def test_the_answer_is_the_workers(broker: redis.Redis, answer: Future[bytes | None]) -> None:
    task = wait_for_task(broker)
    workers.tell(task[0], workers.START)
    workers.answer_question(*task, 0, lambda asked: {"number": asked})
    assert answer.result() == b'{"number":7}'
    assert broker.llen("banks") == 1, "published once"


def test_nothing_of_the_question_is_plain_in_the_broker(broker: redis.Redis) -> None:
    assert workers.ask(TASK, 0.3, "12345678909") is None, "without a worker there is no answer"
    _, question = wait_for_task(broker)
    sealed = base64.urlsafe_b64decode(question.removeprefix("s1."))
    assert b"12345678909" not in question.encode() + sealed


def test_a_task_is_published_once_its_answer_would_be_heard(
    broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a process whose connection to Redis is new: an answer that came before it listened was lost."""
    connect, connecting, may_connect = workers.own_connection, threading.Event(), threading.Event()

    def connect_late(*where: Any) -> redis.Connection:
        connecting.set()
        may_connect.wait(10)
        return connect(*where)

    monkeypatch.setattr(workers, "own_connection", connect_late)
    monkeypatch.setattr(workers, "_listener", per_process(workers._Listener))
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(workers.ask, TASK, 10, 7)
        assert connecting.wait(10)
        time.sleep(0.5)  # long enough for a task to be published that does not wait
        assert broker.llen("banks") == 0
        may_connect.set()
        workers.answer_question(*wait_for_task(broker), 0, lambda asked: asked)
        assert answer.result() == b"7"


def raising(error: Exception) -> Callable[[int], None]:
    def work(asked: int) -> None:
        raise error

    return work


def test_a_worker_that_breaks_gives_no_answer(broker: redis.Redis, answer: Future[bytes | None]) -> None:
    with pytest.raises(ZeroDivisionError):
        workers.answer_question(*wait_for_task(broker), 0, raising(ZeroDivisionError()))
    assert answer.result() is None


def test_a_refusal_is_raised_where_the_question_was_asked(broker: redis.Redis, answer: Future[bytes | None]) -> None:
    workers.answer_question(*wait_for_task(broker), 0, raising(InvalidInput("Não.", field="cpf")))
    with pytest.raises(InvalidInput) as refused:
        answer.result()
    assert refused.value.as_dict() == InvalidInput("Não.", field="cpf").as_dict()


def test_a_second_copy_of_the_task_answers_nothing(broker: redis.Redis, answer: Future[bytes | None]) -> None:
    task = wait_for_task(broker)
    workers.answer_question(*task, 0, raising(workers.SecondCopy()))
    workers.answer_question(*task, 0, lambda asked: asked)
    assert answer.result() == b"7"
