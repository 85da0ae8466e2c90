"""Threads with database connections of their own, for tests of what happens at once, or while a transaction lasts."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from django.db import connection, transaction

from tests.processes import wait_until

T = TypeVar("T")


def at_once(*calls: Callable[[], T]) -> list[T]:
    """The results of these calls, all made at the same time, each in a thread of its own."""
    together = threading.Barrier(len(calls))

    def make(call: Callable[[], T]) -> T:
        try:
            together.wait(20)
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(make, calls))


@contextmanager
def elsewhere(act: Callable[[], T], until: Callable[[], bool] = lambda: False) -> Iterator[Callable[[], T]]:
    """Another thread did `act` in a transaction. It commits when `until` is true, when the yielded function is called,
    or at the end of the block. The function returns what `act` returned."""
    has_acted, may_commit, results = threading.Event(), threading.Event(), []

    def run() -> None:
        try:
            with transaction.atomic():
                results.append(act())
                has_acted.set()
                wait_until(lambda: may_commit.is_set() or until(), 20, "it may commit")
        finally:
            connection.close()

    def commit() -> T:
        may_commit.set()
        other.result()
        return results[0]

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(run)
        try:
            assert has_acted.wait(20)
            yield commit
        finally:
            commit()


def somebody_waits() -> bool:
    """True while a transaction waits for another one's locks."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone() != (0,))
