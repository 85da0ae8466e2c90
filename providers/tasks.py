"""Celery tasks of the bank workers for banks' accounts."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings

from foundation import channels
from providers import account


@shared_task
def try_account(work: str, message: str) -> None:
    """Log in to a bank with an account that an operator typed, and tell what is wrong with it."""
    channels.answer(work, settings.BANK_TIMEOUT_S, lambda: account.tried(message))
