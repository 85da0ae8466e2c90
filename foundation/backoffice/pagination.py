"""How many rows a list of the back office has: counted up to a bound, since a list may have millions."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.utils.functional import cached_property

#: More rows are not counted, and not paged through: that is what filters are for.
MOST = 1_000


class MoreThan(int):
    """`MOST` and at least one more. Pages show the words, arithmetic takes the number."""

    def __str__(self) -> str:
        return f"mais de {MOST:,}".replace(",", ".")


class BoundedPaginator(Paginator):
    """Pages of a list whose rows are counted to `MOST` and no further."""

    @cached_property
    def count(self) -> int:
        """The number of rows, a `MoreThan` where there are more than `MOST`. Reads at most one row more than that."""
        rows = self.object_list
        if not isinstance(rows, QuerySet):
            return len(rows)
        found = rows.order_by().values("pk")[: MOST + 1].count()
        return MoreThan(found) if found > MOST else found
