"""Formats for values in the back office's fields and columns: links, small tables, amounts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import wraps
from typing import Any, TypeVar

from django.contrib.admin.utils import quote
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from foundation.formats import to_reais_text

T = TypeVar("T")


def computed_once(show: Callable[[Any, Any], T]) -> Callable[[Any, Any], T]:
    """Decorates a method for a page's field: the value is computed once per row, even if the template asks for it
    several times."""

    @wraps(show)
    def remembered(self: Any, row: Any) -> T:
        computed: dict[str, T] = row.__dict__.setdefault("_computed", {})
        if show.__name__ not in computed:
            computed[show.__name__] = show(self, row)
        return computed[show.__name__]

    return remembered


def link_to(model: str, key: Any, text: str = "") -> SafeString:
    """A link to a row's page. `model` is written as in `consultas_query`. Without `text` the link shows the row's
    key."""
    return format_html(
        '<a class="text-link" href="{}">{}</a>', reverse(f"admin:{model}_change", args=[quote(key)]), text or key
    )


def reais(value: Decimal) -> str:
    """An amount as `R$ 1.234,50`."""
    return f"R$ {to_reais_text(value)}"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> SafeString:
    """A small table inside a page. On a phone a row is a block, in which each cell begins with its column's title. A
    table whose titles are all empty has no head."""
    titles = format_html_join("", '<th scope="col">{}</th>', ((title,) for title in head))
    lines = format_html_join(
        "",
        "<tr>{}</tr>",
        ((format_html_join("", '<td data-title="{}">{}</td>', zip(head, values, strict=True)),) for values in rows),
    )
    top = format_html("<thead><tr>{}</tr></thead>", titles) if any(head) else ""
    return format_html(
        '<div class="wide" tabindex="0"><table class="inner">{}<tbody>{}</tbody></table></div>', top, lines
    )
