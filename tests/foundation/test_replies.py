"""How workers and waiting requests meet, against the real Redis."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest
from structlog.testing import capture_logs

from foundation import replies
from foundation.redis import redis
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
    """Asked again it was told that somebody has it: nobody ran the query then."""
    redis().ping()  # what is sent on an open connection is carried out later
    with ThreadPoolExecutor() as pool, capture_logs() as logs:
        with freeze_redis():
            waiting = pool.submit(claim, request_id)
            wait_until(lambda: {"event": "redis_away", "log_level": "warning"} in logs, 10, "the first try timed out")
        assert waiting.result()
    assert not claim(request_id)
    assert redis().xlen(f"replies:{request_id}") == 2, "the first try was not carried out"


def test_all_who_wait_for_the_same_get_each_message(request_id: str) -> None:
    """The second to come took the first one's place: that one waited in vain, and broke at its end."""
    with replies.mailbox().inbox(request_id) as first:
        with replies.mailbox().inbox(request_id) as second:
            with replies.answering(first.address, request_id, 5):
                pass
            assert [second.get(5), second.get(5)] == [first.get(5), first.get(5)]
        replies.post(first.address, request_id, replies.ANSWER, 7)
        assert first.get(5) == (replies.ANSWER, b"7")


def test_a_message_that_nobody_can_read_stops_no_other(request_id: str) -> None:
    """It ended the process's reader, and with it every later query of that process."""
    with replies.mailbox().inbox(request_id) as inbox:
        for strange in ({"m": b"[1, 2]"}, {"m": b"\xff"}, {"other": b""}):
            redis().xadd(inbox.address, strange)  # type: ignore[arg-type]
        replies.post(inbox.address, request_id, replies.ANSWER, 7)
        assert inbox.get(5) == (replies.ANSWER, b"7")


def test_work_that_fails_is_told_at_once(request_id: str) -> None:
    with replies.mailbox().inbox(request_id) as inbox:
        with pytest.raises(ZeroDivisionError), replies.answering(inbox.address, request_id, 5):
            raise ZeroDivisionError
        kinds = [message[0] for message in (inbox.get(5), inbox.get(5)) if message]
    assert kinds == [replies.START, replies.LOST]
