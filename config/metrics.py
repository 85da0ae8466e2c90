"""`/metrics` for Prometheus. No label contains data of a holder or partner, and of a request only its route.

With PROMETHEUS_MULTIPROC_DIR set, all processes of a machine write their counts below that directory, and each web
process serves the sum. Files of ended processes stay: if the sum decreased, Prometheus would assume a restart and count
everything again. The directory is emptied when all processes start anew. Other values are read at each scrape.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import structlog
from django.conf import settings
from django.db import DatabaseError
from django.db.models import Count, Min, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from backoffice.figures.sweep import counted_until
from consultas.models import Step
from foundation.client_ip import is_in, known_ip
from foundation.formats import to_ip
from foundation.redis import redis_answers
from proposals.models import Proposal
from providers import registry
from providers.health import Kind
from providers.judging import health_of
from providers.models import client_certificates
from webhooks import health
from webhooks.models import UNREACHABLE, Event

log = structlog.get_logger(__name__)

#: The values of a metric's labels, and its value.
Sample = tuple[Sequence[str], float]
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
HTTP_REQUESTS = Histogram(
    "http_request_seconds",
    "HTTP requests, until the answer begins.",
    ["route", "method", "status"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 20, 25, 30, 40),
)


def count_request(request: HttpRequest, status: int, seconds: float) -> None:
    """Count an answered request under its route's template, because the path may contain a secret."""
    route = request.resolver_match.route if request.resolver_match else "(none)"
    method = request.method if request.method in METHODS else "(other)"
    HTTP_REQUESTS.labels(route, method, status).observe(seconds)


@csrf_exempt
def metrics(request: HttpRequest) -> HttpResponse:
    """All metrics as Prometheus text, for clients in METRICS_NETWORKS. All others get 404."""
    if request.method not in ("GET", "HEAD") or not _may_read(request):
        raise Http404
    return HttpResponse(generate_latest(_counts()) + generate_latest(_gauges), content_type=CONTENT_TYPE_LATEST)


def _may_read(request: HttpRequest) -> bool:
    """True if the request comes from METRICS_NETWORKS.

    The trusted proxies tell its origin. If an unknown proxy passed the request on, the origin is unknown and the answer
    is False: a local proxy missing in TRUSTED_PROXIES would otherwise make the page public.
    """
    origin = to_ip(known_ip(request))
    if origin == to_ip(request.META.get("REMOTE_ADDR", "")) and _FORWARDED & request.META.keys():
        return False
    return is_in(origin, settings.METRICS_NETWORKS)


def _counts() -> CollectorRegistry:
    """The metrics of all processes of this machine, or of this process alone without a shared directory."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return REGISTRY
    shared = CollectorRegistry()
    MultiProcessCollector(shared)
    return shared


class StateCollector(Collector):
    """Metrics of banks, steps, proposals and the outbox, counted at each scrape by partial indexes.

    If the database or Redis is unavailable, their metrics are absent, `database_up` or `redis_up` is 0, and the
    processes' own metrics are still served.
    """

    def collect(self) -> Iterator[GaugeMetricFamily]:
        try:
            families = [*_states(), *outbox()]
        except DatabaseError as fault:
            log.error("metrics_without_database", fault=type(fault).__name__)
            families = []
        yield GaugeMetricFamily("database_up", "Whether the database answered.", value=bool(families))
        yield from families


def _states() -> Iterator[GaugeMetricFamily]:
    now = timezone.now()
    states = [
        ((name, kind), kind is health.kind) for name, health in health_of(registry.names()).items() for kind in Kind
    ]
    yield GaugeMetricFamily("redis_up", "Whether Redis answered.", value=redis_answers())
    yield _gauge("bank_state", "1 at the state of the bank (providers/health.py).", states, "bank", "state")
    ends = [((each.bank,), each.ends_at.timestamp()) for each in client_certificates()]
    yield _gauge("bank_certificate_ends_at_seconds", "When our client certificate for the bank ends.", ends, "bank")

    counts, ages = _by_bank(Step.objects.filter(state=Step.State.OPEN), "due_at", now)
    yield _gauge("external_steps_open", "Steps that holders still owe a bank.", counts, "bank")
    text = "How long the look at one of them is overdue, at most."
    yield _gauge("external_step_oldest_due_seconds", text, ages, "bank")
    unknown = Proposal.objects.filter(submission=Proposal.Submission.UNKNOWN, due_at__isnull=False)
    counts, ages = _by_bank(unknown, "created_at", now)
    text = "Submissions of which nobody knows yet whether the bank has them."
    yield _gauge("proposals_unknown", text, counts, "bank")
    yield _gauge("proposals_unknown_oldest_seconds", "Age of the oldest of them.", ages, "bank")
    overdue = Proposal.objects.filter(due_at__lte=now, submission=Proposal.Submission.ACCEPTED)
    _, ages = _by_bank(overdue, "due_at", now)
    text = "How long the look at an open proposal is overdue."
    yield _gauge("proposal_refresh_oldest_due_seconds", text, ages, "bank")

    until = counted_until()
    behind = [((), (now - until).total_seconds())] if until else []
    yield _gauge("figures_behind_seconds", "Age of what the back office's figures lack, at most.", behind)


def outbox() -> Iterator[GaugeMetricFamily]:
    """The outbox: one query over the due rows and one over the failed rows. Each has its own index; one query for both
    would read all events ever sent. A third one reads partners' last attempts.

    Alert on the age: it grows whenever nothing is delivered, for any reason.
    """
    now = timezone.now()
    counts = Event.objects.filter(state=Event.State.DUE).aggregate(
        due=Count("pk"),
        claimed=Count("pk", filter=Q(lease_until__gt=now)),
        unreachable=Count("pk", filter=UNREACHABLE),
        oldest=Min("due_at", filter=Event.is_due(now)),
    )
    counts["failed"] = Event.objects.filter(state=Event.State.FAILED).count()
    events = [((state,), counts[state]) for state in ("due", "claimed", "unreachable", "failed")]
    yield _gauge("webhook_events", "Events that are not delivered.", events, "state")
    age = max(0.0, (now - counts["oldest"]).total_seconds()) if counts["oldest"] else 0.0
    yield _gauge("webhook_oldest_due_seconds", "How long the oldest deliverable event is overdue.", [((), age)])
    found = Counter(each.state for each in health.of_partners())
    partners = [((state,), found[state]) for state in health.State]
    yield _gauge("webhook_partners", "Partners by what their last attempts say.", partners, "state")


def _gauge(name: str, text: str, samples: Iterable[Sample], *labels: str) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _by_bank(rows: QuerySet[Any], column: str, now: datetime) -> tuple[list[Sample], list[Sample]]:
    """Of each bank the number of `rows`, and the seconds since the earliest time in `column`, at least 0."""
    found = [*rows.order_by().values_list("provider").annotate(Count("pk"), Min(column))]
    ages: list[Sample] = [
        ((bank,), max(0.0, (now - first).total_seconds()) if first else 0.0) for bank, _, first in found
    ]
    return [((bank,), count) for bank, count, _ in found], ages


_FORWARDED = {"HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_VIA"}
_gauges = CollectorRegistry()
_gauges.register(StateCollector())
