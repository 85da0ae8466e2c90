"""The report of a run: JSON, a page with tables, plots, and the changes since the committed report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: The committed report.
COMMITTED = ROOT / "docs" / "benchmark"
_NAMES = {
    "service": "the service",
    "before": "the service, older",
    "threads_before": "threads in the view, older",
    "threads": "threads in the view",
    "floor": "calls only (aiohttp)",
}
_COLOURS = {"web": "#1f77b4", "banks": "#ff7f0e", "postgres": "#2ca02c", "redis": "#d62728"}
_PARTS = tuple(_COLOURS)
#: The parts with open loads: their headings, and what the shares are shares of.
_OPEN = (
    ("open", "Open load", "The capacity is the highest rate with banks that answer at once."),
    ("slow", "Open load, shares of the rate with slow banks", "The capacity is the highest rate with the same banks."),
)
_OPEN_SAYS = "Queries come at random moments at a given rate, and do not wait for earlier ones."


def write(report: Mapping[str, Any], folder: Path) -> None:
    """Write `report.json`, `README.md` and the plots into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    (folder / "README.md").write_text(page(report))
    if "compared" in report:
        (folder / "cpu.svg").write_text(cpu_plot(report["compared"]))


def page(report: Mapping[str, Any]) -> str:
    """The report as Markdown, ratios first: what a query, a call and an event cost, alone and under load."""
    lines = [
        "# Benchmark",
        "",
        f"By `make bench` on {report['machine']}. Compare ratios within a run, not figures of two.",
        "`report.json` has every figure, closed load, streams, idle and growth too.",
        "",
    ]
    if "compared" in report:
        lines += _compared(report["compared"])
    if "routes" in report:
        figures = ("web_ms", "worker_ms", "p50_ms", "failures")
        rows = [[name, *(each[figure] for figure in figures)] for name, each in report["routes"].items()]
        lines += ["## Routes", "", *_table(["call", "web CPU ms", "worker CPU ms", "p50 ms", "failures"], rows)]
        repeat = report["routes"]["repeat"]
        shares = f"{repeat['share_of_query']:.0%}", f"{repeat['share_of_query_in_both']:.0%}"
        lines += ["A repeat costs the web process {} of a query, web and worker together {}.".format(*shares), ""]
    for part, heading, capacity in _OPEN:
        if part in report:
            lines += [f"## {heading}", "", f"{capacity} {_OPEN_SAYS}", "", *_open(report[part])]
    if "webhooks" in report:
        lines += ["## Webhooks", "", *_side_by_side("load", report["webhooks"])]
    return "\n".join(lines).rstrip() + "\n"


def _compared(compared: Mapping[str, Any]) -> list[str]:
    lines = ["## One query, beside peers in the same run", ""]
    ours = compared["service"]
    rows = []
    for name, each in compared.items():
        share = ours["cpu_ms"] / each["cpu_ms"]
        parts = [each.get(f"{part}_ms", "-") for part in _PARTS]
        rate = ours["queries_per_s"] / each["queries_per_s"]
        rows.append(
            [_NAMES.get(name, name), each["cpu_ms"], *parts, each["queries_per_s"], f"{share:.2f}", f"{rate:.2f}"]
        )
    heads = [
        "",
        "web + worker CPU ms",
        "web",
        "worker",
        "PostgreSQL",
        "Redis",
        "queries/s",
        "ours / theirs: CPU",
        "rate",
    ]
    return [*lines, *_table(heads, rows), "![CPU of one query](cpu.svg)", ""]


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    lines = [" | ".join(map(str, row)) for row in (heads, ["---"] * len(heads), *rows)]
    return [*(f"| {line} |" for line in lines), ""]


def _open(loads: Mapping[str, Any]) -> list[str]:
    columns = ["offered_per_s", "accepted_per_s", "statuses", "banks_lost", "added_p50_ms", "added_p99_ms", "cpu_ms"]
    rows = [[name, *(_plain(each[column]) for column in columns)] for name, each in loads.items()]
    return _table(["load", *(column.replace("_", " ") for column in columns)], rows)


def _side_by_side(what: str, rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A table with one line per entry of `rows`, which all have the same figures."""
    columns = list(next(iter(rows.values())))
    lines = [[name, *(_plain(each[column]) for column in columns)] for name, each in rows.items()]
    return _table([what, *(column.replace("_", " ") for column in columns)], lines)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {each}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def cpu_plot(compared: Mapping[str, Any]) -> str:
    """An SVG bar chart: CPU of one query by process, one bar per subject."""
    width, height, left = 640, 34, 170
    most = max(sum(each.get(f"{part}_ms", 0) for part in _PARTS) for each in compared.values())
    scale = (width - left - 70) / most
    shapes = []
    for row, (name, each) in enumerate(compared.items()):
        x, y = float(left), 10 + row * height
        shapes.append(f'<text x="{left - 8}" y="{y + 16}" text-anchor="end">{_NAMES.get(name, name)}</text>')
        for part, colour in _COLOURS.items():
            long = each.get(f"{part}_ms", 0) * scale
            shapes.append(f'<rect x="{x:.1f}" y="{y}" width="{long:.1f}" height="22" fill="{colour}"/>')
            x += long
        shapes.append(f'<text x="{x + 6:.1f}" y="{y + 16}">{(x - left) / scale:.1f} ms</text>')
    end = 20 + len(compared) * height
    for index, (part, colour) in enumerate(_COLOURS.items()):
        x = left + index * 110
        shapes.append(f'<rect x="{x}" y="{end}" width="12" height="12" fill="{colour}"/>')
        shapes.append(f'<text x="{x + 18}" y="{end + 11}">{part}</text>')
    look = f'viewBox="0 0 {width} {end + 24}" font-family="sans-serif" font-size="13"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {look}>'
    return "\n".join([head, f'<rect width="{width}" height="{end + 24}" fill="white"/>', *shapes, "</svg>", ""])


def moved(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The differences between two reports that exceed the variation between rounds. Only ratios to the peers are
    compared, because the machine may be a different or busier one."""
    lines = []
    for name in sorted(old.get("compared", {}).keys() & new.get("compared", {}).keys() - {"service"}):
        for figure in ("cpu_ratios", "rate_ratios"):
            before, after = (report["compared"][name].get(figure) for report in (old, new))
            if before and after and (min(before) > max(after) or max(before) < min(after)):
                middle = [sorted(each)[len(each) // 2] for each in (before, after)]
                what = figure.removesuffix("_ratios")
                lines.append(f"{what} of {_NAMES.get(name, name)} / ours: {middle[0]:.2f} before, {middle[1]:.2f} now")
    return lines
