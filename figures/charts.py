"""The data of plots in the form of the theme's chart components."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Any

from django.utils import timezone

#: Colours that can be told apart on light and dark pages and with colour blindness (Okabe and Ito).
BLUE, ORANGE, GREEN, RED = "#0072b2", "#e69f00", "#009e73", "#d55e00"
PURPLE, GREY, SKY = "#cc79a7", "#8c8c8c", "#56b4e9"
#: The maximum number of hours in the table of a plot.
_TABLE_ROWS = 48
_GREY_TEXT = "#737373"
_POINT = 3


@dataclass(frozen=True)
class Line:
    """One line of a plot: its name, its colour, and a number for each hour."""

    name: str
    colour: str
    values: Sequence[int | float | Decimal | None]


@dataclass(frozen=True)
class Plot:
    """A plot over hours, with a table of the same numbers for users who cannot see it. `data` and `options` are
    JSON."""

    title: str
    data: str
    options: str
    is_bars: bool
    head: list[str]
    rows: list[list[str]]

    @property
    def component(self) -> str:
        return f"unfold/components/chart/{'bar' if self.is_bars else 'line'}.html"


def plot(
    title: str, hours: Sequence[datetime], lines: Iterable[Line], *, stacked: bool = False, bars: bool = True
) -> Plot:
    """A plot of `lines` over `hours`. A day is shown as bars (unless `bars` is False), longer periods as lines. The
    table has the newest non-empty hours, at most 48."""
    drawn = list(lines)
    is_a_day = len(hours) <= 48
    is_bars = bars and is_a_day
    label = "%Hh" if is_a_day else "%d/%m %Hh"
    times = [timezone.localtime(hour) for hour in hours]
    data = {
        "labels": [time.strftime(label) for time in times],
        "datasets": [
            {
                "label": line.name,
                "data": [float(value) if isinstance(value, Decimal) else value for value in line.values],
                "borderColor": line.colour,
                "backgroundColor": line.colour,
                "pointRadius": 0 if is_bars else _radii(line.values),
                "borderWidth": 0 if is_bars else 1.5,
                "fill": stacked and not is_bars,
            }
            for line in drawn
        ],
    }
    all_rows = (
        [times[index].strftime("%d/%m %Hh"), *(shown(line.values[index]) for line in drawn)]
        for index in reversed(range(len(hours)))
        if any(line.values[index] for line in drawn)
    )
    rows = list(islice(all_rows, _TABLE_ROWS))
    return Plot(title, json.dumps(data), json.dumps(_options(stacked)), is_bars, [line.name for line in drawn], rows)


def _radii(values: Sequence[int | float | Decimal | None]) -> list[int]:
    """The size of each hour's point. Only an hour without figures on both sides has one: no line leads to it."""
    edged = [None, *values, None]
    return [_POINT if value and not edged[index] and not edged[index + 2] else 0 for index, value in enumerate(values)]


def shown(value: int | float | Decimal | None) -> str:
    """A number in Portuguese notation, with at most two decimals."""
    if value is None:
        return "—"
    text = f"{value:,.2f}".rstrip("0").rstrip(".") if isinstance(value, float | Decimal) else f"{value:,}"
    return text.translate(str.maketrans(",.", ".,"))


def _options(stacked: bool) -> dict[str, Any]:
    """Without animation, which takes a slow machine a second per plot."""
    ticks = {"color": _GREY_TEXT, "maxRotation": 0, "autoSkipPadding": 16}
    return {
        "animation": False,
        "responsive": True,
        "maintainAspectRatio": False,
        "interaction": {"mode": "index", "intersect": False},
        "plugins": {"legend": {"display": True, "align": "start", "labels": {"color": _GREY_TEXT, "boxWidth": 12}}},
        "scales": {
            "x": {"stacked": stacked, "ticks": ticks, "grid": {"display": False}},
            "y": {"stacked": stacked, "beginAtZero": True, "ticks": {"color": _GREY_TEXT, "precision": 0}},
        },
    }
