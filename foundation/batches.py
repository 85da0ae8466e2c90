"""Delete many rows in short transactions. Rows that another transaction has locked are left out."""

from __future__ import annotations

import time
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.expressions import Combinable

SIZE = 500
#: The longest time, in seconds, that one run of a sweep takes. The next run does the rest, so that a backlog neither
#: keeps a worker from ending nor piles up runs.
RUN_S = 1_200.0


def end_of_run() -> float:
    """When a run that begins now has to end, in monotonic seconds."""
    return time.monotonic() + RUN_S


def delete_oldest(old: QuerySet[Any], age: str, until: float, *conditions: Combinable) -> int:
    """Delete those of `old` for which `conditions` hold, oldest first; returns how many they were.

    It reads `old` by the column `age`, which needs an index, `SIZE` rows at a time. The conditions may read other
    tables. They are checked for these rows only, or the planner might read those tables whole for each batch. They are
    checked again after the rows are locked, because another transaction may refer to a row until its lock is taken.
    Locked rows are left out. No batch begins after `until` (monotonic seconds).
    """
    deleted = 0
    page = old
    while time.monotonic() < until:
        found = list(page.order_by(age, "pk").only(age)[:SIZE])
        with transaction.atomic():
            free = old.filter(*conditions, pk__in=[row.pk for row in found]).order_by("pk").only("pk")
            locked = [row.pk for row in free.select_for_update(skip_locked=True, of=("self",))]
            # Only the key, so that encrypted columns are not read.
            _, counts = old.filter(*conditions, pk__in=locked).only("pk").delete()
        deleted += counts.get(old.model._meta.label, 0)
        if len(found) < SIZE:
            break
        # Go on behind this page: rows that could not be deleted would be found again and again.
        last = getattr(found[-1], age)
        page = old.filter(Q(**{f"{age}__gt": last}) | Q(pk__gt=found[-1].pk), **{f"{age}__gte": last})
    return deleted
