from celery import shared_task

from authorizations import endings, retention


@shared_task
def purge() -> None:
    """Delete sessions past `SESSION_RETENTION_DAYS` that nobody accepted. Run by beat."""
    retention.purge()


@shared_task
def expire() -> None:
    """End the pending sessions whose time is over, and tell their partners. Swept by beat."""
    endings.expire_due()
