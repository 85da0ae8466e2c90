from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from django.db.models import Count, Min, Q
from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from webhooks import health
from webhooks.models import UNREACHABLE, Event


class OutboxCollector(Collector):
    """Metrics of the outbox, read when they are scraped: one query over the due rows and one over the failed rows. Each
    has its own index; one query for both would read all events ever sent. A third one reads partners' last attempts.

    Alert on the age: it grows whenever nothing is delivered, for any reason.
    """

    def collect(self) -> Iterator[GaugeMetricFamily]:
        now = timezone.now()
        counts = Event.objects.filter(state=Event.State.DUE).aggregate(
            due=Count("pk"),
            claimed=Count("pk", filter=Q(lease_until__gt=now)),
            unreachable=Count("pk", filter=UNREACHABLE),
            oldest=Min("due_at", filter=Event.is_due(now)),
        )
        counts["failed"] = Event.objects.filter(state=Event.State.FAILED).count()
        events = GaugeMetricFamily("webhook_events", "Events that are not delivered.", labels=["state"])
        for state in ("due", "claimed", "unreachable", "failed"):
            events.add_metric([state], counts[state])
        yield events
        age = max(0.0, (now - counts["oldest"]).total_seconds()) if counts["oldest"] else 0.0
        yield GaugeMetricFamily(
            "webhook_oldest_due_seconds", "How long the oldest deliverable event is overdue.", value=age
        )
        partners = GaugeMetricFamily("webhook_partners", "Partners by what their last attempts say.", labels=["state"])
        found = Counter(each.state for each in health.of_partners())
        for state in health.State:
            partners.add_metric([state], found[state])
        yield partners
