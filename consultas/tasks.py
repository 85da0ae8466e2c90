"""What runs in the bank workers: every call to a bank is made here, each bank in its own greenlet."""

from __future__ import annotations

import time
from typing import Any

import gevent
import structlog
from celery import shared_task
from django.conf import settings
from django.db import connection

from consultas import auctions, order, pending
from consultas.fan_out import Answer, failed
from consultas.models import Query, Step
from foundation import replies
from foundation.database import give_back_connection
from foundation.errors import ApiError
from providers import operation, registry
from providers.bank import Bank, Connection
from providers.errors import BankFailure, ProviderError
from providers.types import QueryStatus

log = structlog.get_logger(__name__)


@shared_task
def run_query(query_id: str, banks: list[str], reply_to: str, round_: int) -> None:
    """Ask `banks` for the query's offers, all at the same time, and send each answer as it arrives."""
    query, connections, steps = order.load(query_id, banks)
    connection.close()
    # Claimed last, so that a copy of the task that fails or dies before leaves the work to the next copy.
    left = query.seconds_left()
    if left <= 0 or not replies.claim(reply_to, query_id, round_, ttl_s=int(left) + 60, patience_s=left):
        return

    def one(bank: str) -> None:
        structlog.contextvars.bind_contextvars(request_id=query.request_id)
        answer = _answer(query, bank, connections, steps.get(bank))
        replies.post(reply_to, query_id, replies.ANSWER, answer, patience_s=query.seconds_left())

    gevent.joinall([gevent.spawn(one, bank) for bank in banks])


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
        return failed(bank, failure, begun)
    except ApiError as refusal:
        why = (registry.get(bank) or Bank).reason(refusal.message)
        return _as_answer(bank, begun, status=QueryStatus.ERROR, error=refusal.message, coded=(why,))
    except Exception:
        # Our own fault at one bank must not cost the partner the other banks. It is logged, never shown.
        log.exception("bank_adapter_failed", bank=bank)
        return failed(bank, ProviderError(), begun)
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


@shared_task
def look_up_auction(request: str, reply_to: str, encrypted_key: str, request_id: str, partner_id: str) -> None:
    """Ask the own bank for an auction's record, and answer with it."""
    with replies.answering(reply_to, request, settings.BANK_TIMEOUT_S) as reply:
        reply.content = auctions.run(encrypted_key, request_id, partner_id)
