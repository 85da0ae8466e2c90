from celery import shared_task

from authorizations import chain, codes, retention, sessions


@shared_task
def purge() -> None:
    """Delete sessions that nobody accepted, older than `SESSION_RETENTION_DAYS`. Run by beat."""
    retention.purge()


@shared_task
def expire() -> None:
    """End the pending sessions whose time has passed, and send the events. Run by beat."""
    sessions.expire_due()


@shared_task
def check_evidence() -> None:
    """Verify the whole chain of evidence. Run daily by beat."""
    chain.check()


@shared_task
def tell_head() -> None:
    """Write the head of the chain to the log. Run by beat."""
    chain.log_head()


@shared_task
def send_codes() -> None:
    """Send the codes that holders requested."""
    codes.send_due()
