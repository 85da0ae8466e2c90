"""What a worker runs for the service itself."""

from __future__ import annotations

from celery import shared_task

from foundation import replies


@shared_task
def pong(request: str, reply_to: str) -> None:
    """The readiness check's other half."""
    replies.post(reply_to, request, replies.ANSWER, None)
