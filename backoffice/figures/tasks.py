"""The functions that Celery runs. Each is a task under its own name: `backoffice.figures.sweep.advance`."""

from celery import shared_task

from backoffice.figures import breaker_history, sweep

for function in (sweep.advance, sweep.purge, breaker_history.fetch):
    shared_task(function)
