"""The back office's computed columns and fields, and how values stand in them: links, small tables, amounts."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from foundation.formats import to_reais_text


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a list, or a field of a row's page: its title, and the function that computes it. A template asks
    several times, and the value is computed once for each row.

    Django and the theme read the other two. A list is sorted by the model's column `admin_order_field`. `label` has the
    colours of the values; the value may be a pair of what decides the colour, and the words.
    """

    short_description: str
    show: Callable[[Any], Any]
    admin_order_field: str | None = None
    label: Mapping[Any, str] | None = None

    def __call__(self, row: Any) -> Any:
        shown: dict[Column, Any] = vars(row).setdefault("_shown", {})
        if self not in shown:
            shown[self] = self.show(row)
        return shown[self]


def link(address: str, text: Any) -> SafeString:
    return format_html('<a class="text-link" href="{}">{}</a>', address, text)


def breakable(text: str) -> SafeString:
    """A code such as `pending_formalization`: a narrow column breaks it after an underscore and not within a word."""
    return format_html_join(mark_safe("<wbr>"), "{}", ((part,) for part in re.split("(?<=_)", text)))


def reais(value: Decimal) -> str:
    """An amount as `R$ 1.234,50`."""
    return f"R$ {to_reais_text(value)}"


def in_reais(title: str, name: str) -> Column:
    """The amount in the model's column `name`."""
    return Column(title, lambda row: "—" if (amount := getattr(row, name)) is None else reais(amount), name)


@dataclass(frozen=True)
class Table:
    """A table of a page. The first column is the row's title. On a phone a row is a block, in which each cell begins
    with its column's title."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]] = ()
    empty: str = "Nada neste período."

    def titled_rows(self) -> list[list[tuple[str, Any]]]:
        """The rows, each cell with its column's title."""
        return [list(zip(self.head, row, strict=True)) for row in self.rows]


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> SafeString:
    """A small table inside a row's page; a dash without rows."""
    return render_to_string("backoffice/table.html", {"table": Table(head, list(rows), "—")})
