"""The function that Celery runs, as a task under its own name: `partners.failed_calls.purge`."""

from celery import shared_task

from partners import failed_calls

shared_task(failed_calls.purge)
