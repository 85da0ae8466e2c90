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
#: Nothing of the service may be away for longer, in seconds.
LONGEST_RECOVERY_S = 15.0
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
    """What grew beyond its bound. PostgreSQL's memory is left out: it counts what its processes share many times."""
    most = {
        name: MOST_CONNECTIONS if name == "connections" else 1.5 * each["first"] + 50 for name, each in growth.items()
    }
    return [name for name, each in growth.items() if each["last"] > most[name] and name != "MiB postgres"]


def commit() -> str:
    """The commit that ran; with a plus sign if files differ from it."""
    shown = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(shown, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def write(report: dict[str, Any], folder: Path) -> None:
    """Write a run into `folder`, named after its seed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{report['seed']}.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")


def table(runs: list[dict[str, Any]]) -> str:
    """The tables of the page: what happened in each run, what was broken, and the recoveries of all."""
    lines = ["| | " + " | ".join(f"seed {run['seed']}" for run in runs) + " |", "| --- |" + " --- |" * len(runs)]
    heads = ("commit", "minutes", *runs[0]["counts"])
    for head in heads:
        lines.append(f"| {head} | " + " | ".join(str(run.get(head, run["counts"].get(head))) for run in runs) + " |")
    for promise in runs[0]["broken"]:
        lines.append(f"| **{promise}** | " + " | ".join(str(run["broken"].get(promise)) for run in runs) + " |")
    lines += ["", "| fault | times | recovery s p50 | max |", "| --- | --- | --- | --- |"]
    together: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for fault, seconds in run["recovery_s"].items():
            together[fault] += seconds
    for fault, seconds in sorted(together.items()):
        lines.append(f"| {fault} | {len(seconds)} | {statistics.median(seconds):.1f} | {max(seconds):.1f} |")
    return "\n".join(lines) + "\n"


def kinds(struck: list[tuple[Fault, float]]) -> Counter[str]:
    """How often each fault happened."""
    return Counter(f"{fault.kind} {fault.target}" for fault, _ in struck)
