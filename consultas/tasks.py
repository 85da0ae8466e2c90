"""Celery tasks of the bank workers. All calls to banks are made in these processes."""

from celery import shared_task
from django.conf import settings

from consultas import auctions, pending
from consultas.query import ask, end
from foundation import workers


@shared_task
def run_query(query_id: str) -> None:
    """Ask the query's banks for offers, and end the query."""
    ask.run(query_id)


@shared_task
def take_over() -> None:
    """Have the due queries asked or ended: their tasks were lost, their workers died, or their deadline is over."""
    end.take_over()


@shared_task
def look_up_auction(work: str, question: str) -> None:
    """Ask the service's own bank for an auction's record, and tell it at the end."""
    workers.answer_question(work, question, settings.BANK_TIMEOUT_S, auctions.run)


@shared_task
def check_steps() -> None:
    """Ask the banks for the external steps whose check is due."""
    pending.check_due()
