"""Celery tasks of the bank workers for banks' accounts."""

from celery import shared_task
from django.conf import settings

from foundation import workers
from providers import account


@shared_task
def try_account(work: str, question: str) -> None:
    """Log in to a bank with an account that an operator typed, and tell what is wrong with it."""
    workers.answer_question(work, question, settings.BANK_TIMEOUT_S, account.tried)
