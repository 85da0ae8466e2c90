"""A migrated database to start from, created once per state of the migrations and then copied, and a sandbox's rows.

Running all migrations takes as long as a hundred tests, and each worker of a test run has its own PostgreSQL.

`manage.py seed_sandbox` reads and writes row by row, because a sandbox may exist already. Hundreds of tests begin with
an empty database, and these rows in one statement take a fifth of the command's time.
`tests/partners/test_seed_sandbox.py` tests the command itself.
"""

import contextlib
import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import psycopg
from django.apps import apps
from django.core.management import call_command
from django.db import connection, transaction
from psycopg import sql

from bench.programs import running
from config.local.servers import ROLE, ROOT, Postgres, private_folder

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
    subprocess.run(["cp", "-a", str(make().data), str(server.data)], check=True)


def make() -> Postgres:
    """The template, with its data. Makes them if there are none; who else asks for it meanwhile waits."""
    template = _template()
    with _locked("making"):
        if not (template.home / "is_complete").exists():
            _make(template)
    return template


def _template() -> Postgres:
    digest = hashlib.sha256(sys.version.encode())
    for pattern in _SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(path.read_bytes())
    template = Postgres(HOME / digest.hexdigest()[:16], durable=False)
    with _locked("password"):
        private_folder(template.home)
        template.password_of(ROLE)
    return template


@contextlib.contextmanager
def _locked(name: str) -> Iterator[None]:
    """The lock `name`, which one process holds at a time."""
    private_folder(HOME)
    with (HOME / name).open("w") as lock:
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
        environment["ENVIRONMENT"] = "development"  # whatever a file .env says
        command = [sys.executable, "manage.py", "migrate", "--skip-checks", "--verbosity=0"]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        with psycopg.connect(template.url_of("postgres"), autocommit=True) as server:
            for unused in ("template0", "template1"):  # a third of the files to copy, and no test makes a database
                server.execute(f"ALTER DATABASE {unused} IS_TEMPLATE false")
                server.execute(f"DROP DATABASE {unused}")
    (template.home / "is_complete").touch()


def sandbox_statement() -> str:
    """The SQL that writes what the command writes into an empty database. The command's own rows are not kept."""
    tables = [model._meta.db_table for model in apps.get_models(include_auto_created=True) if model._meta.managed]
    with transaction.atomic(), connection.cursor() as cursor:

        def rows_of(table: str) -> str | None:
            """The rows of `table` as a JSON array, None if it has none."""
            cursor.execute(f'SELECT json_agg(each)::text FROM "{table}" each')
            [rows] = cursor.fetchone()
            return rows

        empty = [table for table in tables if rows_of(table) is None]
        call_command("seed_sandbox", stdout=io.StringIO())
        found = [(table, rows) for table in empty if (rows := rows_of(table)) is not None]
        transaction.set_rollback(True)
    insert = sql.SQL("INSERT INTO {0} SELECT * FROM json_populate_recordset(NULL::{0}, {1})")
    inserts = [insert.format(sql.Identifier(table), sql.Literal(rows)) for table, rows in found]
    return sql.SQL("; ").join(inserts).as_string()


def write(statement: str) -> None:
    """Execute `statement` in one transaction, at whose end foreign keys are checked."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
