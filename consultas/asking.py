"""A bank worker's part in a query: it asks each bank in a greenlet of its own, keeps each answer as it lands, and
stores all of them at the end."""

from __future__ import annotations

import time
from typing import Any

import gevent
import msgspec
import structlog
from django.db import DatabaseError, InterfaceError, connection
from gevent.event import Event

from consultas import ending, order, pending
from consultas.answer import Answer, failed
from consultas.fan_out import Ended
from consultas.models import Query, Step
from foundation import kept, replies
from foundation.database import give_back_connection
from foundation.errors import ApiError
from providers import operation, registry
from providers.bank import Bank, Connection
from providers.errors import BankFailure, BankTimedOut, ProviderError, ProviderUnavailable
from providers.types import QueryStatus

log = structlog.get_logger(__name__)


def run(query_id: str, banks: list[str], reply_to: str, round_: int) -> None:
    """Ask `banks` for the query's offers, all at the same time, and bring the query to its end.

    Each answer is kept as it lands. The web process at `reply_to` gets it too, unless it waits for the whole.
    """
    query, connections, steps = order.load(query_id, banks)
    connection.close()
    # Claimed last, so that a copy of the task that fails or dies before leaves the work to the next copy.
    left = query.seconds_left()
    if query.finished_at is not None or left <= 0:
        return
    if not replies.claim(reply_to, query_id, round_, ttl_s=int(left) + 60, patience_s=left):
        return
    waits_for_the_whole = query.kind == Query.Kind.AGGREGATED and replies.knows_end(reply_to)
    tell = None if waits_for_the_whole else reply_to
    answers: list[Answer] = []
    have_answered = Event()

    def one(bank: str) -> None:
        structlog.contextvars.bind_contextvars(request_id=query.request_id)
        answer = _answer(query, bank, connections, steps.get(bank))
        answers.append(answer)
        if len(answers) == len(banks):
            have_answered.set()
        kept.keep(query_id, bank, answer, query.seconds_left(), tell)

    asked = [gevent.spawn(one, bank) for bank in banks]
    # An answer is told and stored at the same time: neither waits for the other.
    in_time = have_answered.wait(query.seconds_left())
    structlog.contextvars.bind_contextvars(request_id=query.request_id)
    # A bank that this task did not ask, and of which nothing has landed, was asked by a worker that died.
    _end(query, answers, ProviderUnavailable() if in_time else BankTimedOut(), reply_to, waits_for_the_whole)
    gevent.joinall(asked)


def _end(query: Query, answers: list[Answer], error: BankFailure, reply_to: str, is_whole: bool) -> None:
    """Store the answers, `error` for banks without any, and what comes of them; tell the web process at `reply_to`."""
    try:
        result = ending.end(query, answers, error)
    except (DatabaseError, InterfaceError) as fault:
        log.error("query_not_stored", query=str(query.id), fault=type(fault).__name__)
        if replies.knows_end(reply_to):
            replies.post(reply_to, str(query.id), replies.END, Ended(is_stored=False), query.seconds_left())
        return
    finally:
        connection.close()
    ended = Ended(reached=result.reached, reply=msgspec.Raw(result.reply())) if is_whole else Ended()
    kept.end(str(query.id), reply_to, ended, query.seconds_left())


def _answer(query: Query, bank: str, connections: dict[str, Connection], step: Step | None) -> Answer:
    """What `bank` answers to `query`; whatever goes wrong there becomes its answer and touches no other bank."""
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
        # Our own fault at one bank must not cost the partner the other banks. It is logged, never shown.
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
        coded=(registry.get(bank) or Bank).why(result),
        term_auto_authorized=result.term_auto_authorized,
        data=result.data,
    )


def _as_answer(bank: str, begun: float, **fields: Any) -> Answer:
    elapsed_ms = round((time.monotonic() - begun) * 1000)
    return Answer(provider=bank, elapsed_ms=elapsed_ms, answered_at=time.time(), **fields)
