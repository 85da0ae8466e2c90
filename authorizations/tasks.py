from celery import shared_task

from authorizations import codes, endings, retention, watch


@shared_task
def purge() -> None:
    """Delete sessions past `SESSION_RETENTION_DAYS` that nobody accepted. Run by beat."""
    retention.purge()


@shared_task
def expire() -> None:
    """End the pending sessions whose time is over, and tell their partners. Swept by beat."""
    endings.expire_due()


@shared_task
def check_evidence() -> None:
    """Check the whole chain of evidence. Run daily by beat."""
    watch.check()


@shared_task
def tell_head() -> None:
    """Tell the end of the chain in a log line. Run by beat."""
    watch.tell_head()


@shared_task
def send_code(session_pk: int) -> None:
    """Send the code that a holder asked for."""
    codes.send(session_pk)
