"""Prometheus metrics of a process that serves no web pages."""

from __future__ import annotations

from django.conf import settings
from prometheus_client import start_http_server


def serve_counts() -> None:
    """Serve this process's metrics at METRICS_PORT, on every address. Does nothing without the setting.

    For processes that do not share a metrics directory with a web process, such as containers on several machines.
    Raises OSError if the port is in use.
    """
    if settings.METRICS_PORT:
        start_http_server(settings.METRICS_PORT)
