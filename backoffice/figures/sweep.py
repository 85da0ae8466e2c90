"""Keeps the figures up to date: counts what is new, exactly once, and can count hours again.

`Progress` says how far each source is counted, in the same transaction as the counts. A sweep that dies, or runs twice,
therefore counts nothing twice. A row is counted `SETTLED_AFTER` its time, when it is final and its transaction has
ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Min, Model
from django.utils import timezone

from backoffice.figures import counting, metrics
from backoffice.figures.counting import KEYS, Tally, hour_of
from backoffice.figures.models import Progress, Source
from consultas.models import Query, Step
from consultas.retention import DEAD_AFTER
from proposals.models import Move

log = structlog.get_logger(__name__)

HOUR = timedelta(hours=1)
#: The rows of each source, and the column with the time that counts.
_ROWS: dict[Source, tuple[type[Model], str]] = {
    Source.QUERIES: (Query, "created_at"),
    Source.STEPS: (Step, "closed_at"),
    Source.MOVES: (Move, "at"),
}
#: The period that is counted in one transaction.
SLICE = timedelta(minutes=10)
#: How long one sweep runs, in seconds. The next one continues.
RUN_S = 50.0


def settled_after() -> timedelta:
    """The time after which everything about a row is stored. No query's row is written after this time."""
    return timedelta(seconds=settings.QUERY_DEADLINE_S) + DEAD_AFTER


def advance(now: datetime | None = None) -> dict[str, int]:
    """Count everything until now. Returns the number of rows by source. Starts with the oldest rows."""
    end, stop = (now or timezone.now()) - settled_after(), time.monotonic() + RUN_S
    counted = dict.fromkeys(Source.values, 0)
    behind = list(Source)
    for source in behind:
        _begin(source, end)
    while behind and time.monotonic() < stop:
        for source in list(behind):  # sources take turns, so that the history of one delays no other
            number, is_done = _advance_a_slice(source, end)
            counted[source] += number
            if is_done:
                behind.remove(source)
    log.info("figures_counted", **counted)
    return counted


def _begin(source: Source, end: datetime) -> None:
    """For a source that was never counted, store where its rows begin."""
    if Progress.objects.filter(pk=source).exists():
        return
    first = _first_row(source)
    until = end if first is None else min(hour_of(first), end)
    Progress.objects.get_or_create(source=source, defaults={"until": until})


def _first_row(source: Source) -> datetime | None:
    rows, column = _ROWS[source]
    first: datetime | None = rows._default_manager.aggregate(at=Min(column))["at"]
    return first


def _advance_a_slice(source: Source, end: datetime) -> tuple[int, bool]:
    """Count the source's next slice, at most until `end`. Returns the number of its rows, and True if no slice is
    left."""
    tally = Tally()
    with transaction.atomic():
        progress = Progress.objects.select_for_update().get(pk=source)
        if progress.until >= end:
            return 0, True
        until = min(end, progress.until + SLICE)
        number = counting.COUNT[source](progress.until, until, tally)
        tally.store()
        progress.until = until
        progress.save(update_fields=["until"])
    metrics.count(tally)
    return number, until == end


def counted_until() -> datetime | None:
    """The time until which everything is counted. None before the first sweep. One statement."""
    return min(Progress.objects.values_list("until", flat=True), default=None)


def countable_since(now: datetime | None = None) -> datetime:
    """The oldest hour whose rows all still exist. Retention deletes some rows of earlier hours, or their figures."""
    days = min(settings.QUERY_RETENTION_DAYS, settings.SUBMISSION_RETENTION_DAYS, settings.FIGURE_RETENTION_DAYS)
    return hour_of((now or timezone.now()) - timedelta(days=days)) + HOUR


def rebuild(since: datetime, until: datetime) -> Iterator[tuple[datetime, int]]:
    """Count the hours in [since, until) again, as far as they were counted. Yields each stored hour with its number of
    rows. Each hour is a transaction, so readers see the old figures or the new ones.

    Hours before `countable_since()` are skipped, because some of their rows are deleted.
    """
    hour = max(hour_of(since), countable_since())
    while hour < until:
        number = _rebuild_hour(hour)
        if number is None:
            return
        yield hour, number
        hour += HOUR


def _rebuild_hour(hour: datetime) -> int | None:
    """Count the hour again. Returns the number of its rows. None if no source was counted that far."""
    tally, number = Tally(), 0
    with transaction.atomic():
        counted = {each.source: each.until for each in Progress.objects.select_for_update().order_by("source")}
        if all(end <= hour for end in counted.values()):
            return None
        for model in KEYS:
            model._default_manager.filter(hour=hour).delete()
        for source, count in counting.COUNT.items():
            if source in counted and counted[source] > hour:
                number += count(hour, min(hour + HOUR, counted[source]), tally)
        tally.store()
    return number


def oldest() -> datetime | None:
    """The first hour with a figure, or with a row that can be counted. None if there is neither."""
    figures = [model._default_manager.aggregate(at=Min("hour"))["at"] for model in KEYS]
    return min((first for first in [*figures, *map(_first_row, Source)] if first), default=None)
