"""A web process asks a worker: publish a task by ids, and wait for its word."""

from __future__ import annotations

import time
import uuid
from functools import lru_cache
from typing import Any

import structlog
from celery import current_app
from django.db import connection
from kombu.exceptions import LimitExceeded
from kombu.exceptions import OperationalError as BrokerError
from kombu.pools import ProducerPool
from redis.exceptions import RedisError

from foundation.redis import TIMEOUT_S
from foundation.replies import ANSWER, START, mailbox

log = structlog.get_logger(__name__)

#: A task that no worker has begun after this time is published once more: the broker may have lost it.
UNSTARTED_S = 5.0
_RETRY_S = 0.25
#: So long a call tries to publish its task while the broker is out of reach: a restart takes about a second.
BROKER_PATIENCE_S = 5.0
#: Tasks that one process publishes at once; only while the broker is frozen are they many.
PRODUCERS = 128


def ping(timeout_s: float) -> bool:
    """Whether a bank worker takes a task from the broker and replies within `timeout_s` seconds."""
    request = f"ping-{uuid.uuid4().hex}"
    with mailbox().inbox(request) as inbox:
        if not publish("foundation.tasks.pong", (request, inbox.address), expires_s=timeout_s):
            return False
        return inbox.get(timeout_s) is not None


def ask(task: str, request: str, seconds: float, *further: str) -> bool:
    """Run the worker's `task` for the row `request` and wait for its word, at most `seconds`. `further` are
    arguments behind the address of the reply. The task has to bear coming twice: one that no worker has begun after
    `UNSTARTED_S` is published again.

    False when none came: the time is over, the broker is out of reach, or the worker died that had said START.
    """
    connection.close()
    deadline = time.monotonic() + seconds
    with mailbox().inbox(request) as inbox:
        arguments = (request, inbox.address, *further)
        if not publish(task, arguments, expires_s=seconds, patience_s=BROKER_PATIENCE_S):
            return False
        wake_at = time.monotonic() + UNSTARTED_S
        while (now := time.monotonic()) < deadline:
            if now >= wake_at:
                log.warning("task_republished", task=task)
                publish(task, arguments, expires_s=deadline - now)
                wake_at = time.monotonic() + UNSTARTED_S
            message = inbox.get(min(wake_at, deadline) - time.monotonic())
            if message is not None:
                if message[0] != START:
                    return message[0] == ANSWER
                wake_at = deadline
    return False


def publish(task: str, arguments: tuple[Any, ...], *, expires_s: float, patience_s: float = 0) -> bool:
    """Publish a task by ids only; False when the broker can't be reached within `patience_s`, or at the one try
    that is always made. A try whose end is not known may have published it: a task may arrive more than once."""
    end = time.monotonic() + patience_s
    while True:
        try:
            with _producers().acquire(block=True, timeout=TIMEOUT_S) as producer:
                expires = max(1.0, expires_s)
                current_app.send_task(task, args=arguments, expires=expires, ignore_result=True, producer=producer)
        except (BrokerError, LimitExceeded, RedisError, OSError) as fault:
            log.error("broker_unreachable", task=task, fault=type(fault).__name__)
        else:
            return True
        if time.monotonic() + _RETRY_S + TIMEOUT_S > end:  # a try at a frozen broker takes its time-out
            return False
        time.sleep(_RETRY_S)


@lru_cache(maxsize=1)
def _producers() -> ProducerPool:
    """This process's connections to publish by. Celery's own wait longer for an answer, since a worker waits
    for tasks by them, try again by themselves, and are too few where a frozen broker holds each."""
    broker = current_app.connection_for_write(transport_options={"socket_timeout": TIMEOUT_S, "max_retries": 0})
    return ProducerPool(broker.Pool(limit=PRODUCERS), limit=PRODUCERS)
