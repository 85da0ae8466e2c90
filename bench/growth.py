"""How the cost of a query grows with the number of banks asked, of a bank's offers, of partners, and of rows in the
tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bench import measure
from bench.processes import ROOT, Rig, Subject

BANKS = (2, 4, 8, 16)
#: Each bank makes two offers; this is how often it repeats each.
OFFERS_TIMES = (1, 5, 25)
PARTNERS = (1, 1000)
Figures = dict[str, float]


def growth(rig: Rig, count: int, rounds: int, rows: int) -> dict[str, Any]:
    """CPU milliseconds of a query by process: medians of `rounds` rounds of `count` queries, in which the values of one
    cause take turns. `rows` is the number of queries in the filled tables (0: not measured)."""
    service = rig.service("growth", ROOT, 4, ("web", "banks"), {"DJANGO_SETTINGS_MODULE": "bench.copies"})
    try:
        figures = _measured(rig, service, count, rounds, rows)
    finally:
        rig.simulator.latency({})
        rig.stop(service)
    return figures


def _measured(rig: Rig, service: Subject, count: int, rounds: int, rows: int) -> dict[str, Any]:
    keys = {banks: _keys(service, 1, banks) for banks in BANKS}
    many = {number: _keys(service, number, 8) for number in PARTNERS}
    service.wait_ready()
    rig.simulator.latency({})
    measure.one_round(rig, service, count, keys[16])  # opens connections and fetches tokens
    figures: dict[str, Any] = {
        "banks": _by_turns(rig, service, count, rounds, {str(banks): (keys[banks], 1) for banks in BANKS}),
        "partners": _by_turns(rig, service, count, rounds, {str(number): (many[number], 1) for number in PARTNERS}),
        "offers of a bank": _by_turns(
            rig, service, count, rounds, {str(2 * times): (keys[8], times) for times in OFFERS_TIMES}
        ),
    }
    if rows:
        before = _by_turns(rig, service, count, rounds, {"few": (keys[8], 1)})
        service.run("-m", "bench.fill", "--queries", str(rows))
        figures["rows"] = before | _by_turns(rig, service, count, rounds, {f"{rows:,} queries": (keys[8], 1)})
    return figures


def _keys(service: Subject, count: int, banks: int) -> list[str]:
    keys: list[str] = json.loads(service.run("-m", "bench.partners", str(count), str(banks)))
    return keys


def _by_turns(
    rig: Rig, service: Subject, count: int, rounds: int, values: Mapping[str, tuple[Sequence[str], int]]
) -> dict[str, Figures]:
    """The median figures for each value of one cause. A value is its keys and how often a bank repeats an offer."""
    figures: dict[str, list[Figures]] = {value: [] for value in values}
    for _ in range(rounds):
        for value, (keys, times) in values.items():
            rig.simulator.latency({}, times)
            one, outcome = measure.one_round(rig, service, count, keys)
            if outcome.failures:
                raise SystemExit(f"{outcome.failures} queries failed while {value} was measured")
            figures[value].append(one | {"offers": max(outcome.offers)})
    return {
        value: {name: measure.median(each[name] for each in rounds_) for name in rounds_[0]}
        for value, rounds_ in figures.items()
    }
