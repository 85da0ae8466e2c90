"""Lets a web process have work done by a worker: it publishes a task, once, and waits for what the worker tells.

What the worker needs to know and its answer are encrypted, because nothing of a holder may pass through the broker.
"""

import math
import time
import uuid
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec
import structlog
from celery import current_app
from django.db import connection
from kombu.exceptions import LimitExceeded
from kombu.exceptions import OperationalError as BrokerError
from kombu.pools import ProducerPool
from redis.exceptions import RedisError

from foundation import channels
from foundation.database import give_back_connection
from foundation.encryption import decrypt, encrypt, place
from foundation.errors import ApiError, error_from_dict
from foundation.redis import TIMEOUT_S, redis

log = structlog.get_logger(__name__)

#: A Celery task, and its arguments: ids, and what is encrypted.
Task = tuple[str, tuple[str, ...]]

#: A task that no worker has begun after this many seconds may be published again: the broker may have lost it.
UNSTARTED_S = 5.0
_RETRY_S = 0.25
#: How long a call tries to publish its task while the broker is unreachable, in seconds. A restart takes about one.
BROKER_PATIENCE_S = 5.0
#: How many tasks one process can publish at once. Only a hanging broker needs that many.
PRODUCERS = 128


def ask(task: str, seconds: float, *content: Any) -> bytes | None:
    """Have a worker run `task`, which calls `answer_question`, with `content`: anything that msgspec encodes. Wait at
    most `seconds` for its end. Returns the answer as JSON, and None if the time is over, the broker is unreachable, or
    the worker gave up. Raises the ApiError that ended the work."""
    work = uuid.uuid4().hex
    question = encrypt(msgspec.json.encode(content).decode(), place("question", work))
    for message in hear(work, time.monotonic() + seconds, task=(task, (work, question))):
        match message:
            case (channels.END, payload):
                return payload
            case (channels.FAILED, b"null"):
                return None
            case (channels.FAILED, payload):
                raise error_from_dict(msgspec.json.decode(payload))
    return None


class SecondCopy(Exception):
    """Another copy of the same task does the work, and answers."""


def answer_question(work: str, question: str, patience_s: float, do: Callable[..., Any]) -> None:
    """For the task that `ask` published: `answer` what `do` returns for the content of `question`."""
    answer(work, patience_s, lambda: do(*msgspec.json.decode(decrypt(question, place("question", work)))))


def answer(work: str, patience_s: float, do: Callable[[], Any]) -> None:
    """From a worker: `do` the work, then tell END with what it returned: anything that msgspec encodes, or None if the
    answer is in the database. Tells FAILED if it raises an exception, with the error if that is an ApiError; others go
    on. Tells nothing if it raises SecondCopy.

    The work needs no Redis. Gives back the database connection. Raises RedisError if the end could not be told for
    `patience_s` seconds.
    """
    kind, content = channels.FAILED, None
    try:
        content = do()
        kind = channels.END
    except SecondCopy:
        kind = ""
    except ApiError as error:
        log.info("work_refused", code=error.code)
        content = error.as_dict()
    finally:
        give_back_connection()
        if kind:
            channels.tell(work, kind, content, patience_s)


def hear(
    work: str, until: float, pause_s: float = math.inf, *, results: bool = False, task: Task | None = None
) -> Iterator[tuple[str, bytes] | None]:
    """What is told about `work` until `until` (monotonic seconds), with `results` also the kept results, and None after
    each `pause_s` seconds without a message. With `task`, which must tolerate two copies, a worker is first told to run
    it; nothing comes if the broker is unreachable.

    Gives back the caller's database connection first, so that none is held while waiting.
    """
    connection.close()
    with channels.listen(work, results=results) as inbox:
        if task is not None:
            patience_ends = min(until, time.monotonic() + BROKER_PATIENCE_S)
            # READY comes first: what a fast worker told before it would not be heard.
            inbox.first(patience_ends - time.monotonic())
            now = time.monotonic()
            if not publish(*task, expires_s=until - now, patience_s=patience_ends - now):
                return
        while (left := until - time.monotonic()) > 0:
            yield inbox.get(min(left, pause_s))


def claim_retry(request: str) -> bool:
    """Claim to publish the task for `request` again, because its publisher may have died. Returns True for the first
    process, and again after `UNSTARTED_S`. Also without Redis, because an additional copy does no harm."""
    try:
        return bool(redis().set(f"asked:{request}", 1, nx=True, ex=math.ceil(UNSTARTED_S)))
    except RedisError:
        return True


def ping(timeout_s: float) -> bool:
    """True if a bank worker takes a task from the broker and replies within `timeout_s` seconds."""
    return ask("foundation.tasks.pong", timeout_s) is not None


def publish(task: str, arguments: tuple[Any, ...], *, expires_s: float, patience_s: float = 0) -> bool:
    """Publish a task whose arguments are ids only. False if the broker is unreachable for `patience_s`; at least one
    attempt is made. An attempt with an unknown result may have succeeded, so a task may arrive more than once."""
    end = time.monotonic() + patience_s
    while True:
        try:
            with _producers().acquire(block=True, timeout=TIMEOUT_S) as producer:
                expires = max(1.0, expires_s)
                options: dict[str, Any] = {"expires": expires, "ignore_result": True, "producer": producer}
                # Without these, Celery would write the arguments into the message a second time, for its logs.
                current_app.send_task(task, args=arguments, argsrepr="", kwargsrepr="", **options)
        except (BrokerError, LimitExceeded, RedisError, OSError) as fault:
            log.error("broker_unreachable", task=task, fault=type(fault).__name__)
        else:
            return True
        if time.monotonic() + _RETRY_S + TIMEOUT_S > end:  # an attempt at a hanging broker takes its whole time-out
            return False
        time.sleep(_RETRY_S)


@lru_cache(maxsize=1)
def _producers() -> ProducerPool:
    """This process's connections for publishing. Celery's default pool is unsuitable: it waits longer for an answer,
    retries by itself, and is too small when a hanging broker blocks every connection."""
    broker = current_app.connection_for_write(transport_options={"socket_timeout": TIMEOUT_S, "max_retries": 0})
    return ProducerPool(broker.Pool(limit=PRODUCERS), limit=PRODUCERS)
