from celery import shared_task

from authorizations import retention


@shared_task
def purge() -> None:
    """Delete sessions past `SESSION_RETENTION_DAYS` that nobody accepted. Run by beat."""
    retention.purge()
