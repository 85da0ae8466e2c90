"""What every test may use: real PostgreSQL and Redis of the test run's own, the simulator and the service's processes.

Servers are started once per run, in a fresh folder under `var/tests/` that is removed at the end, on ports of
their own: a `make run` beside is not touched. With DATABASE_URL or REDIS_URL set, those servers are used
(a database named test_…, and Redis database 15).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
import pytest
from django.conf import settings
from django.db.backends.postgresql.operations import DatabaseOperations

from config.local import Postgres, Redis, running

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "var" / "tests"
_cleanup = contextlib.ExitStack()


def pytest_configure(config: pytest.Config) -> None:
    """Start the servers and name them in the environment, then load the settings."""
    if settings.configured:
        raise pytest.UsageError(
            "the settings were loaded before the servers were started: unset DJANGO_SETTINGS_MODULE"
        )
    folder = _cleanup.enter_context(_run_folder())
    os.environ["DATA_DIR"] = str(folder)
    (folder / "static").mkdir()  # WhiteNoise warns where there is none
    services: list[Postgres | Redis] = []
    if not os.environ.get("DATABASE_URL"):
        services.append(Postgres(folder / "postgres", durable=False))
    if not os.environ.get("REDIS_URL"):
        services.append(Redis(folder / "redis", durable=False))
    _cleanup.enter_context(running(*services))
    for service in services:
        os.environ["DATABASE_URL" if isinstance(service, Postgres) else "REDIS_URL"] = service.url
    os.environ["REDIS_URL"] = urlsplit(os.environ["REDIS_URL"])._replace(path="/15").geturl()
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    django.setup()


def pytest_unconfigure(config: pytest.Config) -> None:
    _cleanup.close()


@contextlib.contextmanager
def _run_folder() -> Iterator[Path]:
    """A folder for this run, locked while it lives. Folders of runs that were killed are removed first."""
    RUNS.mkdir(parents=True, exist_ok=True)
    for old in RUNS.iterdir():
        with _locked(old) as is_ours:
            if is_ours:
                shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(dir=RUNS))
    with _locked(folder):
        yield folder
        shutil.rmtree(folder)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold the lock of a run's folder; yields False when another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)


@pytest.fixture(scope="session", autouse=True)
def _emptying_passes_the_guards() -> Iterator[None]:
    """Tests with real transactions empty every table afterwards, which the triggers on evidence and terms
    refuse: they are off while that statement runs. The first terms of the migrations come back with it."""
    guarded = ("authorizations_evidence", "authorizations_evidenceuse", "authorizations_terms")

    def sql_flush(self: DatabaseOperations, *args: Any, **kwargs: Any) -> list[str]:
        return [
            *(f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in guarded),
            *flush(self, *args, **kwargs),
            *(f"ALTER TABLE {table} ENABLE TRIGGER USER" for table in guarded),
            "INSERT INTO authorizations_terms (version, text, created_at, published_at)"
            " VALUES ('1', '1. Termos de teste', now(), now())",
        ]

    flush = DatabaseOperations.sql_flush
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "sql_flush", sql_flush)
        yield


@pytest.fixture(scope="session")
def redis_url() -> str:
    """The Redis of this test run."""
    return os.environ["REDIS_URL"]
