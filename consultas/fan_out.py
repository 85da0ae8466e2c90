"""One query, many banks: the task goes out, the answers come in as they land.

The web process publishes one task per query and reads the replies (see `replies`); it calls no bank itself.
The aggregated, the streamed and the individual route read the same generator and differ only in their views.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
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

from consultas.models import Query
from consultas.replies import ANSWER, LOST, START, Inbox, mailbox
from providers import registry
from providers.errors import BankFailure, ProviderUnavailable
from providers.shared import TIMEOUT_S
from providers.types import BankAction, BankOffer, Link, QueryStatus

log = structlog.get_logger(__name__)

#: A task that no worker has begun after this time is published once more: the broker may have lost it.
UNSTARTED_S = 5.0
_RETRY_S = 0.25
#: So long a call tries to publish its task while the broker is out of reach: a restart takes about a second.
BROKER_PATIENCE_S = 5.0
#: Tasks that one process publishes at once; only while the broker is frozen are they many.
PRODUCERS = 128


@dataclass(frozen=True)
class Answer:
    """What one bank answered, or that it failed. `reached` is False for an infrastructure failure: the bank
    was unreachable, timed out, answered 5xx or unreadably. `answered_at` is seconds since the epoch."""

    provider: str
    status: QueryStatus
    elapsed_ms: int
    answered_at: float
    reached: bool = True
    offers: tuple[BankOffer, ...] = ()
    links: tuple[Link, ...] = ()
    action: BankAction | None = None
    reasons: tuple[str, ...] = ()
    error: str | None = None
    term_auto_authorized: bool = False
    data: dict[str, Any] | None = None

    @property
    def settled(self) -> bool:
        """Whether a repeat within the window may reuse this answer."""
        return self.status in (QueryStatus.OK, QueryStatus.NO_OFFERS)


@dataclass
class _Round:
    """Which banks are still owed, and how often they were asked for."""

    waiting: set[str]
    number: int = 0
    started: bool = False
    published_at: float = field(default_factory=time.monotonic)


def answers(query: Query, banks: list[str]) -> Iterator[Answer]:
    """The answer of each of `banks`, as it lands; at the query's deadline those still missing, as failed."""
    return (answer for answer in answers_or_silence(query, banks, 60) if answer is not None)


def answers_or_silence(query: Query, banks: list[str], silence_s: float) -> Iterator[Answer | None]:
    """Like `answers`, with a None whenever `silence_s` went by without one.

    Closes the caller's database connection first: none is held while waiting. Closing the generator frees
    everything held for it; the worker finishes its calls, since an external step that one opens must be kept.
    """
    connection.close()
    begun = time.monotonic()
    deadline = begun + query.seconds_left()
    with mailbox().inbox(str(query.id)) as inbox:
        current = _Round(set(banks))
        spoke = begun
        if banks and not _publish(query, current, inbox, BROKER_PATIENCE_S):
            deadline = begun
        while current.waiting and (left := deadline - time.monotonic()) > 0:
            message = inbox.get(min(left, 1.0))
            if message is None:
                _republish_if_lost(query, current, inbox)
                if time.monotonic() - spoke >= silence_s:
                    spoke = time.monotonic()
                    yield None
                continue
            kind, payload = message
            if kind == ANSWER:
                answer = msgspec.json.decode(payload, type=Answer)
                if answer.provider in current.waiting:
                    current.waiting.remove(answer.provider)
                    spoke = time.monotonic()
                    yield answer
            elif kind == START:
                current.started = True
            elif kind == LOST:
                yield from _ask_again(query, current, inbox, begun)
    for bank in sorted(current.waiting):
        yield failed(bank, ProviderUnavailable("O banco não respondeu a tempo."), begun)


def failed(bank: str, error: BankFailure, begun: float) -> Answer:
    """The answer that stands for a bank which gave none; `begun` in monotonic seconds."""
    return Answer(
        provider=bank,
        status=QueryStatus.ERROR,
        elapsed_ms=round((time.monotonic() - begun) * 1000),
        answered_at=time.time(),
        reached=False,
        error=error.message,
    )


def ping(timeout_s: float) -> bool:
    """Whether a bank worker takes a task from the broker and replies within `timeout_s` seconds."""
    request = f"ping-{uuid.uuid4().hex}"
    with mailbox().inbox(request) as inbox:
        if not _send("consultas.tasks.pong", (request, inbox.address), expires_s=timeout_s):
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
        if not _send(task, arguments, expires_s=seconds, patience_s=BROKER_PATIENCE_S):
            return False
        wake_at = time.monotonic() + UNSTARTED_S
        while (now := time.monotonic()) < deadline:
            if now >= wake_at:
                log.warning("task_republished", task=task)
                _send(task, arguments, expires_s=deadline - now)
                wake_at = time.monotonic() + UNSTARTED_S
            message = inbox.get(min(wake_at, deadline) - time.monotonic())
            if message is not None:
                if message[0] != START:
                    return message[0] == ANSWER
                wake_at = deadline
    return False


def _publish(query: Query, current: _Round, inbox: Inbox, patience_s: float = 0) -> bool:
    current.started = False
    current.published_at = time.monotonic()
    banks = sorted(current.waiting)
    arguments = (str(query.id), banks, inbox.address, current.number)
    return _send("consultas.tasks.run_query", arguments, expires_s=query.seconds_left(), patience_s=patience_s)


def _send(task: str, arguments: tuple[Any, ...], *, expires_s: float, patience_s: float = 0) -> bool:
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


def _republish_if_lost(query: Query, current: _Round, inbox: Inbox) -> None:
    """Publish again what no worker began. Both copies may arrive: the worker claims the round first."""
    if not current.started and time.monotonic() - current.published_at >= UNSTARTED_S:
        log.warning("query_republished", query=str(query.id))
        _publish(query, current, inbox)


def _ask_again(query: Query, current: _Round, inbox: Inbox, begun: float) -> Iterator[Answer]:
    """After the worker died: ask the banks still owed again, but none that might message the holder twice."""
    log.warning("query_worker_lost", query=str(query.id), waiting=len(current.waiting))
    for bank in sorted(current.waiting):
        adapter = registry.get(bank)
        if adapter is None or adapter.notifies_holder:
            current.waiting.remove(bank)
            yield failed(bank, ProviderUnavailable(), begun)
    if current.waiting:
        current.number += 1
        _publish(query, current, inbox)
