"""Loads what a bank worker needs to know about a query before it asks the banks, in one statement."""

from __future__ import annotations

from functools import lru_cache

from django.db import connection

from consultas import pending
from consultas.models import Query, Step
from foundation import statements
from partners.models import Partner
from providers.bank import Connection
from providers.models import connections_sql, read_connections


def load(query_id: str, banks: list[str]) -> tuple[Query, dict[str, Connection], dict[str, Step]]:
    """The query with the parts of its partner that events need; the connections of those of `banks` that are enabled,
    by bank; and the steps that the holder still owes them, by bank. Raises Query.DoesNotExist."""
    sql, columns = _statement()
    row = statements.fetch_one(sql, {"id": query_id, "banks": banks})
    if row is None:
        raise Query.DoesNotExist(query_id)
    *values, events, connections, owed = row
    query = columns.row(values)
    query.partner = Partner.from_db(connection.alias, ("id", "webhook_events"), (query.partner_id, events))
    return query, read_connections(connections), pending.open_steps(query, owed) if owed else {}


@lru_cache(maxsize=1)
def _statement() -> tuple[str, statements.Columns[Query]]:
    columns = statements.Columns(Query, "q")
    sql = f"""
SELECT {columns.sql}, p.webhook_events, {connections_sql("%(banks)s")}, ARRAY(
    SELECT s.provider FROM consultas_step s
    WHERE s.partner_id = q.partner_id AND s.cpf_index = q.cpf_index AND s.state = 'open'
    AND s.provider = ANY(%(banks)s))
FROM consultas_query q JOIN partners_partner p ON p.id = q.partner_id WHERE q.id = %(id)s
"""  # noqa: S608 - names of ours
    return sql, columns
