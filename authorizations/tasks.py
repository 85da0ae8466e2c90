"""The functions that Celery runs. Each is a task under its own name: `authorizations.retention.purge`."""

from celery import shared_task

from authorizations import chain, codes, retention, sessions

for function in (retention.purge, sessions.expire_due, chain.check, chain.log_head, codes.send_due):
    shared_task(function)
