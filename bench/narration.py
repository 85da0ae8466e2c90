"""The tour's output: lines, titles, JSON and tables."""

from __future__ import annotations

import json
import sys
from typing import Any

from providers import registry

BANKS = registry.names()
WIDTH = 116


class NotAsShown(Exception):
    """An answer differs from what the tour says. The text names the difference."""


def expect(holds: bool, what: str) -> None:
    """Print `what` if it `holds`, else raise NotAsShown with it."""
    if not holds:
        raise NotAsShown(what)
    say("✓ " + what, "32")


def say(text: str = "", colour: str = "") -> None:
    """Print a line, in colour (an ANSI code) if the output is a terminal."""
    print(f"\033[{colour}m{text}\033[0m" if colour and text and sys.stdout.isatty() else text, flush=True)


def title(text: str) -> None:
    say()
    say(f"── {text} ".ljust(WIDTH, "─"), "1;36")


def show(value: dict[str, Any]) -> None:
    """Print a JSON object. Lists, and inner objects of a kind that was printed before, are shortened."""
    for line in _lines({name: _cut(item) for name, item in value.items()}, ""):
        say("    " + line, "2")


_kinds_shown: set[frozenset[str]] = set()


def _cut(value: Any) -> Any:
    if isinstance(value, list):
        rest = [f"… {len(value) - 1} more"] if len(value) > 3 else []
        return [_cut(item) for item in (value[:1] if rest else value)] + rest
    if not isinstance(value, dict):
        return value
    kind, length = frozenset(value), len(value)
    if length > 8 and kind in _kinds_shown:
        length = 3
    elif length > 3 and kind <= set(BANKS):
        length = 1
    _kinds_shown.add(kind)
    start = {name: _cut(item) for name, item in list(value.items())[:length]}
    return start | {"…": f"{len(value) - length} more"} if length < len(value) else start


def _lines(value: Any, name: str) -> list[str]:
    """Indented JSON. A value that fits on one line is printed on one."""
    line = name + json.dumps(value, ensure_ascii=False)
    if len(line) < WIDTH - 8 or not isinstance(value, list | dict):
        return [line]
    ends = "{}" if isinstance(value, dict) else "[]"
    items = (
        [(f'"{key}": ', item) for key, item in value.items()] if isinstance(value, dict) else [("", i) for i in value]
    )
    inner: list[str] = []
    for position, (label, item) in enumerate(items, start=1):
        inner += ["  " + each for each in _lines(item, label)]
        inner[-1] += "," if position < len(items) else ""
    return [name + ends[0], *inner, ends[1]]


def table(rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        say("    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
