"""The back office's first page: what needs a person now, each with a link to the rows in question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, Min, Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from redis.exceptions import RedisError

from consultas.models import Step
from partners.models import ApiKey
from proposals.models import Proposal
from providers.breaker import Breaker
from providers.models import Circuit, Provider
from webhooks.models import UNREACHABLE, Event

#: Sweeps come every few seconds: what has been due for longer waits for a process that does not run.
OVERDUE = timedelta(minutes=2)
#: A key without an end that is older should be replaced.
OLD_KEY = timedelta(days=365)


@dataclass(frozen=True)
class Concern:
    """A line of the page. `count` is 0 where all is well; `what` may add words to the number."""

    title: str
    count: int
    what: str
    address: str


def with_concerns(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """UNFOLD's DASHBOARD_CALLBACK. A user sees only the concerns whose rows that user may view."""
    context["concerns"] = list(_concerns(request.user.has_perm))
    return context


def _concerns(may: Any) -> Iterator[Concern]:
    late = timezone.now() - OVERDUE
    if may("partners.view_apikey"):
        born = ApiKey.objects.filter(expires_at=None, revoked_at=None, created_at__lt=timezone.now() - OLD_KEY)
        old = born.aggregate(count=Count("pk"), first=Min("created_at"))
        days = (timezone.now() - old["first"]).days if old["first"] else 0
        oldest = f"A mais antiga tem {days} dias." if days else ""
        address = reverse("admin:partners_apikey_changelist")
        yield Concern("Chaves sem validade com mais de um ano", old["count"], oldest, f"{address}?o=5")
    if may("webhooks.view_event"):
        events, address = Event.objects.all(), reverse("admin:webhooks_event_changelist")
        due = events.filter(state=Event.State.DUE)
        failed = events.filter(state=Event.State.FAILED, purged_at=None).count()
        yield Concern("Eventos de webhook falhados", failed, "", f"{address}?state__exact=failed")
        overdue = due.exclude(UNREACHABLE).filter(
            Q(claimed_until=None) | Q(claimed_until__lte=timezone.now()), next_attempt_at__lt=late
        )
        waiting = f"{address}?state__exact=due"
        yield Concern("Eventos atrasados", overdue.count(), "A entrega está em execução?", waiting)
        mute = due.filter(UNREACHABLE).count()
        yield Concern("Eventos retidos, ou à espera de URL ou segredo do parceiro", mute, "", waiting)
    if may("consultas.view_step"):
        steps = Step.objects.filter(state=Step.State.OPEN, next_check_at__lt=late).count()
        address = reverse("admin:consultas_step_changelist")
        yield Concern("Autorizações externas sem verificação", steps, "", f"{address}?state__exact=open")
    if may("proposals.view_proposal"):
        unknown = Proposal.objects.filter(
            submission=Proposal.Submission.UNKNOWN, next_reconcile_at__isnull=False
        ).count()
        address = reverse("admin:proposals_proposal_changelist")
        yield Concern("Propostas de resultado desconhecido", unknown, "", f"{address}?submission__exact=unknown")
    if may("providers.view_provider"):
        held = _held_back()
        yield Concern("Bancos sem chamadas", len(held), ", ".join(held), reverse("admin:providers_provider_changelist"))


def _held_back() -> list[str]:
    """The banks that nobody calls now, by name: switched off, or the breaker is open. Of a breaker that can't be
    read nothing is said; the bank's own page does."""
    circuits = dict(Provider.objects.filter(enabled=True).values_list("name", "circuit"))
    try:
        states = Breaker.states(circuits) if circuits else {}
    except RedisError:
        states = {}
    opened = [
        name
        for name, circuit in circuits.items()
        if circuit == Circuit.OPEN or (circuit == Circuit.AUTO and states.get(name, "closed") != "closed")
    ]
    return sorted([*opened, *Provider.objects.filter(enabled=False).values_list("name", flat=True)])
