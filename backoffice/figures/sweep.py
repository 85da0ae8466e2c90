"""Keeps the figures up to date: counts what is new, exactly once, can count hours again, and deletes old figures.

`Progress` says how far everything is counted, in the same transaction as the counts. A sweep that dies, or runs twice,
therefore counts nothing twice. A row is counted `settled_after` its time, when it is final.
"""

import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Min, Model, QuerySet
from django.dispatch import receiver
from django.utils import timezone

from backoffice.figures import counting, metrics
from backoffice.figures.counting import KEYS, Tally, hour_of
from backoffice.figures.models import BreakerMove, Progress
from consultas.models import Query, Step
from consultas.retention import DEAD_AFTER, erasing
from foundation import batches
from proposals.models import Move

log = structlog.get_logger(__name__)

HOUR = timedelta(hours=1)
#: The rows that are counted, and the column with the time that counts.
_ROWS: tuple[tuple[type[Model], str], ...] = ((Query, "created_at"), (Step, "closed_at"), (Move, "at"))
#: The period that is counted in one transaction.
SLICE = timedelta(minutes=10)
#: How long one sweep runs, in seconds. The next one continues.
RUN_S = 50.0


def settled_after() -> timedelta:
    """The time after which everything about a row is stored. No query's row is written after this time."""
    return timedelta(seconds=settings.QUERY_DEADLINE_S) + DEAD_AFTER


def advance(now: datetime | None = None) -> Counter[str]:
    """Count everything until now, the oldest rows first. Returns the number of rows by kind."""
    end, stop = (now or timezone.now()) - settled_after(), time.monotonic() + RUN_S
    counted = Counter(dict.fromkeys(counting.COUNT, 0))
    if not Progress.objects.exists():
        first = _first_row()
        Progress.objects.get_or_create(pk=1, defaults={"until": end if first is None else min(hour_of(first), end)})
    while time.monotonic() < stop and (numbers := _advance_a_slice(end)) is not None:
        counted.update(numbers)
    log.info("figures_counted", **counted)
    return counted


def _first_row() -> datetime | None:
    oldest = [rows._default_manager.aggregate(at=Min(column))["at"] for rows, column in _ROWS]
    return min(filter(None, oldest), default=None)


def _advance_a_slice(end: datetime) -> dict[str, int] | None:
    """Count the next slice, at most until `end`. Returns the number of its rows by kind. None if no slice is left."""
    tally = Tally()
    with transaction.atomic():
        progress = Progress.objects.select_for_update().get()
        if progress.until >= end:
            return None
        until = min(end, progress.until + SLICE)
        numbers = {name: count(progress.until, until, tally) for name, count in counting.COUNT.items()}
        erased = [each for each in progress.erased if datetime.fromisoformat(each[0]) < until]
        tallies = [tally, *(Tally.of(counts) for _, counts in erased)]
        for each in tallies:
            each.store()
        progress.until, progress.erased = until, [each for each in progress.erased if each not in erased]
        progress.save(update_fields=["until", "erased"])
    for each in tallies:
        metrics.count(each)
    return numbers


@receiver(erasing)
def count_before(queries: QuerySet[Query], steps: QuerySet[Step], **_: Any) -> None:
    """Count what is about to be erased and was not counted yet. The counts are added when everything until their time
    is. Inside the transaction of the erasure."""
    progress = Progress.objects.select_for_update().first()
    if progress is None:
        return
    counts: tuple[tuple[Any, str, Any], ...] = (
        (queries, "created_at", counting.queries),
        (steps, "closed_at", counting.steps),
    )
    for rows, column, count in counts:
        for at in sorted(set(rows.filter(**{f"{column}__gte": progress.until}).values_list(column, flat=True))):
            tally = Tally()
            count(at, at + timedelta(microseconds=1), tally, rows)
            progress.erased.append([at.isoformat(), tally.as_data()])
    progress.save(update_fields=["erased"])


def counted_until() -> datetime | None:
    """The time until which everything is counted. None before the first sweep. One statement."""
    return Progress.objects.values_list("until", flat=True).first()


def countable_since(now: datetime | None = None) -> datetime:
    """The oldest hour whose rows all still exist. Retention deletes some rows of earlier hours, or their figures."""
    days = min(settings.QUERY_RETENTION_DAYS, settings.SUBMISSION_RETENTION_DAYS, settings.FIGURE_RETENTION_DAYS)
    return hour_of((now or timezone.now()) - timedelta(days=days)) + HOUR


def rebuild(since: datetime, until: datetime) -> Iterator[tuple[datetime, int]]:
    """Count the hours in [since, until) again, as far as they were counted and their rows still exist
    (`countable_since`). Yields each stored hour with its number of rows. Each hour is a transaction."""
    hour = max(hour_of(since), countable_since())
    while hour < until:
        number = _rebuild_hour(hour)
        if number is None:
            return
        yield hour, number
        hour += HOUR


def _rebuild_hour(hour: datetime) -> int | None:
    """Count the hour again. Returns the number of its rows. None if nothing was counted that far."""
    tally = Tally()
    with transaction.atomic():
        progress = Progress.objects.select_for_update().first()
        if progress is None or progress.until <= hour:
            return None
        for model in KEYS:
            model._default_manager.filter(hour=hour).delete()
        until = min(hour + HOUR, progress.until)
        number = sum(count(hour, until, tally) for count in counting.COUNT.values())
        tally.store()
    return number


def oldest() -> datetime | None:
    """The first hour with a figure, or with a row that can be counted. None if there is neither."""
    figures = [model._default_manager.aggregate(at=Min("hour"))["at"] for model in KEYS]
    return min(filter(None, [*figures, _first_row()]), default=None)


def purge() -> dict[str, int]:
    """Delete figures of hours that are older than `FIGURE_RETENTION_DAYS`, and breakers' moves from before these. They
    hold no personal data: only their volume limits them. Returns how many rows of each table were deleted."""
    before, until = hour_of(timezone.now() - timedelta(days=settings.FIGURE_RETENTION_DAYS)), batches.end_of_run()
    deleted = {
        model._meta.label_lower: batches.delete_oldest(model._default_manager.filter(hour__lt=before), "hour", until)
        for model in KEYS
    }
    old = BreakerMove.objects.filter(at__lt=before)
    deleted[BreakerMove._meta.label_lower] = batches.delete_oldest(old, "at", until)
    log.info("figures_purged", **{name.replace(".", "_"): number for name, number in deleted.items()})
    return deleted
