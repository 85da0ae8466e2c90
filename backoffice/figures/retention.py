"""How long figures stay. They hold no personal data: only their volume limits them."""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.conf import settings
from django.utils import timezone

from backoffice.figures.counting import KEYS, hour_of
from backoffice.figures.models import BreakerMove
from foundation import batches

log = structlog.get_logger(__name__)


def purge() -> dict[str, int]:
    """Delete figures of hours that are older than `FIGURE_RETENTION_DAYS`, and breakers' moves from before these.
    Returns how many rows of each table were deleted."""
    before, until = hour_of(timezone.now() - timedelta(days=settings.FIGURE_RETENTION_DAYS)), batches.end_of_run()
    deleted = {
        model._meta.label_lower: batches.delete_oldest(model._default_manager.filter(hour__lt=before), "hour", until)
        for model in KEYS
    }
    old = BreakerMove.objects.filter(at__lt=before)
    deleted[BreakerMove._meta.label_lower] = batches.delete_oldest(old, "at", until)
    log.info("figures_purged", **{name.replace(".", "_"): number for name, number in deleted.items()})
    return deleted
