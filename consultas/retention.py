"""Retention and erasure of queries, offers and external steps.

Steps and offers refer to queries, so queries are deleted last. Only `proposals` knows which offers became proposals,
and from which queries they were sent. It passes conditions: `in_use` on offers, and `is_origin` on queries.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.dispatch import Signal
from django.utils import timezone

from consultas.models import Offer, Query, Step
from foundation import batches

#: If a query is unfinished this long after its deadline, its processes have died and nobody writes to the row.
DEAD_AFTER = timedelta(seconds=60)
#: The conditions on queries to which no offer and no step refers.
_UNREFERRED = tuple(~Exists(model.objects.filter(query=OuterRef("pk"))) for model in (Offer, Step))
#: Sent in the transaction of an erasure before anything goes. `queries` and `steps` are the rows that it concerns.
erasing = Signal()


def purge(before: datetime, in_use: Exists, is_origin: Exists, until: float) -> dict[str, int]:
    """Delete steps that ended before `before`; offers that no bank has given since then and that are not `in_use`; and
    older queries without references that are not `is_origin`. Stops at `until` (monotonic seconds). Returns numbers."""
    # An open step is kept and checked, unless its lifetime ended before `before`, as for a bank that is switched off.
    ended = Q(closed_at__lt=before) | Q(state=Step.State.OPEN, expires_at__lt=before)
    steps = Step.objects.filter(ended, opened_at__lt=before)
    offers = Offer.objects.filter(refreshed_at__lt=before)
    queries = Query.objects.filter(created_at__lt=before)
    return {
        "steps": batches.delete_oldest(steps, "opened_at", until),
        "offers": batches.delete_oldest(offers, "refreshed_at", until, ~in_use),
        "queries": batches.delete_oldest(queries, "created_at", until, *_UNREFERRED, ~is_origin),
    }


def erase(cpf_index: str, in_use: Exists, is_origin: Exists) -> batches.Erased:
    """Delete a holder's steps (also open ones), offers that are not `in_use`, and their queries that are not
    `is_origin`. Inside a transaction. Running queries are left, because they will be written to: call again later."""
    queries = Query.objects.filter(cpf_index=cpf_index)
    running = Q(finished_at__isnull=True, deadline_at__gt=timezone.now() - DEAD_AFTER)
    left = queries.filter(running).count()
    ended = list(queries.exclude(running).order_by("pk").values_list("pk", flat=True))
    mine = queries.filter(pk__in=ended)

    # A running check of such a step then finds nothing to close, stores no offer and sends no event.
    steps = Step.objects.filter(pk__in=_locked(Step.objects.filter(query__in=ended), "pk"))
    erasing.send(Query, queries=mine, steps=steps)
    steps_gone, _ = steps.only("pk").delete()
    # Locked in the order in which queries write offers. `in_use` is evaluated once nobody can begin to use one.
    offers = Offer.objects.filter(pk__in=_locked(Offer.objects.filter(query__in=ended), "identity"))
    offers_gone, _ = offers.filter(~in_use).only("pk").delete()
    queries_gone, _ = mine.filter(*_UNREFERRED, ~is_origin).only("pk").delete()
    mine.exclude(partner_reference="").update(partner_reference="")
    return batches.Erased(
        erased={
            "steps": steps_gone,
            "offers": offers_gone,
            "queries": queries_gone,
            # Of queries that stay for their offers: the other banks' answers are no proof of the contract.
            "answers": mine.filter(answers__isnull=False).update(answers=None),
        },
        kept={"offers": offers.count(), "queries": mine.count()},
        left={"queries": left},
        references=list(map(str, ended)),
    )


def _locked(rows: QuerySet[Any], order: str) -> list[Any]:
    """The keys of `rows`, locked until the end of the transaction."""
    return [row.pk for row in rows.order_by(order).select_for_update().only("pk")]
