"""Celery tasks of the bank workers for proposals. All calls to banks are made in these processes.

A function without arguments is a task under its own name: `proposals.retention.purge`.
"""

from functools import partial

from celery import shared_task
from django.conf import settings

from foundation import workers
from proposals import actions, retention, sending, sweep

for function in (sweep.check_due, retention.purge):
    shared_task(function)


@shared_task
def submit(proposal_id: str) -> None:
    """Send a proposal to its bank. The outcome is stored in the row; the end only tells that it is stored."""
    workers.answer(proposal_id, settings.PROPOSAL_WAIT_S, lambda: sending.run(proposal_id))


@shared_task
def act(work: str, question: str) -> None:
    """Make a call that a partner asked for: formalize or cancel."""
    workers.answer_question(work, question, settings.PROPOSAL_WAIT_S, partial(actions.run, work))


@shared_task
def look(work: str, question: str) -> None:
    """Ask a bank for a proposal's status and store it in the row."""
    workers.answer_question(work, question, settings.PROPOSAL_WAIT_S, actions.look)
