"""Celery tasks of the service itself."""

from datetime import timedelta

from axes.models import AccessAttempt
from celery import shared_task
from django.conf import settings
from django.contrib.sessions.models import Session
from django.utils import timezone

from foundation import batches, later, workers
from foundation.models import AuditEntry

shared_task(later.tick)


@shared_task
def pong(work: str, question: str) -> None:
    """The worker's answer to the readiness check."""
    workers.answer_question(work, question, 0, lambda: None)


@shared_task
def purge_log_ins() -> None:
    """Delete failed logins that no longer count, and expired sessions of the back office."""
    now = timezone.now()
    AccessAttempt.objects.filter(attempt_time__lt=now - settings.AXES_COOLOFF_TIME).delete()
    Session.objects.filter(expire_date__lt=now).delete()


@shared_task
def purge_audit() -> None:
    old = AuditEntry.objects.filter(at__lt=timezone.now() - timedelta(days=settings.AUDIT_RETENTION_DAYS))
    batches.delete_oldest(old, "at", batches.end_of_run())
