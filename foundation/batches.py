"""Delete many rows without holding them: short transactions, each over rows that nobody else holds."""

from __future__ import annotations

import time
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.expressions import Combinable

SIZE = 500
#: So long one run of a sweep goes on. What is left then is the next run's, so that a backlog neither keeps a worker
#: from ending nor piles up runs.
RUN_S = 1_200.0


def end_of_run() -> float:
    """When a run that begins now has to end, in monotonic seconds."""
    return time.monotonic() + RUN_S


def delete_oldest(old: QuerySet[Any], age: str, until: float, *conditions: Combinable) -> int:
    """Delete those of `old` for which `conditions` hold, oldest first; returns how many they were.

    It goes through `old` by the column `age`, whose index has to serve it, `SIZE` rows at a time. The conditions,
    which may ask other tables, are only asked of these, or the planner might read those tables whole for each batch.
    They are asked once more under the lock, since a lock does not keep others from pointing to a row until it is
    there. Rows that somebody holds are left out. Begins no batch after `until` (monotonic seconds).
    """
    deleted = 0
    page = old
    while time.monotonic() < until:
        found = list(page.order_by(age, "pk").only(age)[:SIZE])
        with transaction.atomic():
            free = old.filter(*conditions, pk__in=[row.pk for row in found]).order_by("pk").only("pk")
            locked = [row.pk for row in free.select_for_update(skip_locked=True, of=("self",))]
            # Only the key: what is encrypted is not read to be deleted.
            _, counts = old.filter(*conditions, pk__in=locked).only("pk").delete()
        deleted += counts.get(old.model._meta.label, 0)
        if len(found) < SIZE:
            break
        # Not from the start again: what could not be deleted would be found each time.
        last = getattr(found[-1], age)
        page = old.filter(Q(**{f"{age}__gt": last}) | Q(pk__gt=found[-1].pk), **{f"{age}__gte": last})
    return deleted
