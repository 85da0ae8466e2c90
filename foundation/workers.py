"""Lets a web process have work done by a worker: it publishes a task and waits for the messages that come back."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import structlog
from celery import current_app
from django.db import connection
from kombu.exceptions import LimitExceeded
from kombu.exceptions import OperationalError as BrokerError
from kombu.pools import ProducerPool
from redis.exceptions import RedisError

from foundation import replies
from foundation.redis import TIMEOUT_S, redis

log = structlog.get_logger(__name__)

#: A task that no worker has begun after this many seconds is published again, because the broker may have lost it.
UNSTARTED_S = 5.0
_RETRY_S = 0.25
#: How long a call tries to publish its task while the broker is unreachable, in seconds. A restart takes about one.
BROKER_PATIENCE_S = 5.0
#: How many tasks one process can publish at once. Only a hanging broker needs that many.
PRODUCERS = 128


class PublishedTask:
    """A task for a worker, and the messages that come back from it until the deadline.

    The broker may lose a task, so a task that no worker has begun within `UNSTARTED_S` is published again. Every task
    must therefore tolerate two copies.
    """

    def __init__(self, name: str, inbox: replies.Inbox, seconds: float) -> None:
        self.reply_to = inbox.address
        self._name = name
        self._inbox = inbox
        self._deadline = time.monotonic() + seconds
        self._arguments: tuple[Any, ...] = ()
        self._publish_again_at = math.inf

    def seconds_left(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self._deadline - time.monotonic()

    def publish(self, *arguments: Any, patience_s: float = 0) -> bool:
        """Publish the task with `arguments`; see the function `publish`. A second call replaces the arguments that are
        published again."""
        self._arguments = arguments
        self._publish_again_at = time.monotonic() + UNSTARTED_S
        return publish(self._name, arguments, expires_s=self.seconds_left(), patience_s=patience_s)

    def receive(self, timeout_s: float) -> tuple[str, bytes] | None:
        """The next message as (kind, payload). None if none came within `timeout_s` or before the deadline."""
        end = min(time.monotonic() + timeout_s, self._deadline)
        while True:
            message = self._inbox.get(min(end, self._publish_again_at) - time.monotonic())
            if message is not None:
                self._publish_again_at = math.inf  # a worker has begun
                return message
            now = time.monotonic()
            if now >= end:
                return None
            if now >= self._publish_again_at:
                log.warning("task_republished", task=self._name)
                self.publish(*self._arguments)


@contextmanager
def waiting_for(task: str, request: str, seconds: float) -> Iterator[PublishedTask]:
    """The task `task` for `request`, a unique id: the caller publishes it and receives its messages.

    Gives back the caller's database connection first, so that none is held while waiting.
    """
    connection.close()
    with replies.mailbox().inbox(request) as inbox:
        yield PublishedTask(task, inbox, seconds)


def ask(task: str, request: str, seconds: float, *further: str) -> bytes | None:
    """Have a worker run `task` with the arguments `request`, the reply address and `further`. Wait at most `seconds`
    for the answer.

    Returns the answer as JSON. Returns None if the time is over, the broker is unreachable, or the worker died. The
    task must tolerate two copies.
    """
    with waiting_for(task, request, seconds) as published:
        patience_s = min(seconds, BROKER_PATIENCE_S)
        if not published.publish(request, published.reply_to, *further, patience_s=patience_s):
            return None
        while (left := published.seconds_left()) > 0:
            match published.receive(left):
                case (replies.ANSWER, payload):
                    return payload
                case (replies.LOST, _):
                    return None
    return None


def is_first_to_ask(request: str) -> bool:
    """True for the first process that wants to publish a task for `request` again because its publisher may have died.
    True again after `UNSTARTED_S`. Also True without Redis, because an additional copy does no harm."""
    try:
        return bool(redis().set(f"asked:{request}", 1, nx=True, ex=math.ceil(UNSTARTED_S)))
    except RedisError:
        return True


def ping(timeout_s: float) -> bool:
    """True if a bank worker takes a task from the broker and replies within `timeout_s` seconds."""
    return ask("foundation.tasks.pong", f"ping-{uuid.uuid4().hex}", timeout_s) is not None


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
