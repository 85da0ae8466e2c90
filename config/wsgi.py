"""WSGI entry point: `gunicorn config.wsgi:application`."""

import os
from collections.abc import Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

_django = get_wsgi_application()
# Load the routes, and with them all views, now. Otherwise a process's first request waits half a second.
get_resolver().url_patterns  # noqa: B018 - a property that loads them

from config import health  # noqa: E402 - needs the settings


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Answers liveness and readiness checks itself, and passes everything else to Django."""
    return health.answer(environ, start_response) or _django(environ, start_response)
