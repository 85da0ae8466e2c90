"""Short runs of the chaos and load drivers, so that they keep working and their results stay true.

Nothing here depends on the machine's speed: each fault happens a fixed number of times, and everything accepted until
then must arrive.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.faults.webhooks_rig import ROOT


def run(module: str, *arguments: str) -> dict[str, Any]:
    """Run a driver and return its report. Fails if the report says that an event was lost."""
    own = ("DATABASE_URL", "REDIS_URL", "DATA_DIR", "DJANGO_SETTINGS_MODULE", "PROMETHEUS_MULTIPROC_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    environment["WEB_CONCURRENCY"] = "1"  # a fault kills all web processes, and their start is expensive
    command = [sys.executable, "-m", f"tests.faults.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_every_query_and_finished_step_is_told_and_every_offer_sold_once_whichever_process_is_killed() -> None:
    report = run("api_chaos", "--every", "0.5", "--down", "0", "--rate", "3", "--lease", "5")

    assert (report["broken"], report["missing"]) == ([], 0)
    assert report["sales"]["acknowledged"] == report["sales"]["offers"] >= 8
    assert report["accepted"] >= report["steps_finished"] >= 4
    assert {fault["fault"] for fault in report["faults"]} >= {"web", "banks", "webhooks", "postgres", "redis-wiped"}


def test_every_accepted_event_arrives_whatever_is_killed() -> None:
    report = run("webhooks_chaos", "--rounds", "1", "--every", "0.5", "--rate", "20", "--lease", "5")

    assert (report["missing"], report["unsettled"]) == (0, 0)
    assert {fault["killed"] for fault in report["faults"]} >= {"courier-0", "postgres", "redis-wiped"}


def test_every_published_event_arrives_beside_a_dead_endpoint() -> None:
    report = run("webhooks_load", "--seconds", "3", "--rate", "40", "--tarpits", "1")

    assert report["missing"] == 0
