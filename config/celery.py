"""The Celery application: `celery -A config worker -Q banks -P gevent`."""

import os
from typing import Any

from celery import Celery
from celery.app import trace
from celery.app.amqp import AMQP
from celery.signals import task_postrun, worker_ready
from django.conf import settings
from gevent import getcurrent
from kombu import Connection

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")


class SteadyConnection(Connection):
    """Tries to reconnect to the broker every second. kombu waits 2 s longer after each attempt, up to 30 s: for that
    long a worker would be idle after the broker is back, and all queries of that time would end without an answer."""

    def ensure_connection(self, *args: Any, **options: Any) -> Any:
        return super().ensure_connection(*args, **{**options, "interval_start": 1, "interval_step": 0})


class SteadyAMQP(AMQP):
    Connection = SteadyConnection


# Celery's own line would quote the exception.
trace.log_policy_unexpected = trace.log_policy_unexpected._replace(format="Task %(name)s[%(id)s] %(description)s")
app = Celery("origination", amqp=SteadyAMQP)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


def serve_counts() -> None:
    """Serve this worker's metrics at METRICS_PORT, on every address. Does nothing without the setting, as where the
    worker shares a metrics directory with a web process. Raises OSError if the port is in use."""
    from prometheus_client import start_http_server

    if settings.METRICS_PORT:
        start_http_server(settings.METRICS_PORT)


@worker_ready.connect
def settle(**_: Any) -> None:
    """Called when the worker has loaded its tasks and starts to receive them."""
    from foundation.memory import freeze_what_is_loaded, make_room_for_connections

    serve_counts()
    make_room_for_connections()
    # A task leaves nothing to collect (tests/test_memory.py). A query in flight is 500 objects in use, which a
    # collection would visit for nothing: none begins below 750 queries in flight.
    freeze_what_is_loaded(new_objects=400_000)


@task_postrun.connect
def untie_greenlet(**_: Any) -> None:
    """Called at the end of each task. Celery's pool gives a task's greenlet a method that is bound to this greenlet.
    Without that reference to itself, the greenlet is freed at its end, together with its database wrapper."""
    getcurrent().__dict__.pop("terminate", None)
