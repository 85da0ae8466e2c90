"""Workers of pytest-xdist as forks of the process that distributes the tests, which has imported Django, the service
and the tests once. A worker that xdist starts imports them again: docs/decisions/0005-tests-in-parallel.md has the
figures."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterable
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import django
from django.conf import Settings, settings
from execnet import gateway_io
from execnet.gateway_base import Popen2IO

#: Without threads, which a fork would not have. Each fork ends without what its parent left to do.
in_a_fork = get_context("fork").Process
_start = gateway_io.Popen2IOMaster
_ready: list[_Worker] = []


def load(modules: Iterable[str] = ()) -> None:
    """Load the settings and import `modules`. The collection imports those that fail again and reports their errors."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    for server in ("DATABASE_URL", "REDIS_URL"):  # whatever a file .env says
        os.environ.setdefault(server, "")
    django.setup()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as in a collection
        for name in modules:
            with contextlib.suppress(Exception):
                import_module(name)


def read_settings() -> None:
    """Read the settings from the environment of this worker. Dictionaries are changed, because others keep them."""
    del sys.modules["config.settings"]
    fresh = Settings("config.settings")
    for name in filter(str.isupper, dir(fresh)):
        new, old = getattr(fresh, name), getattr(settings, name)
        if name == "DATABASES":
            old["default"].update(new["default"])
        elif name == "SPECTACULAR_SETTINGS":
            old.update(new)
        elif new != old:
            setattr(settings, name, new)


def prepare(workers: int) -> None:
    """Fork `workers` workers, which xdist takes before it starts others."""
    for _ in range(workers):
        _ready.append(_Worker())
    gateway_io.Popen2IOMaster = _next


def _next(arguments: list[str], execmodel: Any) -> Any:
    if not _ready:  # in place of one that crashed
        return _start(arguments, execmodel)
    worker = _ready.pop(0)
    worker.execmodel = execmodel
    return worker


class _Worker(Popen2IO):
    """A forked process, which does what `execnet` sends it."""

    def __init__(self) -> None:
        orders, to_worker = os.pipe()
        from_worker, answers = os.pipe()
        super().__init__(os.fdopen(to_worker, "wb"), os.fdopen(from_worker, "rb"), None)
        self._process = in_a_fork(target=self._work, args=(orders, answers))
        self._process.start()
        os.close(orders)
        os.close(answers)

    def _work(self, orders: int, answers: int) -> None:
        for each in (*_ready, self):  # otherwise no worker would see the end of another one's orders
            each.close_write()
            each.close_read()
        os.dup2(orders, 0)
        os.dup2(answers, 1)
        os.close(orders)
        os.close(answers)
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        exec(gateway_io.popen_bootstrapline)

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()
