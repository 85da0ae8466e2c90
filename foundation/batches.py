"""Many rows: read in pages, and deleted in short transactions without those that another transaction has locked."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.expressions import Combinable

from foundation.later import lock_free

SIZE = 500


@dataclass(frozen=True)
class Erased:
    """What an app did with the rows of one holder: the numbers of rows that it erased, that it kept as proof, and that
    it left because their work is running, each by kind. `references` are those of events about the ended ones."""

    erased: dict[str, int]
    kept: dict[str, int]
    left: dict[str, int] = field(default_factory=dict)
    references: Sequence[str] = ()


#: The longest time of one run of a sweep, in seconds. The next run continues. A backlog therefore neither blocks a
#: worker from stopping nor accumulates runs.
RUN_S = 1_200.0


def end_of_run() -> float:
    """The latest end of a run that begins now, in monotonic seconds."""
    return time.monotonic() + RUN_S


def pages(rows: QuerySet[Any], column: str, size: int) -> Iterator[list[Any]]:
    """`rows` in the order of `column`, which is named as in `order_by`, and of their keys: `size` at a time. Each page
    starts after the last row of the one before, so every page costs the same, and none repeats a row that stays."""
    field, order, beyond = (column[1:], "-", "lt") if column.startswith("-") else (column, "", "gt")
    ordered = rows.order_by(f"{order}{field}", f"{order}pk")
    page = list(ordered[:size])
    while page:
        yield page
        if len(page) < size:
            return
        last, pk = getattr(page[-1], field), page[-1].pk
        behind = Q(**{f"{field}__{beyond}": last}) | Q(**{f"pk__{beyond}": pk})
        page = list(ordered.filter(behind, **{f"{field}__{beyond}e": last})[:size])


def delete_oldest(old: QuerySet[Any], age: str, until: float, *conditions: Combinable) -> int:
    """Delete rows of `old` that meet `conditions`, oldest first. Returns the number of deleted rows.

    Reads `old` in the order of the indexed column `age`, `SIZE` rows at a time. `conditions` may read other tables.
    They are checked per batch, because otherwise the planner might read those tables completely. They are checked again
    once the rows are locked, because another transaction may add a reference before that. No batch begins after `until`
    (monotonic seconds).
    """
    deleted = 0
    for page in pages(old.only(age), age, SIZE):
        if time.monotonic() >= until:
            break
        with transaction.atomic():
            free = old.filter(*conditions, pk__in=[row.pk for row in page]).order_by("pk").only("pk")
            locked = [row.pk for row in lock_free(free)]
            # `only("pk")` avoids reading encrypted columns.
            _, counts = old.filter(*conditions, pk__in=locked).only("pk").delete()
        deleted += counts.get(old.model._meta.label, 0)
    return deleted
