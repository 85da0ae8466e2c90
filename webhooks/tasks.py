from datetime import timedelta

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from webhooks import models


@shared_task
def purge() -> None:
    """Erase the content of events past `WEBHOOK_RETENTION_DAYS`."""
    models.purge(timezone.now() - timedelta(days=settings.WEBHOOK_RETENTION_DAYS))
