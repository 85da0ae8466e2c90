"""A bank worker's part of a query: it asks each bank in a greenlet, keeps each answer when it arrives, and stores all
answers at the end."""

from __future__ import annotations

import math
import time
from typing import Any, ClassVar

import gevent
import msgspec
import structlog
from django.db import DatabaseError, InterfaceError, connection
from gevent.event import Event
from redis.exceptions import RedisError

from consultas import ending, order, pending
from consultas.answer import Answer, failed
from consultas.fan_out import Ended
from consultas.models import Query, Step
from foundation import interim_results, replies
from foundation.database import give_back_connection
from foundation.errors import ApiError
from providers import operation, registry
from providers.bank import Bank, Connection
from providers.errors import BankFailure, BankTimedOut, ProviderError, ProviderUnavailable
from providers.types.answer import QueryStatus

log = structlog.get_logger(__name__)

#: If no client waits for individual answers and several queries of this process have some, the answers are kept in
#: Redis at these intervals, in seconds, so that one pipeline carries the answers of all.
INTERVAL_S = 0.02


def run(query_id: str, banks: list[str], reply_to: str, round_: int) -> None:
    """Ask `banks` for the query's offers, all at the same time, and end the query.

    Each answer is kept in Redis when it arrives. It is also sent to the web process at `reply_to`, unless that waits
    for the whole.
    """
    query, connections, steps = order.load(query_id, banks)
    connection.close()
    # The claim comes last, so that a copy of the task that fails before it leaves the work to the next copy.
    left = query.seconds_left()
    if query.finished_at is not None or left <= 0:
        return
    if not replies.claim(reply_to, query_id, round_, ttl_s=int(left) + 60, patience_s=left):
        return
    waits_for_the_whole = query.kind == Query.Kind.AGGREGATED and replies.knows_end(reply_to)
    landing = Landing(query, len(banks), None if waits_for_the_whole else reply_to)

    def one(bank: str) -> None:
        structlog.contextvars.bind_contextvars(request_id=query.request_id)
        landing.add(_answer(query, bank, connections, steps.get(bank)))

    greenlets = [gevent.spawn(one, bank) for bank in banks]
    telling = gevent.spawn(landing.tell)
    # Answers are stored even if Redis is unavailable, and sent even if the database is.
    in_time = landing.is_complete.wait(query.seconds_left())
    structlog.contextvars.bind_contextvars(request_id=query.request_id)
    # A bank that this task did not ask, and whose answer is missing, was asked by a worker that died.
    error = ProviderUnavailable() if in_time else BankTimedOut()
    _end(query, list(landing.answers), error, reply_to, waits_for_the_whole, telling)
    gevent.joinall(greenlets)


class Landing:
    """A task's answers as they arrive. Answers that arrive during a write to Redis are written together."""

    #: The query that wrote to Redis last in this process, and when (monotonic seconds).
    _last_write: ClassVar[tuple[object, float]] = (None, -math.inf)

    def __init__(self, query: Query, expected: int, tell: str | None) -> None:
        self.answers: list[Answer] = []
        #: Set when all answers have arrived.
        self.is_complete = Event()
        self._query, self._expected, self._tell = query, expected, tell
        self._news = Event()

    def add(self, answer: Answer) -> None:
        """Add an answer that has arrived."""
        self.answers.append(answer)
        self._news.set()
        if len(self.answers) == self._expected:
            self.is_complete.set()

    def tell(self) -> None:
        """Keep the answers in Redis, and send them to the web process if it waits for each, until all are sent or the
        query's deadline."""
        sent = 0
        while sent < self._expected and self._news.wait(max(0.0, self._query.seconds_left())):
            if self._tell is None and self._is_another_writing():
                self.is_complete.wait(INTERVAL_S - time.monotonic() % INTERVAL_S)
            self._news.clear()
            news, sent = self.answers[sent:], len(self.answers)
            landed = {answer.provider: answer for answer in news}
            try:
                interim_results.keep(str(self._query.id), landed, self._query.seconds_left(), self._tell)
            except RedisError:
                log.warning("answers_not_sent", query=str(self._query.id), banks=len(landed))

    def _is_another_writing(self) -> bool:
        """True if another query of this process wrote within the last interval. Records that this one writes now."""
        (last, at), now = Landing._last_write, time.monotonic()
        Landing._last_write = (self._query.id, now)
        return last != self._query.id and now - at < INTERVAL_S


def _end(
    query: Query,
    answers: list[Answer],
    error: BankFailure,
    reply_to: str,
    is_whole: bool,
    telling: gevent.Greenlet,
) -> None:
    """Store the answers (`error` for banks without one), the offers and the events. Send the end to the web process at
    `reply_to`, after its answers."""
    try:
        result = ending.end(query, answers, error)
    except (DatabaseError, InterfaceError) as fault:
        log.error("query_not_stored", query=str(query.id), fault=type(fault).__name__)
        if replies.knows_end(reply_to):
            replies.post(reply_to, str(query.id), replies.END, Ended(is_stored=False), query.seconds_left())
        return
    finally:
        connection.close()
    telling.join()
    ended = Ended(reached=result.reached, reply=msgspec.Raw(result.reply())) if is_whole else Ended()
    interim_results.end(str(query.id), reply_to, ended, query.seconds_left())


def _answer(query: Query, bank: str, connections: dict[str, Connection], step: Step | None) -> Answer:
    """The answer of `bank` to `query`. Any exception becomes this bank's answer, so that no other bank is affected."""
    begun = time.monotonic()
    try:
        client = operation.client(
            bank,
            request_id=query.request_id,
            partner=str(query.partner_id),
            known=connections,
            longest_s=query.seconds_left(),
        )
        result = pending.ask(client, query, query.for_bank(bank), step)
    except BankFailure as failure:
        log.warning("bank_failed", bank=bank, code=failure.code, held_back=failure.held_back)
        return failed(bank, failure, time.monotonic() - begun)
    except ApiError as refusal:
        why = (registry.get(bank) or Bank).reason(refusal.message)
        return _as_answer(bank, begun, status=QueryStatus.ERROR, error=refusal.message, coded=(why,))
    except Exception:
        # A bug of ours at one bank must not cost the partner the other banks. It is logged and not shown.
        log.exception("bank_adapter_failed", bank=bank)
        return failed(bank, ProviderError(), time.monotonic() - begun)
    finally:
        give_back_connection()
    return _as_answer(
        bank,
        begun,
        status=result.status,
        offers=result.offers,
        links=result.employments,
        action=result.action,
        reasons=result.reasons,
        coded=(registry.get(bank) or Bank).reasons_for(result),
        term_auto_authorized=result.term_auto_authorized,
        data=result.data,
    )


def _as_answer(bank: str, begun: float, **fields: Any) -> Answer:
    elapsed_ms = round((time.monotonic() - begun) * 1000)
    return Answer(provider=bank, elapsed_ms=elapsed_ms, answered_at=time.time(), **fields)
