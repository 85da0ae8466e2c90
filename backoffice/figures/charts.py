"""The data of plots: bars over the hours of a day or over days, drawn by `figures/plot.html` and its style sheet."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from django.utils import timezone

#: The back office's colours, by their names in its style sheet. They can be told apart on light and dark pages.
BLUE, ORANGE, GREEN, RED = "info", "warn", "good", "bad"
PURPLE, GREY, SKY = "step", "quiet", "shut"
Number = int | float | Decimal | None


@dataclass(frozen=True)
class Line:
    """One series of a plot: its name, its colour, and a number for each slot."""

    name: str
    colour: str
    values: Sequence[Number]


@dataclass(frozen=True)
class Slot:
    """An hour or a day: what stands below it (often nothing), its numbers as the table has them, and its bars: of each
    the colour, and the part of the plot's height as a text, because a template would write a comma."""

    tick: str
    words: str
    bars: list[tuple[str, str]]


@dataclass(frozen=True)
class Plot:
    """A plot, with a table of the same numbers for those who cannot see it. `levels` are the numbers at its left, from
    the top. A plot without any number has no slots and no rows."""

    title: str
    stacked: bool
    legend: list[tuple[str, str]]
    levels: list[str]
    slots: list[Slot]
    head: list[str]
    rows: list[list[str]]


def plot(title: str, slots: Sequence[datetime], lines: Sequence[Line], *, stacked: bool = False) -> Plot:
    """A plot of `lines` over `slots`: hours or days. The table has those with a number, the newest first."""
    is_daily = any(later - earlier >= timedelta(days=1) for earlier, later in pairwise(slots))
    times = [timezone.localtime(slot) for slot in slots]
    names = [f"{time:%d/%m}" if is_daily else f"{time:%d/%m %Hh}" for time in times]
    columns = [[line.values[index] for line in lines] for index in range(len(slots))]
    is_whole = all(isinstance(value, int) for column in columns for value in column)
    top = _top(max((_height(column, stacked) for column in columns), default=0.0), is_whole=is_whole)
    drawn = [
        _slot(_tick(times, index, is_daily), name, lines, column, top)
        for index, (name, column) in enumerate(zip(names, columns, strict=True))
    ]
    rows = [[name, *map(shown, column)] for name, column in zip(names, columns, strict=True) if any(column)]
    return Plot(
        f"{title} por {'dia' if is_daily else 'hora'}",
        stacked,
        [(line.name, line.colour) for line in lines],
        [shown(top), shown(top / 2), "0"],
        drawn if rows else [],
        ["Dia" if is_daily else "Hora", *(line.name for line in lines)],
        rows[::-1],
    )


def _height(column: Sequence[Number], stacked: bool) -> float:
    values = [float(value or 0) for value in column]
    return sum(values) if stacked else max(values)


def _top(highest: float, *, is_whole: bool) -> float:
    """The number at the top of a plot: a round one, not below `highest`. With `is_whole`, its half is a whole number,
    because that stands at the plot, too."""
    if highest <= 0:
        return 2
    power = 10.0 ** math.floor(math.log10(highest))
    tops = (step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10))
    return next(top for top in tops if top >= highest * 0.999999 and not (is_whole and top % 2))


def _tick(times: Sequence[datetime], index: int, is_daily: bool) -> str:
    """What stands below a slot: the day at midnight, and every sixth hour; of many days, every fifth one."""
    time = times[index]
    if is_daily:
        every = 5 if len(times) > 10 else 1
        return f"{time:%d/%m}" if (len(times) - 1 - index) % every == 0 else ""
    if time.hour == 0:
        return f"{time:%d/%m}"
    return f"{time.hour}h" if time.hour % 6 == 0 or len(times) < 6 else ""


def _slot(tick: str, name: str, lines: Sequence[Line], column: Sequence[Number], top: float) -> Slot:
    told = list(zip(lines, column, strict=True))
    words = ", ".join(f"{line.name} {shown(value)}" for line, value in told)
    return Slot(tick, f"{name}: {words}", [(line.colour, f"{float(value or 0) / top:.1%}") for line, value in told])


def shown(value: Number) -> str:
    """A number in Portuguese notation, with at most two decimals."""
    if value is None:
        return "—"
    text = f"{value:,.2f}".rstrip("0").rstrip(".") if isinstance(value, float | Decimal) else f"{value:,}"
    return text.translate(str.maketrans(",.", ".,"))
