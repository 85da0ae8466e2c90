"""Celery tasks of the bank workers. All calls to banks are made in these processes.

A function without further arguments is a task under its own name: `consultas.query.ask.run`.
"""

from celery import shared_task
from django.conf import settings

from consultas import auctions, pending
from consultas.query import ask, end
from foundation import workers

for function in (ask.run, end.take_over, pending.check_due):
    shared_task(function)


@shared_task
def look_up_auction(work: str, question: str) -> None:
    """Ask the service's own bank for an auction's record, and tell it at the end."""
    workers.answer_question(work, question, settings.BANK_TIMEOUT_S, auctions.run)
