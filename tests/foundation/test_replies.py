"""How workers and waiting requests meet, against the real Redis."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack

import msgspec
import pytest
from redis.exceptions import RedisError
from structlog.testing import capture_logs

from foundation import heartbeats, replies
from foundation.redis import redis, reserved_redis
from foundation.sealing import seal
from tests.processes import wait_until


@pytest.fixture
def request_id() -> str:
    return uuid.uuid4().hex


def claim(request: str) -> bool:
    return replies.claim(f"replies:{request}", request, 0, ttl_s=60, patience_s=20)


def test_one_copy_of_a_task_has_the_claim_and_says_so(request_id: str) -> None:
    assert [claim(request_id), claim(request_id)] == [True, False]
    assert redis().xlen(f"replies:{request_id}") == 1


def test_a_claim_whose_confirmation_was_lost_is_no_other_copys(
    request_id: str, freeze_redis: Callable[[], AbstractContextManager[None]]
) -> None:
    """Before the fix, the worker asked again and learned that the claim was taken, so nobody ran the query."""
    redis().ping()  # Redis executes commands on open connections later
    with ThreadPoolExecutor() as pool, capture_logs() as logs:
        with freeze_redis():
            waiting = pool.submit(claim, request_id)
            wait_until(lambda: {"event": "redis_away", "log_level": "warning"} in logs, 10, "the first try timed out")
        assert waiting.result()
    assert not claim(request_id)
    assert redis().xlen(f"replies:{request_id}") == 2, "the first try was not carried out"


def test_no_answer_and_no_heartbeat_waits_for_a_connection_that_others_hold(request_id: str) -> None:
    """Before the fix, an answer was lost if a worker's tasks held all connections of the pool."""
    heartbeats.worker_id()
    pool = redis().connection_pool
    held = [pool.get_connection() for _ in range(pool.max_connections)]
    try:
        replies.post(f"replies:2:{request_id}", request_id, replies.ANSWER, 7)
        name = uuid.uuid4().hex
        heartbeats.beat_once(reserved_redis(), name)
    finally:
        for each in held:
            pool.release(each)
    assert redis().xlen(f"replies:2:{request_id}") == 1
    assert redis().exists(f"worker:{name}")


def test_all_who_wait_for_the_same_get_each_message(request_id: str) -> None:
    """Before the fix, the second waiter replaced the first one, which got no message and failed at its deadline."""
    with replies.mailbox().inbox(request_id) as first:
        with replies.mailbox().inbox(request_id) as second:
            with replies.answering(first.address, request_id, 5):
                pass
            assert [second.get(5), second.get(5)] == [first.get(5), first.get(5)]
        replies.post(first.address, request_id, replies.ANSWER, 7)
        assert first.get(5) == (replies.ANSWER, b"7")


def test_a_message_that_nobody_can_read_stops_no_other(request_id: str) -> None:
    """Before the fix, such a message ended the process's reader, and every later query of that process failed."""
    with replies.mailbox().inbox(request_id) as inbox:
        told: dict[str, str | bytes] = {"request": request_id, "kind": replies.ANSWER}
        altered = told | {"payload": seal(b"7", request_id.encode())[:-1] + b"x"}
        anothers = told | {"payload": seal(b"7", uuid.uuid4().hex.encode())}
        for strange in ({"m": b"[1, 2]"}, told, told | {"payload": b"7"}, altered, anothers, {"request": b"\xff"}):
            redis().xadd(inbox.address, strange)  # type: ignore[arg-type]
        replies.post(inbox.address, request_id, replies.ANSWER, 7)
        assert inbox.get(5) == (replies.ANSWER, b"7")


def test_work_that_fails_is_told_at_once(request_id: str) -> None:
    with replies.mailbox().inbox(request_id) as inbox:
        with pytest.raises(ZeroDivisionError), replies.answering(inbox.address, request_id, 5):
            raise ZeroDivisionError
        kinds = [message[0] for message in (inbox.get(5), inbox.get(5)) if message]
    assert kinds == [replies.START, replies.LOST]


def test_messages_of_many_at_once_all_arrive_and_each_at_its_own(request_id: str) -> None:
    requests = [f"{request_id}-{number}" for number in range(40)]
    with ExitStack() as stack, ThreadPoolExecutor(40) as pool:
        inboxes = [stack.enter_context(replies.mailbox().inbox(request)) for request in requests]
        sent = [
            pool.submit(replies.post, inboxes[0].address, request, replies.ANSWER, [number, answer])
            for number, request in enumerate(requests)
            for answer in range(8)
        ]
        for each in sent:
            each.result()
        for number, inbox in enumerate(inboxes):
            got = sorted(msgspec.json.decode(message[1]) for _ in range(8) if (message := inbox.get(5)))
            assert got == [[number, answer] for answer in range(8)]


def test_a_message_is_told_to_have_failed_while_redis_is_away(
    request_id: str, freeze_redis: Callable[[], AbstractContextManager[None]]
) -> None:
    redis().ping()
    with freeze_redis(), pytest.raises(RedisError):
        replies.post(f"replies:{request_id}", request_id, replies.ANSWER, 7)
    with replies.mailbox().inbox(request_id) as inbox:
        replies.post(inbox.address, request_id, replies.ANSWER, 8, patience_s=5)
        assert inbox.get(5) == (replies.ANSWER, b"8")
