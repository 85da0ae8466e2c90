"""What a repeated query reuses: the answers of settled banks from an identical query that has ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from django.utils import timezone

from consultas.answer import Answer
from consultas.models import Query
from foundation import statements

#: An identical parameterless query within this many seconds is a repeat.
REPEAT_S = 60
# PostgreSQL needs the second condition, which is that of the partial index: it cannot derive it from a parameter.
_IDENTICAL = "q.fingerprint = %s AND q.fingerprint <> '' AND q.created_at >= %s"


@dataclass(frozen=True)
class Earlier:
    """The result of an ended query: the group of its offers, its answers, and the banks with an offer that has expired
    since. `offer_ids` are `offerId`s by identity: of the offers that this query or the first of its group stored."""

    simulation_group: UUID | None
    answers: list[Answer]
    outdated: list[str]
    offer_ids: Mapping[str, UUID]


#: The result of no query.
NOTHING = Earlier(None, [], [], {})


def insert(query: Query) -> Earlier:
    """Insert the new `query`. Returns what `earlier` would return, which takes no further statement."""
    if not query.fingerprint:
        statements.insert(query)
        return NOTHING
    sql, params = _newest(_IDENTICAL, *_identical(query))
    return _read(statements.insert_and_fetch(query, sql, params)) or NOTHING


def earlier(query: Query) -> Earlier:
    """The result of the newest ended query that `query` repeats; NOTHING if there is none."""
    if not query.fingerprint:
        return NOTHING
    return _read(statements.fetch_one(*_newest(_IDENTICAL, *_identical(query)))) or NOTHING


def of(query_id: str) -> Earlier | None:
    """The result of the query with this id. None while it has not ended."""
    return _read(statements.fetch_one(*_newest("q.id = %s", query_id)))


def _identical(query: Query) -> tuple[str, datetime]:
    return query.fingerprint, timezone.now() - timedelta(seconds=REPEAT_S)


def _newest(which: str, *params: Any) -> tuple[str, Sequence[Any]]:
    """The statement, and its parameters, for the newest query that meets `which`, an SQL condition, and has its
    answers. An erased holder's query has ended without answers."""
    sql = f"""
SELECT q.id, q.simulation_group, q.answers,
    ARRAY(SELECT o.provider FROM consultas_offer o
        WHERE o.cpf_index = q.cpf_index AND o.partner_id = q.partner_id AND o.expired_at IS NOT NULL),
    (SELECT jsonb_object_agg(o.identity, o.id) FROM consultas_offer o WHERE o.query_id IN (q.id, q.simulation_group))
FROM consultas_query q
WHERE {which} AND q.finished_at IS NOT NULL AND q.answers IS NOT NULL ORDER BY q.created_at DESC LIMIT 1
"""  # noqa: S608 - conditions of ours
    return sql, params


def _read(row: tuple[Any, ...] | None) -> Earlier | None:
    if row is None:
        return None
    key, group, sealed, outdated, ids = row
    answers = Query._meta.get_field("answers").text(sealed, Query(id=key))
    return Earlier(
        group,
        msgspec.json.decode(answers, type=list[Answer]),
        outdated,
        msgspec.json.decode(ids or "{}", type=dict[str, UUID]),
    )


def still_good(earlier: Earlier) -> list[Answer]:
    """The answers that a repeated query may reuse: of settled banks, and recent enough. Banks that were pending, wanted
    a step or failed are asked again, because they may have offers now. So are banks with an expired offer, which the
    partner would get again otherwise."""
    since = time.time() - REPEAT_S
    good = (answer for answer in earlier.answers if answer.settled and answer.answered_at >= since)
    return [answer for answer in good if answer.provider not in earlier.outdated]
