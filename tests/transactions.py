"""Threads with database connections of their own, for tests of what happens at once, or while a transaction lasts."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connection, transaction

from tests.plans import execute
from tests.processes import wait_until

T = TypeVar("T")


def at_once(*calls: Callable[[], T]) -> list[T]:
    """The results of these calls, all made at the same time, each in a thread of its own."""
    with crowd(len(calls)) as make:
        return make(*calls)


@contextmanager
def crowd(size: int) -> Iterator[Callable[..., list[Any]]]:
    """Yields `at_once` for up to `size` calls. Its threads keep their connections to the database until the end of the
    block: a new one takes 6 ms of processor time, here and in the server."""

    def make(*calls: Callable[[], T]) -> list[T]:
        together = threading.Barrier(len(calls))

        def make_one(call: Callable[[], T]) -> T:
            together.wait(20)
            return call()

        return list(pool.map(make_one, calls))

    with ThreadPoolExecutor(size) as pool:
        try:
            yield make
        finally:
            make(*[lambda: connection.close()] * size)  # each thread has another connection


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
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return execute(waiting) != [(0,)]
