"""What the benchmark's report says about its figures."""

from typing import Any
from xml.etree import ElementTree

from bench.report import cpu_plot, moved, page


def subject(cpu: float, ratios: list[float]) -> dict[str, Any]:
    parts = {"web_ms": cpu / 2, "banks_ms": cpu / 2, "postgres_ms": 1.0, "redis_ms": 0.5}
    return {"cpu_ms": cpu, **parts, "queries_per_s": 500 / cpu, "cpu_ratios": ratios, "rate_ratios": [1.0, 1.0, 1.0]}


def report(threads: list[float]) -> dict[str, Any]:
    return {"machine": "a machine", "compared": {"service": subject(10, [1, 1, 1]), "threads": subject(20, threads)}}


def test_only_what_left_the_noise_of_both_runs_has_moved() -> None:
    assert moved({}, report([2.0, 2.1, 1.9])) == []
    assert moved(report([2.0, 2.1, 1.9]), report([2.05, 2.3, 2.2])) == []
    assert moved(report([2.0, 2.1, 1.9]), report([1.5, 1.4, 1.8])) == [
        "cpu of threads in the view / ours: 2.00 before, 1.50 now"
    ]


def test_the_page_tells_ratios_of_the_service_to_its_peers() -> None:
    lines = page(report([2.0, 2.1, 1.9])).splitlines()
    assert "| threads in the view | 20 | 10.0 | 10.0 | 1.0 | 0.5 | 25.0 | 0.50 | 2.00 |" in lines


def test_the_plot_is_svg_with_a_bar_for_each_part_of_each_subject() -> None:
    plot = ElementTree.fromstring(cpu_plot(report([2.0])["compared"]))
    bars = [each for each in plot if each.get("height") == "22"]
    assert [float(bar.get("width") or 0) > 0 for bar in bars] == [True] * 8
