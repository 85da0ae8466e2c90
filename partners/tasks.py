from celery import shared_task

from partners import failed_calls


@shared_task
def purge_failed_calls() -> None:
    """Delete failed calls older than `FAILED_CALL_RETENTION_DAYS`."""
    failed_calls.purge()
