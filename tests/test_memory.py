"""Calls and tasks leave no objects that only a garbage collection frees: a collection stops the whole process."""

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gevent
import pytest
from celery.concurrency.gevent import TaskPool
from django.core.handlers.wsgi import WSGIHandler
from django.db import connections
from django.http import HttpRequest
from django.test import RequestFactory
from django.views import View
from rest_framework.request import Request

from config import celery
from foundation.postgresql.base import DatabaseWrapper
from tests.factories import issue_key

PATH = "/partners/v1/consultas"


@contextmanager
def uncollected() -> Iterator[list[Any]]:
    """What the block left to the garbage collector, after the block."""
    found: list[Any] = []
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def call(handler: WSGIHandler, build: Callable[[RequestFactory, str], Any], secret: str) -> int:
    return handler.get_response(build(RequestFactory(), secret)).status_code


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("build", "status"),
    [
        (lambda requests, key: requests.get("/partners/v1/banks", headers={"X-Partner-Api-Key": key}), 200),
        (lambda requests, _: requests.get("/partners/v1/banks"), 401),
        (lambda requests, key: requests.put("/partners/v1/banks", headers={"X-Partner-Api-Key": key}), 405),
        (
            lambda requests, key: requests.post(
                PATH, {"cpf": "1"}, "application/json", headers={"X-Partner-Api-Key": key}
            ),
            422,
        ),
    ],
)
def test_a_call(build: Callable[[RequestFactory, str], Any], status: int) -> None:
    _, secret = issue_key()
    handler = WSGIHandler()
    call(handler, build, secret)
    with uncollected() as found:
        assert call(handler, build, secret) == status
    assert [each for each in found if isinstance(each, HttpRequest | Request | View | Exception)] == []


def test_a_database_wrapper() -> None:
    with uncollected():
        wrapper = DatabaseWrapper(connections.settings["default"])
        assert wrapper.wrap_database_errors is not None
        freed = weakref.ref(wrapper)
        del wrapper
        assert freed() is None


def test_a_tasks_greenlet() -> None:
    """The pool's attribute `terminate` is what keeps the greenlet; if Celery drops it, `untie_greenlet` can go."""
    pool = TaskPool(limit=1)
    pool.on_start()
    with uncollected():
        greenlet = pool.on_apply(lambda: celery.untie_greenlet(), ())
        assert "terminate" in vars(greenlet)
        greenlet.join()
        gevent.sleep(0)
        freed = weakref.ref(greenlet)
        del greenlet
        assert freed() is None
    pool.on_stop()
