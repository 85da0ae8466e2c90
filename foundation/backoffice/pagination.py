"""Pagination of back office lists. Rows are counted only up to a bound, because a list may have millions."""

from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.utils.functional import cached_property

#: Rows beyond this number are neither counted nor shown; operators use filters to reach them.
MOST = 1_000


class MoreThan(int):
    """The count of a list with more than `MOST` rows. As a number it is `MOST` + 1; as text it says "more than"."""

    def __str__(self) -> str:
        return f"mais de {MOST:,}".replace(",", ".")


def counted(rows: QuerySet[Any]) -> int:
    """The number of rows, or a `MoreThan` above `MOST`. Reads at most `MOST` + 1 rows."""
    number = rows.order_by().values("pk")[: MOST + 1].count()
    return MoreThan(number) if number > MOST else number


class BoundedPaginator(Paginator):
    """A paginator that counts at most `MOST` rows."""

    @cached_property
    def count(self) -> int:
        return counted(self.object_list) if isinstance(self.object_list, QuerySet) else len(self.object_list)
