"""The report of a run: counts, what was found, and how long each kind of fault lasted for partners."""

from __future__ import annotations

import json
import statistics
import subprocess
from bisect import bisect_right
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from bench.proof.backend import Diary
from bench.proof.receivers import Endpoint
from bench.proof.rig import ROOT
from bench.proof.schedule import KINDS as OF_SERVICE
from bench.proof.schedule import Fault

PAGE = ROOT / "docs" / "proof.md"
RUNS = ROOT / "docs" / "proof"
#: Between these lines the page is made from the runs beside it.
BEGIN, END = "<!-- runs -->", "<!-- end of runs -->"
#: Eight for each of the ten processes with a pool, and those of beat, the operator and this run.
MOST_CONNECTIONS = 90


def recoveries(
    struck: list[tuple[Fault, float]], diary: Diary, endpoint: Endpoint, stored: dict[str, float]
) -> dict[str, list[float]]:
    """By kind of fault: the seconds until both a query or submission that began after it was answered, and an event
    that was `stored` after it arrived."""
    calls = [
        (call.at, call.done_at)
        for call in diary.calls
        if call.what in ("consultas", "proposals") and call.status and call.status < 300
    ]
    first: dict[str, float] = {}
    for delivery in endpoint.taken:
        first.setdefault(delivery.id, delivery.at)
    events = [(created, first[key]) for key, created in stored.items() if key in first]
    found: dict[str, list[float]] = defaultdict(list)
    ends = [_Ends(calls), _Ends(events)]
    for fault, at in struck:
        if fault.kind in OF_SERVICE and fault.kind != "clock":
            found[f"{fault.kind} {fault.target.partition('-')[0]}"].append(
                round(max(0.0, *(end.after(at) - at for end in ends)), 1)
            )
    return dict(sorted(found.items()))


class _Ends:
    """Finds, for a moment, the earliest end of what began after it."""

    def __init__(self, spans: list[tuple[float, float]]) -> None:
        spans.sort()
        self._begins = [begin for begin, _ in spans]
        self._ends = [end for _, end in spans]
        for index in range(len(spans) - 2, -1, -1):
            self._ends[index] = min(self._ends[index], self._ends[index + 1])

    def after(self, moment: float) -> float:
        index = bisect_right(self._begins, moment)
        return self._ends[index] if index < len(self._ends) else moment


def growth(samples: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Of each measured thing: its median in the first and the last quarter of the samples, and its maximum."""
    quarter = max(1, len(samples) // 4)
    return {
        name: {
            "first": round(statistics.median(each[name] for each in samples[:quarter] if name in each), 1),
            "last": round(statistics.median(each[name] for each in samples[-quarter:] if name in each), 1),
            "max": round(max(each[name] for each in samples if name in each), 1),
        }
        for name in sorted(samples[0].keys() & samples[-1].keys())
    }


def grown(growth: dict[str, dict[str, float]]) -> list[str]:
    """What grew beyond its bound. PostgreSQL's memory is left out: it counts many times what its processes share."""
    bounds = {name: 1.5 * each["first"] + 50 for name, each in growth.items()} | {"connections": MOST_CONNECTIONS}
    return [name for name, each in growth.items() if each["last"] > bounds[name] and name != "MiB postgres"]


def commit() -> str:
    """The commit that ran; with a plus sign if files differ from it."""
    shown = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(shown, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def write(report: dict[str, Any], folder: Path) -> None:
    """Write a run into `folder`, named after its seed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{report['seed']}.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")


def fill_page() -> None:
    """Write the tables of all runs in docs/proof into the page."""
    runs = [json.loads(file.read_text("utf-8")) for file in sorted(RUNS.glob("*.json"))]
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables(runs)}\n{END}{after}", "utf-8")


def tables(runs: list[dict[str, Any]]) -> str:
    """What happened in each run and what was broken, and how long the faults of all lasted."""
    rows = [["commit", *(run["commit"] for run in runs)], ["minutes", *(run["minutes"] for run in runs)]]
    counts = dict.fromkeys(name for run in runs for name in run["counts"])
    rows += [[name, *(run["counts"].get(name, "-") for run in runs)] for name in counts]
    broken = {name: [run["broken"].get(name, "-") for run in runs] for name in runs[0]["broken"]}
    rows += [[f"**{name}**", *found] for name, found in broken.items() if any(found)]
    kept = "".join(f"- {name}\n" for name, found in broken.items() if not any(found))
    together: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for fault, seconds in run["recovery_s"].items():
            together[fault] += seconds
    lasted = [
        [fault, len(each), f"{statistics.median(each):.1f}", max(each)] for fault, each in sorted(together.items())
    ]
    heads = ["", *(f"seed {run['seed']}" for run in runs)]
    faults = _table(["fault", "times", "s until it is over: p50", "max"], lasted)
    return f"{_table(heads, rows)}\nCounted, and zero in every run:\n\n{kept}\n{faults}"


def _table(heads: list[str], rows: list[list[Any]]) -> str:
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in (heads, ["---"] * len(heads), *rows))


def kinds(struck: list[tuple[Fault, float]]) -> Counter[str]:
    """How often each fault happened."""
    return Counter(f"{fault.kind} {fault.target}" for fault, _ in struck)
