"""What pages of the back office show in a field or a column: links, small tables, amounts."""

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
    """A field of a row's page that is computed once, however often the page's template asks for it."""

    @wraps(show)
    def remembered(self: Any, row: Any) -> T:
        computed: dict[str, T] = row.__dict__.setdefault("_computed", {})
        if show.__name__ not in computed:
            computed[show.__name__] = show(self, row)
        return computed[show.__name__]

    return remembered


def link_to(model: str, key: Any, text: str = "") -> SafeString:
    """A link to the page of a row. `model` is as in `consultas_query`; without `text` the link shows the row's key."""
    return format_html(
        '<a class="text-link" href="{}">{}</a>', reverse(f"admin:{model}_change", args=[quote(key)]), text or key
    )


def reais(value: Decimal) -> str:
    """`R$ 1.234,50`."""
    return f"R$ {to_reais_text(value)}"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> SafeString:
    """A small table inside a page."""
    cell = SafeString('style="padding:.25rem 2rem .25rem 0;text-align:left;vertical-align:top"')

    def row(tag: str, values: Sequence[Any]) -> SafeString:
        cells = ((SafeString(tag), cell, value, SafeString(tag)) for value in values)
        return format_html("<tr>{}</tr>", format_html_join("", "<{} {}>{}</{}>", cells))

    lines = format_html_join("", "{}", ((row("td", values),) for values in rows))
    return format_html('<div class="wide" tabindex="0"><table>{}{}</table></div>', row("th", head), lines)
