from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Count, Min, Q
from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from webhooks.models import UNREACHABLE, Event


class OutboxCollector(Collector):
    """The outbox as it stands when it is asked: one query over the rows that are due or failed.

    The age is the one to alert on: it grows when no delivery process runs, whatever the reason.
    """

    def collect(self) -> Iterator[GaugeMetricFamily]:
        now = timezone.now()
        due = Q(state=Event.State.DUE)
        deliverable = due & ~UNREACHABLE
        found = Event.objects.filter(state__in=[Event.State.DUE, Event.State.FAILED]).aggregate(
            due=Count("pk", filter=due),
            failed=Count("pk", filter=Q(state=Event.State.FAILED)),
            claimed=Count("pk", filter=due & Q(claimed_until__gt=now)),
            unreachable=Count("pk", filter=due & UNREACHABLE),
            oldest=Min("next_attempt_at", filter=deliverable & (Q(claimed_until=None) | Q(claimed_until__lte=now))),
        )
        events = GaugeMetricFamily("webhook_events", "Events that are not delivered.", labels=["state"])
        for state in ("due", "claimed", "unreachable", "failed"):
            events.add_metric([state], found[state])
        yield events
        age = max(0.0, (now - found["oldest"]).total_seconds()) if found["oldest"] else 0.0
        yield GaugeMetricFamily(
            "webhook_oldest_due_seconds", "How long the oldest deliverable event is overdue.", value=age
        )
