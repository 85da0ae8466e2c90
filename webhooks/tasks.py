from datetime import timedelta

from celery import shared_task
from celery.signals import worker_shutting_down
from django.conf import settings
from django.utils import timezone

from webhooks import delivery, models


@shared_task
def deliver() -> None:
    delivery.of_this_process().run()


@worker_shutting_down.connect
def finish(**_: object) -> None:
    """Begin no further attempt. The worker then waits for the attempts in flight."""
    delivery.of_this_process().stop()


@shared_task
def purge() -> None:
    """Erase the content of events past `WEBHOOK_RETENTION_DAYS`."""
    models.purge(timezone.now() - timedelta(days=settings.WEBHOOK_RETENTION_DAYS))
