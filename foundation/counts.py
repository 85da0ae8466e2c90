"""What a process without a web of its own counted, for Prometheus."""

from __future__ import annotations

from django.conf import settings
from prometheus_client import start_http_server


def serve_counts() -> None:
    """Show what this process counts at METRICS_PORT, on every address. Without the setting, do nothing.

    For processes that share no directory of counts with a web process, such as containers on several machines. Raises
    OSError where the port is taken.
    """
    if settings.METRICS_PORT:
        start_http_server(settings.METRICS_PORT)
