from celery import shared_task

from backoffice.figures import breaker_history, sweep


@shared_task
def advance() -> None:
    """Count what happened since the last call. Run by beat."""
    sweep.advance()
    breaker_history.fetch()


@shared_task
def purge() -> None:
    """Delete figures after `FIGURE_RETENTION_DAYS`. Run by beat."""
    sweep.purge()
