"""Celery tasks of the bank workers for proposals. All calls to banks are made in these processes."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings

from foundation import channels
from proposals import actions, retention, sending, sweep


@shared_task
def submit(proposal_id: str) -> None:
    """Send a proposal to its bank. The outcome is stored in the row; the end only tells that it is stored."""
    channels.answer(proposal_id, settings.PROPOSAL_WAIT_S, lambda: sending.run(proposal_id))


@shared_task
def act(call_id: str) -> None:
    """Make a call that a partner asked for: formalize or cancel. Only the task's copy that makes the call answers."""
    if actions.take(call_id):
        channels.answer(call_id, settings.PROPOSAL_WAIT_S, lambda: actions.run(call_id))


@shared_task
def look(proposal_id: str, request_id: str) -> None:
    """Ask a bank for a proposal's status and store it in the row."""
    channels.answer(proposal_id, settings.PROPOSAL_WAIT_S, lambda: actions.look(proposal_id, request_id))


@shared_task
def check_due() -> None:
    """Ask the banks for the submissions and proposals whose check is due."""
    sweep.check_due()


@shared_task
def purge() -> None:
    """Delete rows whose retention has ended. Run by beat; calls no bank."""
    retention.purge()
