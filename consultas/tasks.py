"""What runs in the bank workers: every call to a bank is made here, each bank in its own greenlet."""

from __future__ import annotations

import time
from typing import Any

import gevent
import structlog
from celery import shared_task
from django.db import connection

from consultas import pending, replies
from consultas.fan_out import Answer, failed
from consultas.models import AuctionLookup, Pending, Query
from partners.models import Partner
from providers import registry
from providers.errors import ApiError, BankFailure, ProviderUnavailable
from providers.types import BankQuery, BankResult, QueryStatus

log = structlog.get_logger(__name__)


@shared_task
def pong(request: str, reply_to: str) -> None:
    """The readiness check's other half."""
    replies.post(reply_to, request, replies.ANSWER, None)


@shared_task
def run_query(query_id: str, banks: list[str], reply_to: str, round_: int) -> None:
    """Ask `banks` for the query's offers, in parallel; each answer is pushed as it lands."""
    query = Query.objects.select_related("partner").get(pk=query_id)
    left = query.seconds_left()
    if left <= 0 or not replies.claim(query_id, round_, ttl_s=int(left) + 60):
        return
    replies.post(reply_to, query_id, replies.START, replies.worker_id())
    structlog.contextvars.bind_contextvars(request_id=query.request_id)
    accounts = registry.accounts(banks)
    steps = pending.open_steps(query, banks)
    connection.close()

    def one(bank: str) -> None:
        try:
            answer = _ask(query, bank, accounts.get(bank), steps.get(bank), left)
            replies.post(reply_to, query_id, replies.ANSWER, answer)
        finally:
            connection.close()

    gevent.joinall([gevent.spawn(one, bank) for bank in banks])
