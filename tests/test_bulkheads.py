"""A hanging bank must not cost the other banks anything: pairs of settings that have to fit each other."""

from __future__ import annotations

import re
from pathlib import Path

from config.local.run import service_processes
from providers.models import Provider

ROOT = Path(__file__).resolve().parent.parent


def test_a_bank_worker_has_more_tasks_than_a_bank_has_places(tmp_path: Path) -> None:
    """Before the fix, these were 500 and 512: twenty queries a second filled all tasks before the breaker opened."""
    places = Provider._meta.get_field("max_in_flight").default
    assert min(tasks_of_bank_workers(tmp_path)) > places


def tasks_of_bank_workers(folder: Path) -> list[int]:
    """How many tasks a bank worker runs at once: under `make run`, and in compose.yaml."""
    commands = [" ".join(process.command) for process in service_processes({}, folder) if process.name == "banks"]
    commands += re.findall(r"^ *command: (celery .* -Q banks .*)$", (ROOT / "compose.yaml").read_text(), re.MULTILINE)
    tasks = [int(found) for command in commands for found in re.findall(r" -c (\d+)", command)]
    assert len(tasks) == 2
    return tasks
