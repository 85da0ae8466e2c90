"""What keeps a hanging bank from costing the others anything, where it is a matter of two numbers."""

from __future__ import annotations

import re
from pathlib import Path

from config.local.run import service_processes
from providers.models import Provider

ROOT = Path(__file__).resolve().parent.parent


def test_a_bank_worker_has_more_tasks_than_a_bank_has_places(tmp_path: Path) -> None:
    """Before the fix, these were 500 and 512: twenty queries a second filled all tasks before the breaker opened."""
    places = Provider._meta.get_field("max_in_flight").default
    commands = [" ".join(process.command) for process in service_processes({}, tmp_path) if process.name == "banks"]
    commands += re.findall(r"^ *command: (celery .* -Q banks .*)$", (ROOT / "compose.yaml").read_text(), re.MULTILINE)
    tasks = [int(found) for command in commands for found in re.findall(r" -c (\d+)", command)]
    assert len(tasks) == 2
    assert min(tasks) > places
