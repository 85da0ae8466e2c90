"""The rows of `manage.py seed_sandbox`, for tests that need a new sandbox.

The command reads and writes row by row, because a sandbox may exist already. Hundreds of tests begin with an empty
database, and these rows in one statement take a fifth of the command's time. `tests/partners/test_seed_sandbox.py`
tests the command itself.
"""

import io

from django.apps import apps
from django.core.management import call_command
from django.db import connection, transaction
from psycopg import sql


def statement() -> str:
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
