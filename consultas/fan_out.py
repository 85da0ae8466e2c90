"""Asks many banks for one query: publishes one task and passes on each answer as it arrives.

The web process publishes one task per query and reads the replies (see `replies`); it never calls a bank. The worker
ends the query. If the worker dies, the web process has another worker ask the remaining banks. If no worker does, the
web process ends the query itself, just after the deadline.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator

import msgspec
import structlog
from django.db import Error as DatabaseFailure
from django.utils import timezone

from consultas import ending, landed
from consultas.admission import admission
from consultas.answer import Answer, failed
from consultas.models import Query
from foundation import replies, workers
from providers import registry
from providers.errors import BankTimedOut, ProviderUnavailable

log = structlog.get_logger(__name__)

#: How long after the deadline the web process waits for the worker's last message before it ends the query itself, in
#: seconds.
LATE_S = 1.0
#: How long the web process waits for the worker to store the answers once all have arrived, in seconds.
STORED_WITHIN_S = 2.0


class Ended(msgspec.Struct, frozen=True):
    """The query has ended. `reached` is False if no bank gave any answer but an infrastructure failure. `reply` is the
    aggregated response, null for other routes. `is_stored` is False if the database was unavailable."""

    is_stored: bool = True
    reached: bool = True
    reply: msgspec.Raw = msgspec.Raw(b"null")


def follow(query: Query, banks: list[str], pause_s: float) -> Iterator[Answer | Ended | None]:
    """Have a worker ask `banks` for `query`. For streamed and individual queries, yields the answers as they arrive.
    Yields None after each `pause_s` without an answer, and finally the Ended.

    Gives the caller's database connection back first, so that none is held while waiting. Closing the generator frees
    everything held for it; the worker continues. Raises the database's error if an aggregated query cannot be stored.
    """
    begun = time.monotonic()
    seen: dict[str, Answer] = {}
    ended: Ended | None = None
    round_ = 0
    with workers.waiting_for("consultas.tasks.run_query", str(query.id), query.seconds_left() + LATE_S) as task:
        is_published = bool(banks) and _publish(task, query, banks, round_, workers.BROKER_PATIENCE_S)
        pause_at = begun + pause_s
        published_at: float | None = time.monotonic()
        until = math.inf
        while is_published and ended is None and task.seconds_left() > 0 and time.monotonic() < until:
            match task.receive(min(pause_at, until) - time.monotonic()):
                case (replies.START, _) if published_at is not None:
                    admission.observe(time.monotonic() - published_at)
                    published_at = None
                case (replies.ANSWER, payload):
                    answer = msgspec.json.decode(payload, type=Answer)
                    if answer.provider in banks and answer.provider not in seen:
                        seen[answer.provider] = answer
                        yield answer
                        pause_at = time.monotonic() + pause_s
                    if len(seen) == len(banks):
                        until = min(until, time.monotonic() + STORED_WITHIN_S)
                case (replies.END, payload):
                    ended = msgspec.json.decode(payload, type=Ended)
                case (replies.LOST, _):
                    left = set(banks) - seen.keys() - landed.banks(query)
                    log.warning("query_worker_lost", query=str(query.id), waiting=len(left))
                    for bank in _not_to_be_asked_again(left):
                        left.remove(bank)
                        seen[bank] = failed(bank, ProviderUnavailable(), time.monotonic() - begun)
                        yield seen[bank]
                    round_ += 1
                    is_published = bool(left) and _publish(task, query, left, round_)
                case None if time.monotonic() >= pause_at:
                    yield None
                    pause_at = time.monotonic() + pause_s
    if not is_published and not round_:
        seen = {bank: failed(bank, BankTimedOut(), time.monotonic() - begun) for bank in banks}
        yield from seen.values()
    yield from _last(query, banks, seen, ended)


def _last(query: Query, banks: list[str], seen: dict[str, Answer], ended: Ended | None) -> Iterator[Answer | Ended]:
    """The stored answers that are not in `seen`, and the Ended. Ends the query if no other process did."""
    has_ended = ended is not None and ended.is_stored
    if query.kind == Query.Kind.AGGREGATED:
        if ended is None or not has_ended:
            result = ending.end(query, seen.values(), BankTimedOut())
            ended = Ended(reached=result.reached, reply=msgspec.Raw(result.reply()))
        yield ended
        return
    if len(seen) == len(banks):  # the reader already has all answers and need not wait for the database
        yield ended or Ended(is_stored=False)
    if has_ended and len(seen) == len(banks):
        return
    try:
        result = ending.stored(query) if has_ended else ending.end(query, seen.values(), BankTimedOut())
        answers = result.answers
    except DatabaseFailure as fault:
        log.error("query_not_stored", query=str(query.id), fault=type(fault).__name__)
        elapsed_s = (timezone.now() - query.created_at).total_seconds()
        answers = [failed(bank, BankTimedOut(), elapsed_s) for bank in banks]
    if len(seen) < len(banks):
        yield from (answer for answer in answers if answer.provider in banks and answer.provider not in seen)
        yield Ended()


def _publish(
    task: workers.PublishedTask, query: Query, banks: Iterable[str], round_: int, patience_s: float = 0
) -> bool:
    """Have a worker ask `banks`. Two copies of the task may arrive, so the worker claims the round first."""
    return task.publish(str(query.id), sorted(banks), task.reply_to, round_, patience_s=patience_s)


def _not_to_be_asked_again(banks: set[str]) -> list[str]:
    """Those of `banks` that may send the holder a message. Their worker died, and it is unknown whether they have sent
    it."""
    adapters = {bank: registry.get(bank) for bank in sorted(banks)}
    return [bank for bank, adapter in adapters.items() if adapter is None or adapter.notifies_holder]
