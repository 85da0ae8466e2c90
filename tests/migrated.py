"""A migrated database to start from, created once per state of the migrations and then copied.

Running all migrations takes as long as a hundred tests, and each worker of a test run has its own PostgreSQL.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import psycopg

from bench.programs import running
from config.local.servers import ROOT, Postgres, private_folder

HOME = ROOT / "var" / "migrated"
#: The files on which a migrated database depends.
_SOURCES = ("[a-z]*/migrations/*.py", "[a-z]*/*/migrations/*.py", "requirements.txt", "config/local/servers.py")


def reserve(server: Postgres) -> None:
    """Choose the password and port of `server`, which has no data yet, so that its `url` is known. The password is the
    template's, because it is part of the data."""
    template = _template()
    private_folder(server.home)
    shutil.copy(template.home / "password", server.home / "password")
    server.reserve()


def fill(server: Postgres) -> None:
    """Copy the migrated template into the data of `server`, which `reserve` prepared and which is not running."""
    template = _template()
    with _locked():
        if not (template.home / "is_complete").exists():
            _make(template)
    subprocess.run(["cp", "-a", str(template.data), str(server.data)], check=True)


def _template() -> Postgres:
    digest = hashlib.sha256(sys.version.encode())
    for pattern in _SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(path.read_bytes())
    template = Postgres(HOME / digest.hexdigest()[:16], durable=False)
    with _locked():
        template.reserve()
    return template


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """A lock that one process holds at a time."""
    private_folder(HOME)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(template: Postgres) -> None:
    for old in HOME.iterdir():
        if old.is_dir() and old != template.home:
            shutil.rmtree(old)
    shutil.rmtree(template.data, ignore_errors=True)  # left by a killed run
    with running(template):
        template.create_database()
        environment = {**os.environ, "DATABASE_URL": template.url, "DJANGO_SETTINGS_MODULE": "config.settings"}
        command = [sys.executable, "manage.py", "migrate", "--skip-checks", "--verbosity=0"]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        with psycopg.connect(template.url_of("postgres"), autocommit=True) as server:
            for unused in ("template0", "template1"):  # a third of the files to copy, and no test makes a database
                server.execute(f"ALTER DATABASE {unused} IS_TEMPLATE false")
                server.execute(f"DROP DATABASE {unused}")
    (template.home / "is_complete").touch()
