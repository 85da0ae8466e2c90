"""What the settings refuse, and where the tasks that they schedule run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.conf import settings

from config.celery import app
from tests.processes import ROOT


def refusal(**variables: str) -> str:
    """The last line of a process that loads the settings with these variables; empty where it is content."""
    done = subprocess.run(
        [sys.executable, "-c", "import config.settings"],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stderr.strip().rpartition("\n")[2]


def test_the_defaults_are_fine() -> None:
    assert refusal() == ""


@pytest.mark.parametrize(
    "name",
    ["QUERY_RETENTION_DAYS", "SUBMISSION_RETENTION_DAYS", "SESSION_RETENTION_DAYS", "WEBHOOK_RETENTION_DAYS"],
)
def test_nothing_is_kept_for_less_than_a_day(name: str) -> None:
    assert refusal(**{name: "0"}).endswith(f"{name} must be at least 1")


def test_queries_outlive_the_events_that_are_found_by_them() -> None:
    assert refusal(QUERY_RETENTION_DAYS="30", WEBHOOK_RETENTION_DAYS="30") == ""
    told = refusal(QUERY_RETENTION_DAYS="29", WEBHOOK_RETENTION_DAYS="30")
    assert told.endswith("QUERY_RETENTION_DAYS must not be below WEBHOOK_RETENTION_DAYS")


@pytest.mark.parametrize(
    ("task", "queue"),
    [
        ("proposals.tasks.purge", "default"),
        ("authorizations.tasks.purge", "default"),
        ("webhooks.tasks.purge", "default"),
        ("proposals.tasks.reconcile", "banks"),
        ("consultas.tasks.check_steps", "banks"),
    ],
)
def test_sweeps_that_call_no_bank_run_beside_the_bank_workers(task: str, queue: str) -> None:
    app.loader.import_default_modules()
    assert task in app.tasks
    assert task in {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    assert app.amqp.router.route({}, task)["queue"].name == queue
