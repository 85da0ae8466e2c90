"""What a repeated query reuses: the answers of settled banks from an identical query that has ended."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
from django.utils import timezone

from consultas.answer import Answer
from consultas.models import Query
from foundation import statements

#: An identical parameterless query within this many seconds is a repeat.
REPEAT_S = 60


def earlier(query: Query) -> Earlier | None:
    """The newest ended query that `query` repeats, or None."""
    if not query.fingerprint:
        return None
    since = timezone.now() - timedelta(seconds=REPEAT_S)
    # PostgreSQL needs the second condition, which is that of the partial index: it cannot derive it from a parameter.
    return _finished("fingerprint = %s AND fingerprint <> '' AND created_at >= %s", query.fingerprint, since)


def of(query_id: str) -> Earlier | None:
    """The result of the query with this id. None while it has not ended."""
    return _finished("id = %s", query_id)


@dataclass(frozen=True)
class Earlier:
    """The result of an ended query: the group of its offers, its answers, and the banks with an offer that has expired
    since."""

    simulation_group: UUID | None
    answers: list[Answer]
    outdated: list[str]


def _finished(which: str, *params: Any) -> Earlier | None:
    """The newest query that meets `which`, an SQL condition, and has its answers. An erased holder's query has ended
    without answers."""
    row = statements.fetch_one(
        "SELECT q.id, simulation_group, answers, ARRAY(SELECT o.provider FROM consultas_offer o WHERE"  # noqa: S608 - of ours
        " o.cpf_index = q.cpf_index AND o.partner_id = q.partner_id AND o.expired_at IS NOT NULL)"
        f" FROM consultas_query q WHERE {which}"
        " AND finished_at IS NOT NULL AND answers IS NOT NULL ORDER BY created_at DESC LIMIT 1",
        params,
    )
    if row is None:
        return None
    key, group, sealed, outdated = row
    answers = Query._meta.get_field("answers").text(sealed, Query(id=key))
    return Earlier(group, msgspec.json.decode(answers, type=list[Answer]), outdated)


def still_good(earlier: Earlier) -> list[Answer]:
    """The answers that a repeated query may reuse: of settled banks, and recent enough. Banks that were pending, wanted
    a step or failed are asked again, because they may have offers now. So are banks with an expired offer, which the
    partner would get again otherwise."""
    since = time.time() - REPEAT_S
    good = (answer for answer in earlier.answers if answer.settled and answer.answered_at >= since)
    return [answer for answer in good if answer.provider not in earlier.outdated]
