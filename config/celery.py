"""The Celery application: `celery -A config worker -Q banks -P gevent`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("origination")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
