"""What runs in the bank workers for proposals: every call to a bank is made here."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings

from foundation import replies
from proposals import actions, retention, sending


@shared_task
def submit(proposal_id: str, reply_to: str) -> None:
    """Send a proposal to its bank; the row says what came of it, the reply only that it is there."""
    with replies.answering(reply_to, proposal_id, settings.PROPOSAL_WAIT_S):
        sending.run(proposal_id)


@shared_task
def act(call_id: str, reply_to: str) -> None:
    """Make a call that a partner asked for: formalize or cancel. Only the copy of the task that makes it answers."""
    if actions.take(call_id):
        with replies.answering(reply_to, call_id, settings.PROPOSAL_WAIT_S):
            actions.run(call_id)


@shared_task
def look(proposal_id: str, reply_to: str, request_id: str) -> None:
    """Ask a bank how a proposal stands; the row says it."""
    with replies.answering(reply_to, proposal_id, settings.PROPOSAL_WAIT_S):
        actions.look(proposal_id, request_id)


@shared_task
def purge() -> None:
    """Delete the rows whose retention time is over. Run by beat; calls no bank."""
    retention.purge()
