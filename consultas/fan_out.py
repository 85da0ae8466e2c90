"""One query, many banks: the task goes out, the answers come in as they land.

The web process publishes one task per query and reads the replies (see `replies`); it calls no bank itself.
The aggregated, the streamed and the individual route read the same generator and differ only in their views.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog
from django.db import connection

from consultas.models import Query
from foundation import workers
from foundation.replies import ANSWER, LOST, START, Inbox, mailbox
from providers import registry
from providers.errors import BankFailure, ProviderUnavailable
from providers.types import BankAction, BankOffer, Link, QueryStatus

log = structlog.get_logger(__name__)


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
        if banks and not _publish(query, current, inbox, workers.BROKER_PATIENCE_S):
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


def _publish(query: Query, current: _Round, inbox: Inbox, patience_s: float = 0) -> bool:
    current.started = False
    current.published_at = time.monotonic()
    banks = sorted(current.waiting)
    arguments = (str(query.id), banks, inbox.address, current.number)
    return workers.publish(
        "consultas.tasks.run_query", arguments, expires_s=query.seconds_left(), patience_s=patience_s
    )


def _republish_if_lost(query: Query, current: _Round, inbox: Inbox) -> None:
    """Publish again what no worker began. Both copies may arrive: the worker claims the round first."""
    if not current.started and time.monotonic() - current.published_at >= workers.UNSTARTED_S:
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
