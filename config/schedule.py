"""When which task of the default worker is due; read by beat."""

from typing import Any

from celery.schedules import crontab

#: Seconds between two ticks. A tick that no worker took until the next one is dropped.
TICK_S = 2

#: Intervals in seconds, times in UTC.
SCHEDULE: dict[str, dict[str, Any]] = {
    # A task that waited longer than its interval is dropped, because the next one does its work.
    "tick": {"task": "foundation.later.tick", "schedule": TICK_S, "options": {"expires": TICK_S}},
    "expire-sessions": {"task": "authorizations.sessions.expire_due", "schedule": 60, "options": {"expires": 60}},
    "count-figures": {"task": "backoffice.figures.sweep.advance", "schedule": 60, "options": {"expires": 60}},
    "fetch-moves": {"task": "backoffice.figures.breaker_history.fetch", "schedule": 60, "options": {"expires": 60}},
    "purge-failed-calls": {"task": "partners.failed_calls.purge", "schedule": 3600, "options": {"expires": 3600}},
    "purge-webhooks": {"task": "webhooks.tasks.purge", "schedule": 3600, "options": {"expires": 3600}},
    "purge-queries": {"task": "proposals.retention.purge", "schedule": 3600, "options": {"expires": 3600}},
    "check-evidence": {"task": "authorizations.chain.check", "schedule": crontab(hour="7", minute="10")},
    "tell-evidence-head": {"task": "authorizations.chain.log_head", "schedule": 900, "options": {"expires": 900}},
    "purge-log-ins": {"task": "foundation.tasks.purge_log_ins", "schedule": 3600, "options": {"expires": 3600}},
    "purge-figures": {"task": "backoffice.figures.sweep.purge", "schedule": crontab(hour="7", minute="50")},
    "purge-audit": {"task": "foundation.tasks.purge_audit", "schedule": crontab(hour="7", minute="40")},
    "purge-sessions": {"task": "authorizations.retention.purge", "schedule": 3600, "options": {"expires": 3600}},
}
