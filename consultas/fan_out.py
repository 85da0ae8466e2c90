"""One query, many banks: one task is published, and each bank's answer is handed on as it arrives.

The web process publishes one task per query and reads the replies (see `replies`); it calls no bank itself.
The aggregated, the streamed and the individual route read the same generator and differ only in their views.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from consultas.admission import admission
from consultas.models import Query
from foundation import replies, workers
from providers import registry
from providers.errors import BankFailure, BankTimedOut, ProviderUnavailable
from providers.reasons import Reason
from providers.types import BankAction, BankOffer, Employment, QueryStatus

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Answer:
    """What one bank answered, or that it failed. `reached` is False for an infrastructure failure: the bank
    was unreachable, timed out, answered 5xx or unreadably. `answered_at` is seconds since the epoch. `reasons` are the
    bank's words for having no offer, `coded` the reasons as data, those of a failure or a refusal too."""

    provider: str
    status: QueryStatus
    elapsed_ms: int
    answered_at: float
    reached: bool = True
    offers: tuple[BankOffer, ...] = ()
    #: The holder's employments. Stored answers have them under this name.
    links: tuple[Employment, ...] = ()
    action: BankAction | None = None
    reasons: tuple[str, ...] = ()
    coded: tuple[Reason, ...] = ()
    error: str | None = None
    term_auto_authorized: bool = False
    data: dict[str, Any] | None = None

    @property
    def settled(self) -> bool:
        """Whether a repeat within the window may reuse this answer."""
        return self.status in (QueryStatus.OK, QueryStatus.NO_OFFERS)


def answers(query: Query, banks: list[str]) -> Iterator[Answer]:
    """The answers of `banks`, each as it arrives. At the query's deadline the missing ones follow as failed."""
    return (answer for answer in answers_and_pauses(query, banks, 60) if answer is not None)


def answers_and_pauses(query: Query, banks: list[str], pause_s: float) -> Iterator[Answer | None]:
    """Like `answers`, with a None whenever `pause_s` went by without an answer.

    Gives the caller's database connection back first: none is held while waiting. Closing the generator frees
    everything held for it; the worker finishes its calls, since an external step that one opens must be kept.
    """
    begun = time.monotonic()
    waiting = set(banks)
    round_ = 0
    with workers.waiting_for("consultas.tasks.run_query", str(query.id), query.seconds_left()) as task:
        is_published = bool(banks) and _publish(task, query, waiting, round_, workers.BROKER_PATIENCE_S)
        pause_at = begun + pause_s
        published_at: float | None = time.monotonic()
        while is_published and waiting and task.seconds_left() > 0:
            match task.receive(pause_at - time.monotonic()):
                case (replies.START, _) if published_at is not None:
                    admission.observe(time.monotonic() - published_at)
                    published_at = None
                case (replies.ANSWER, payload):
                    answer = msgspec.json.decode(payload, type=Answer)
                    if answer.provider in waiting:
                        waiting.remove(answer.provider)
                        yield answer
                        pause_at = time.monotonic() + pause_s
                case (replies.LOST, _):
                    log.warning("query_worker_lost", query=str(query.id), waiting=len(waiting))
                    for bank in _not_to_be_asked_again(waiting):
                        waiting.remove(bank)
                        yield failed(bank, ProviderUnavailable(), begun)
                    round_ += 1
                    if waiting:
                        _publish(task, query, waiting, round_)
                case None if time.monotonic() >= pause_at:
                    yield None
                    pause_at = time.monotonic() + pause_s
    for bank in sorted(waiting):
        yield failed(bank, BankTimedOut(), begun)


def failed(bank: str, error: BankFailure, begun: float) -> Answer:
    """The answer that stands for a bank which gave none; `begun` in monotonic seconds."""
    return Answer(
        provider=bank,
        status=QueryStatus.ERROR,
        elapsed_ms=round((time.monotonic() - begun) * 1000),
        answered_at=time.time(),
        reached=False,
        error=error.message,
        coded=(error.reason,),
    )


def _publish(task: workers.PublishedTask, query: Query, banks: set[str], round_: int, patience_s: float = 0) -> bool:
    """Have a worker ask `banks`. Two copies of the task may arrive: the worker claims the round first."""
    return task.publish(str(query.id), sorted(banks), task.reply_to, round_, patience_s=patience_s)


def _not_to_be_asked_again(banks: set[str]) -> list[str]:
    """Those of `banks` that may message the holder. Their worker died, and nobody knows whether they did already."""
    adapters = {bank: registry.get(bank) for bank in sorted(banks)}
    return [bank for bank, adapter in adapters.items() if adapter is None or adapter.notifies_holder]
