"""Celery tasks of the bank workers. All calls to banks are made in these processes."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings

from consultas import asking, auctions, sweep
from foundation import replies


@shared_task
def run_query(query_id: str, banks: list[str], reply_to: str, round_: int) -> None:
    """Ask `banks` for the query's offers and end the query."""
    asking.run(query_id, banks, reply_to, round_)


@shared_task
def look_up_auction(request: str, reply_to: str, encrypted_key: str, request_id: str, partner_id: str) -> None:
    """Ask the service's own bank for an auction's record, and send it as the answer."""
    with replies.answering(reply_to, request, settings.BANK_TIMEOUT_S) as reply:
        reply.content = auctions.run(encrypted_key, request_id, partner_id)


@shared_task
def check_steps() -> None:
    """Ask the banks for the external steps whose check is due."""
    sweep.run()
