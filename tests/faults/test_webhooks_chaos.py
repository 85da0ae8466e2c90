"""A short run of the chaos and load drivers, so that they stay runnable and what they show stays true."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.faults.webhooks_rig import ROOT


def run(module: str, *arguments: str) -> dict[str, Any]:
    """The report of a driver; fails when it says that an event was lost."""
    own = ("DATABASE_URL", "REDIS_URL", "DATA_DIR", "DJANGO_SETTINGS_MODULE")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    command = [sys.executable, "-m", f"tests.faults.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_every_accepted_event_arrives_whatever_is_killed() -> None:
    arguments = ("--seconds", "18", "--rate", "20", "--every", "2", "--lease", "5")
    report = run("webhooks_chaos", *arguments)

    assert report["accepted"] > 20
    assert (report["missing"], report["unsettled"]) == (0, 0)
    assert {fault["killed"] for fault in report["faults"]} >= {"courier-0", "postgres", "redis-wiped"}


def test_every_published_event_arrives_beside_a_dead_endpoint() -> None:
    report = run("webhooks_load", "--seconds", "5", "--rate", "40", "--tarpits", "1")

    assert report["accepted"] > 20
    assert report["missing"] == 0
