"""WSGI entry point of the peer in `threads`: the service's settings with that module's routes."""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
settings.ROOT_URLCONF = "bench.peers.threads"
application = get_wsgi_application()
