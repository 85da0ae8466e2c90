"""Keeps the figures up: counts what happened since the last time, once and no more; and counts hours anew.

How far each source is counted stands in `Progress`, in the transaction that adds the counts: a sweep that dies, or
comes twice, counts nothing twice. A row is counted once it is final and its transaction is over, `SETTLED_AFTER` its
moment.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Min
from django.utils import timezone

from consultas.models import Query, Step
from consultas.retention import DEAD_AFTER
from figures import counting, metrics
from figures.counting import KEYS, Tally, hour_of
from figures.models import BankHour, LatencyHour, Progress, QueryHour, ReasonHour, Source
from proposals.models import Move

log = structlog.get_logger(__name__)

HOUR = timedelta(hours=1)
#: What is counted in one transaction.
SLICE = timedelta(minutes=10)
#: For so many seconds one sweep goes on. Then the next one does.
RUN_S = 50.0


def settled_after() -> timedelta:
    """How long after its moment everything about a row is stored. No query is written to after this time."""
    return timedelta(seconds=settings.QUERY_DEADLINE_S) + DEAD_AFTER


def advance(now: datetime | None = None) -> dict[str, int]:
    """Count what happened until now; returns how many rows of each source. Begins with the oldest rows there are."""
    end, stop = (now or timezone.now()) - settled_after(), time.monotonic() + RUN_S
    counted = dict.fromkeys(Source.values, 0)
    behind = list(Source)
    for source in behind:
        _begin(source, end)
    while behind and time.monotonic() < stop:
        for source in list(behind):  # in turns, so that the history of one holds up no other
            number, is_done = _advance_a_slice(source, end)
            counted[source] += number
            if is_done:
                behind.remove(source)
    log.info("figures_counted", **counted)
    return counted


def _begin(source: Source, end: datetime) -> None:
    """Note for a source that was never counted where its rows begin."""
    if Progress.objects.filter(pk=source).exists():
        return
    oldest = {
        Source.QUERIES: lambda: Query.objects.aggregate(at=Min("created_at"))["at"],
        Source.STEPS: lambda: Step.objects.aggregate(at=Min("closed_at"))["at"],
        Source.MOVES: lambda: Move.objects.aggregate(at=Min("at"))["at"],
    }[source]()
    until = end if oldest is None else min(hour_of(oldest), end)
    Progress.objects.get_or_create(source=source, defaults={"until": until})


def _advance_a_slice(source: Source, end: datetime) -> tuple[int, bool]:
    """Count the next slice of the source, at most until `end`. Returns how many rows it had, and True if no other is
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
    """Up to which moment everything is counted; None before the first sweep. One statement."""
    return min(Progress.objects.values_list("until", flat=True), default=None)


def countable_since(now: datetime | None = None) -> datetime:
    """The oldest hour of which all rows are still there: before it the retention deletes some."""
    days = min(settings.QUERY_RETENTION_DAYS, settings.SUBMISSION_RETENTION_DAYS)
    return hour_of((now or timezone.now()) - timedelta(days=days)) + HOUR


def rebuild(since: datetime, until: datetime) -> Iterator[tuple[datetime, int]]:
    """Count anew the hours that begin in [since, until), as far as they were counted; yields each hour that it has
    stored, with how many rows it counted. Each hour is a transaction: readers see the old figures or the new ones.

    Hours before `countable_since()` are left out, since their rows are partly gone.
    """
    hour = max(hour_of(since), countable_since())
    while hour < until:
        number = _rebuild_hour(hour)
        if number is None:
            return
        yield hour, number
        hour += HOUR


def _rebuild_hour(hour: datetime) -> int | None:
    """Count the hour anew; returns how many rows it had. None where no source has come so far."""
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
    """The first hour that any figure is of; None where nothing was counted yet."""
    firsts = [
        model._default_manager.aggregate(at=Min("hour"))["at"]
        for model in (QueryHour, BankHour, ReasonHour, LatencyHour)
    ]
    return min((first for first in firsts if first), default=None)
