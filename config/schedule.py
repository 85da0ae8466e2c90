"""When which task of the default worker is due; read by beat."""

from __future__ import annotations

from celery.schedules import crontab

#: Intervals in seconds, times in UTC.
SCHEDULE: dict[str, dict[str, object]] = {
    # A task that waited longer than its interval is dropped, because the next one does its work.
    "expire-sessions": {"task": "authorizations.tasks.expire", "schedule": 60, "options": {"expires": 60}},
    "count-figures": {"task": "figures.tasks.advance", "schedule": 60, "options": {"expires": 60}},
    "purge-failed-calls": {"task": "partners.tasks.purge_failed_calls", "schedule": 3600, "options": {"expires": 3600}},
    "purge-webhooks": {"task": "webhooks.tasks.purge", "schedule": 3600},
    "purge-queries": {"task": "proposals.tasks.purge", "schedule": 3600, "options": {"expires": 3600}},
    "check-evidence": {"task": "authorizations.tasks.check_evidence", "schedule": crontab(hour="7", minute="10")},
    "tell-evidence-head": {"task": "authorizations.tasks.tell_head", "schedule": 900, "options": {"expires": 900}},
    "purge-log-ins": {"task": "foundation.tasks.purge_log_ins", "schedule": 3600, "options": {"expires": 3600}},
    "purge-figures": {"task": "figures.tasks.purge", "schedule": crontab(hour="7", minute="50")},
    "purge-audit": {"task": "foundation.tasks.purge_audit", "schedule": crontab(hour="7", minute="40")},
    "purge-sessions": {"task": "authorizations.tasks.purge", "schedule": 3600, "options": {"expires": 3600}},
}
