"""Django's PostgreSQL backend with a cheaper check of pooled connections, wait, and reader of times."""

import weakref
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from django.db.backends.postgresql import base
from django.db.backends.postgresql.psycopg_any import BaseTzLoader
from django.db.utils import DatabaseErrorWrapper
from django.utils.functional import cached_property
from gevent import get_hub
from gevent.monkey import is_module_patched
from psycopg import Connection, OperationalError
from psycopg.abc import Buffer, PQGen
from psycopg_pool import ConnectionPool

from foundation.sockets import has_something_to_read

T = TypeVar("T")


def check_if_readable(connection: Connection[Any]) -> None:
    """Check the connection only if it has data to read. Raises OperationalError if the connection is gone.

    A server that shuts down sends a message first; apart from notices, nothing else arrives on an idle connection.
    Django's check sends a statement each time, which takes a tenth of a query's processor time. This check cannot
    detect a machine that vanished silently: the first statement then fails, and `outlasts_restart` repeats it.
    """
    if has_something_to_read(connection.fileno()):
        ConnectionPool.check_connection(connection)


def check_before_use(pool: ConnectionPool[Any], connection: Connection[Any]) -> None:
    """Check `connection`, which `pool` is about to hand out. Raises OperationalError if it is gone, and then replaces
    every other idle connection that is gone.

    A restart of the database ends all of them. The pool would find them one by one and pause 0, 1, 2 and 4 s in
    between: with five idle connections, a request waited longer than it may and was answered with 500.
    """
    try:
        check_if_readable(connection)
    except OperationalError:
        pool.check()
        raise


class PatientConnection(Connection[Any]):
    """A connection that waits for the server with gevent's event loop. psycopg waits with `select.poll`, and gevent's
    replacement of that takes up to three times as long."""

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Run the generator `gen`, which talks to the server, and return its result. psycopg's own wait is used with a
        `timeout` (seconds), and in a process without gevent."""
        if timeout is not None or not is_module_patched("select"):
            return super().wait(gen, interval, timeout)
        hub = get_hub()
        try:
            wanted = next(gen)
            while True:
                # psycopg's flags for reading and writing have the same values as gevent's.
                with hub.loop.io(self.pgconn.socket, int(wanted)) as watcher:
                    hub.wait(watcher)
                wanted = gen.send(wanted)
        except StopIteration as end:
            found: T = end.value
            return found


class UtcLoader(BaseTzLoader):
    """Reads a time, which PostgreSQL tells in UTC. Django's loader, in Python, takes ten times as long."""

    timezone = UTC

    def load(self, data: Buffer) -> datetime:
        try:
            return datetime.fromisoformat(bytes(data).decode())
        except ValueError:  # such as infinity
            return super().load(data)


class DatabaseWrapper(base.DatabaseWrapper):
    """The backend `foundation.postgresql`.

    Each greenlet that uses the database has a wrapper. In Django the wrapper and its parts refer to each other. Here
    the parts refer to it weakly, so that it is freed with its greenlet, without a garbage collection.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for part in (self.client, self.creation, self.features, self.introspection, self.ops, self.validation):
            part.connection = weakref.proxy(self)

    def __del__(self) -> None:
        """Replace the connection of a greenlet that ended without giving it back: the pool would lack it for ever."""
        held = self.connection
        if held is not None and held._pool is not None:
            pool = held._pool
            held.close()  # waits for nothing
            pool.putconn(held)

    def get_connection_params(self) -> dict[str, Any]:
        params = super().get_connection_params()
        params["context"].register_loader("timestamptz", UtcLoader)
        return params

    @cached_property
    def wrap_database_errors(self) -> DatabaseErrorWrapper:
        return DatabaseErrorWrapper(weakref.proxy(self))

    @property
    def pool(self) -> ConnectionPool[Any] | None:
        """The process's pool, or None. Overridden because Django's settings cannot name a check."""
        pool: ConnectionPool[Any] | None = super().pool
        if pool is not None and pool._check is ConnectionPool.check_connection:
            pool._check = partial(check_before_use, pool)
            pool.connection_class = PatientConnection
        return pool
