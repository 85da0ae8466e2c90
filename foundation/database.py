"""Database writes that are repeated during a restart of the database, so that no answer of a bank is lost."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import structlog
from django.db import InterfaceError, OperationalError, connection, connections
from psycopg.errors import QueryCanceled

log = structlog.get_logger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

PATIENCE_S = 10.0
_RETRY_S = 0.5


def outlasts_restart(work: Callable[P, T]) -> Callable[P, T]:
    """Decorator: repeat `work` for up to `PATIENCE_S` seconds while the database is unavailable, then raise its last
    exception.

    `work` must be idempotent, because a commit may have succeeded although its confirmation was lost. It must not run
    inside a transaction.
    """

    @functools.wraps(work)
    def patient(*args: P.args, **kwargs: P.kwargs) -> T:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return work(*args, **kwargs)
            except (OperationalError, InterfaceError) as fault:
                connection.close()
                if time.monotonic() >= end or timed_out(fault):
                    raise
                log.warning("database_away", work=work.__name__, fault=type(fault).__name__)
            time.sleep(_RETRY_S)

    return patient


def timed_out(fault: BaseException | None) -> bool:
    """True if PostgreSQL ended a statement that took too long (`DATABASE_STATEMENT_TIMEOUT_S`)."""
    return fault is not None and isinstance(fault.__cause__, QueryCanceled)


def give_back_connection() -> None:
    """Close the calling greenlet's database connection, if it has one without an open transaction. `connection` itself
    is not touched if there is none, because that would create one."""
    for each in connections.all(initialized_only=True):
        if not each.in_atomic_block:
            each.close()
