"""Django's PostgreSQL backend with a cheaper look at a pooled connection before it is used."""

from __future__ import annotations

import select
from typing import Any

from django.db.backends.postgresql import base
from gevent.monkey import get_original
from psycopg import Connection
from psycopg_pool import ConnectionPool

#: A look with no waiting needs no event loop.
_poll = get_original("select", "poll")


def check_if_readable(connection: Connection[Any]) -> None:
    """Ask the server only where there is something to read. Raises OperationalError where the connection is gone.

    A server that ends says so on the connection, and nothing else speaks on an idle one but notices. Django's check
    asks the server each time, a tenth of what a query costs the web. What this look can't see is a machine that
    vanished without a word: the first statement fails then, which `outlasts_restart` is for.
    """
    look = _poll()
    look.register(connection.fileno(), select.POLLIN)
    if look.poll(0):
        ConnectionPool.check_connection(connection)


class DatabaseWrapper(base.DatabaseWrapper):
    """The backend `foundation.postgresql`."""

    @property
    def pool(self) -> ConnectionPool[Any] | None:
        """The process's pool, None where none is set. Django lets its settings name no check of their own."""
        pool: ConnectionPool[Any] | None = super().pool
        if pool is not None and pool._check is ConnectionPool.check_connection:
            pool._check = check_if_readable
        return pool
