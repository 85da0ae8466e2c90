from celery import shared_task

from figures import breaker_history, sweep


@shared_task
def advance() -> None:
    """Count what happened since the last call. Run by beat."""
    sweep.advance()
    breaker_history.fetch()
