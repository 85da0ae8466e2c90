"""WSGI entry point: `gunicorn config.wsgi:application`."""

import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

application = get_wsgi_application()
# The routes, and with them all views, now: else the first request to each process waits for half a second of imports.
get_resolver().url_patterns  # noqa: B018 - a property that loads them
