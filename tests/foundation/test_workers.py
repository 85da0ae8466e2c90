"""How workers and waiting requests meet: what is told through Redis, and what a web process asks by the broker."""

import base64
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import msgspec
import pytest
from redis import Connection, Redis
from redis.exceptions import RedisError

from foundation import later, workers
from foundation.encryption import seal
from foundation.errors import InvalidInput
from foundation.redis import per_process, redis
from foundation.workers import Inbox
from tests.processes import Outage, Programs, wait_until

TASK = "foundation.tasks.pong"


@pytest.fixture
def work(redis_url: str) -> str:
    return uuid.uuid4().hex


def news(inbox: Inbox) -> tuple[str, bytes] | None:
    """The next message that is not READY."""
    message = inbox.next(5)
    return news(inbox) if message and message[0] == workers.READY else message


def test_a_result_is_told_and_kept_for_whoever_comes_late(work: str) -> None:
    with workers.listen(work, results=True) as inbox:
        assert inbox.next(5) == (workers.READY, b"")
        workers.keep(work, [7], 0)
        assert news(inbox) == (workers.ANSWER, b"[7]")
        assert workers.kept(work) == [b"[7]"]
        workers.tell_end(work, [8], 0)
        assert news(inbox) == (workers.END, b"[8]")
    assert workers.kept(work) == []
    assert not redis().pubsub_channels(f"*{work}"), "nobody listens any more"


def test_who_listens_late_is_told_what_was_kept(work: str) -> None:
    workers.keep(work, ["12345678909"], 0)
    assert b"12345678909" not in redis().lrange(f"kept:{work}", 0, -1)[0], "nothing of it is plain in Redis"
    with closing(workers.hear(work, time.monotonic() + 5, results=True)) as heard:
        assert (next(heard), next(heard)) == ((workers.READY, b""), (workers.ANSWER, b'["12345678909"]'))
    with workers.listen(work) as inbox:
        assert inbox.next(5) == (workers.READY, b"")
        workers.tell(work, workers.END)
        assert inbox.next(5) == (workers.END, b"null")


def test_whoever_waits_for_the_end_hears_no_results(work: str) -> None:
    with workers.listen(work) as inbox:
        assert inbox.next(5) == (workers.READY, b"")
        workers.keep(work, [7], 0)
        workers.tell_end(work, None, 0)
        assert news(inbox) == (workers.END, b"null")


def test_no_message_and_no_heartbeat_waits_for_a_connection_that_others_hold(work: str) -> None:
    """Before the fix, an answer was lost if a worker's tasks held all connections of the pool."""
    later.worker_id()
    pool = redis().connection_pool
    held = [pool.get_connection() for _ in range(pool.max_connections)]
    name = uuid.uuid4().hex
    try:
        with workers.listen(work, results=True) as inbox:
            workers.tell(work, workers.END, 7)
            assert news(inbox) == (workers.END, b"7")
        later.beat_once(name)
    finally:
        for each in held:
            pool.release(each)
    assert redis().exists(f"worker:{name}")


def test_all_who_wait_for_the_same_get_each_message(work: str) -> None:
    """Before the fixes, the second replaced the first one, or made it look at the database as if it had missed one."""
    with workers.listen(work, results=True) as first:
        assert first.next(5) == (workers.READY, b"")
        with workers.listen(work, results=True) as second:
            workers.tell(work, workers.START)
            assert news(second) == first.next(5) == (workers.START, b"null")
        workers.tell(work, workers.END, 7)
        assert news(first) == (workers.END, b"7")


def test_a_message_that_nobody_can_read_stops_no_other(work: str) -> None:
    """Before the fix, such a message ended the process's reader, and every later query of that process failed."""
    with workers.listen(work, results=True) as inbox:
        sealed = seal(b"end 7", work.encode())
        for strange in (b"", b"\xff", sealed[:-1] + b"x", seal(b"end 7", uuid.uuid4().hex.encode())):
            redis().publish(f"work:{work}", strange)
        workers.tell(work, workers.END, 7)
        assert news(inbox) == (workers.END, b"7")


def test_messages_of_many_at_once_all_arrive_and_each_at_its_own(work: str) -> None:
    works = [f"{work}-{number}" for number in range(40)]
    with ExitStack() as stack, ThreadPoolExecutor(40) as pool:
        inboxes = [stack.enter_context(workers.listen(each)) for each in works]
        sent = [
            pool.submit(workers.tell, each, workers.ANSWER, [number, answer])
            for number, each in enumerate(works)
            for answer in range(8)
        ]
        for each in sent:
            each.result()
        for number, inbox in enumerate(inboxes):
            got = sorted(msgspec.json.decode(message[1]) for _ in range(8) if (message := news(inbox)))
            assert got == [[number, answer] for answer in range(8)]


def test_a_message_is_told_to_have_failed_while_redis_is_away(work: str, freeze_redis: Outage) -> None:
    redis().ping()
    with freeze_redis(), pytest.raises(RedisError):
        workers.tell(f"{work}-before", workers.ANSWER, 7)  # Redis may read and publish it once it goes on
    with workers.listen(work, results=True) as inbox:
        workers.tell(work, workers.ANSWER, 8, patience_s=5)
        assert news(inbox) == (workers.ANSWER, b"8")


def test_whoever_lost_the_connection_is_told_to_look_and_hears_on(work: str) -> None:
    with workers.listen(work, results=True) as inbox:
        assert inbox.next(5) == (workers.READY, b"")
        for client in redis().client_list("pubsub"):
            redis().client_kill_filter(_id=client["id"])
        assert inbox.next(10) == (workers.READY, b"")
        workers.tell(work, workers.END, 7)
        assert news(inbox) == (workers.END, b"7")


# --- What is asked ------------------------------------------------------------------------------------------------


@pytest.fixture
def broker(programs: Programs, redis_url: str) -> Iterator[Redis]:
    """The broker, and no worker that takes tasks from it."""
    programs.kill("banks")
    with Redis.from_url(redis_url) as server:
        server.delete("banks")
        yield server
        server.delete("banks")


@pytest.fixture
def answer(broker: Redis) -> Iterator[Future[bytes | None]]:
    """The answer to the question 7."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(workers.ask, TASK, 20, 7)


def wait_for_task(broker: Redis) -> tuple[str, str]:
    """The arguments of the published task: its id, and what is asked."""
    wait_until(lambda: broker.llen("banks"), 10, "the task is published")
    [message] = broker.lrange("banks", 0, -1)
    body = base64.b64decode(json.loads(message)["body"])
    work, question = json.loads(body)[0]
    return work, question


def test_the_answer_is_the_workers(broker: Redis, answer: Future[bytes | None]) -> None:
    task = wait_for_task(broker)
    workers.tell(task[0], workers.START)
    workers.answer_question(*task, 0, lambda asked: {"number": asked})
    assert answer.result() == b'{"number":7}'
    assert broker.llen("banks") == 1, "published once"


def test_nothing_of_the_question_is_plain_in_the_broker(broker: Redis) -> None:
    assert workers.ask(TASK, 0.3, "12345678909") is None, "without a worker there is no answer"
    _, question = wait_for_task(broker)
    sealed = base64.urlsafe_b64decode(question.removeprefix("s1."))
    assert b"12345678909" not in question.encode() + sealed


def test_a_task_is_published_once_its_answer_would_be_heard(broker: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process whose connection to Redis is new: an answer that came before it listened was lost."""
    connect, connecting, may_connect = workers.own_connection, threading.Event(), threading.Event()

    def connect_late(*where: Any) -> Connection:
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


def test_a_worker_that_breaks_gives_no_answer(broker: Redis, answer: Future[bytes | None]) -> None:
    with pytest.raises(ZeroDivisionError):
        workers.answer_question(*wait_for_task(broker), 0, raising(ZeroDivisionError()))
    assert answer.result() is None


def test_a_refusal_is_raised_where_the_question_was_asked(broker: Redis, answer: Future[bytes | None]) -> None:
    workers.answer_question(*wait_for_task(broker), 0, raising(InvalidInput("Não.", field="cpf")))
    with pytest.raises(InvalidInput) as refused:
        answer.result()
    assert refused.value.as_dict() == InvalidInput("Não.", field="cpf").as_dict()


def test_a_second_copy_of_the_task_answers_nothing(broker: Redis, answer: Future[bytes | None]) -> None:
    task = wait_for_task(broker)
    workers.answer_question(*task, 0, raising(workers.SecondCopy()))
    workers.answer_question(*task, 0, lambda asked: asked)
    assert answer.result() == b"7"
