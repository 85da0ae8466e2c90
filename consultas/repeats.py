"""What a repeat of a query reuses: the answers of an identical one that has ended, of the banks that are settled."""

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

#: Within this many seconds an identical parameterless query is a repeat.
REPEAT_S = 60


def earlier(query: Query) -> Earlier | None:
    """The newest finished query of which `query` is a repeat."""
    if not query.fingerprint:
        return None
    since = timezone.now() - timedelta(seconds=REPEAT_S)
    # The second condition is the index's own, which a prepared statement can't conclude from the first.
    return _finished("fingerprint = %s AND fingerprint <> '' AND created_at >= %s", query.fingerprint, since)


def of(query_id: str) -> Earlier | None:
    """What the query with this id found; None while it has not ended."""
    return _finished("id = %s", query_id)


@dataclass(frozen=True)
class Earlier:
    """What a finished query found: the group of its offers, and its answers; and the banks of which an offer to the
    holder has expired meanwhile."""

    simulation_group: UUID | None
    answers: list[Answer]
    outdated: list[str]


def _finished(which: str, *params: Any) -> Earlier | None:
    """The newest of the queries `which`, a condition in SQL, that has its answers. A query whose holder was
    erased has finished and has no answers."""
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
    """The earlier answers that a repeat may reuse: of settled banks, and young enough. Banks that were pending, wanted
    an action or failed are asked again, so that no offer that became available stays hidden. So are banks that know an
    offer no longer: the partner would get it again."""
    since = time.time() - REPEAT_S
    good = (answer for answer in earlier.answers if answer.settled and answer.answered_at >= since)
    return [answer for answer in good if answer.provider not in earlier.outdated]
