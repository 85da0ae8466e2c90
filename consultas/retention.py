"""How long queries, offers and external steps stay.

Steps and offers hang on queries, so queries go last. Which offers became proposals is known on the floor above: it
hands that down as `in_use`, a condition on offers.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, OuterRef, Q
from django.db.models.expressions import Combinable

from consultas.models import Offer, Pending, Query
from providers import batches


def purge(before: datetime, in_use: Exists, until: float) -> dict[str, int]:
    """Delete steps that ended before `before`, offers no bank gave since then that are not `in_use`, and queries
    from before it to which nothing points; until `until` (monotonic seconds). Returns how many of each."""
    # An open step is still looked at, unless its own end is as long past: its bank is switched off.
    ended = Q(closed_at__lt=before) | Q(state=Pending.State.OPEN, expires_at__lt=before)
    steps = Pending.objects.filter(ended, opened_at__lt=before)
    offers = Offer.objects.filter(refreshed_at__lt=before)
    queries = Query.objects.filter(created_at__lt=before)
    return {
        "steps": batches.delete_oldest(steps, "opened_at", until),
        "offers": batches.delete_oldest(offers, "refreshed_at", until, ~in_use),
        "queries": batches.delete_oldest(queries, "created_at", until, *_unreferred()),
    }


def _unreferred() -> tuple[Combinable, Combinable]:
    """Of queries: no offer and no step points to it."""
    me = OuterRef("pk")
    return ~Exists(Offer.objects.filter(query=me)), ~Exists(Pending.objects.filter(query=me))
