"""Celery tasks of the bank workers. All calls to banks are made in these processes."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings

from consultas import auctions, sweep
from consultas.query import ask, overdue
from foundation import channels


@shared_task
def run_query(query_id: str) -> None:
    """Ask the query's banks for offers, and end the query."""
    ask.run(query_id)


@shared_task
def take_over() -> None:
    """Have the due queries asked or ended: their tasks were lost, their workers died, or their deadline is over."""
    overdue.run()


@shared_task
def look_up_auction(work: str, encrypted_key: str, request_id: str, partner_id: str) -> None:
    """Ask the service's own bank for an auction's record, and tell it at the end."""
    channels.answer(work, settings.BANK_TIMEOUT_S, lambda: auctions.run(encrypted_key, request_id, partner_id))


@shared_task
def check_steps() -> None:
    """Ask the banks for the external steps whose check is due."""
    sweep.run()
