"""Identical queries. A query repeats one that has ended within the last 60 seconds, and follows one that is running."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
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
# An erased holder's query has ended without answers. PostgreSQL needs the condition of the partial index in words: it
# cannot derive it from a parameter.
_ENDED = """
SELECT q.id, q.simulation_group, q.answers,
    ARRAY(SELECT o.provider FROM consultas_offer o
        WHERE o.cpf_index = q.cpf_index AND o.partner_id = q.partner_id AND o.expired_at IS NOT NULL),
    (SELECT jsonb_object_agg(o.identity, o.id) FROM consultas_offer o WHERE o.query_id IN (q.id, q.simulation_group))
FROM consultas_query q
WHERE {which} AND q.finished_at IS NOT NULL AND q.answers IS NOT NULL ORDER BY q.created_at DESC LIMIT 1
"""
_IDENTICAL = _ENDED.format(which="q.fingerprint = %s AND q.fingerprint <> '' AND q.created_at >= %s")
_ONE = _ENDED.format(which="q.id = %s")
_INSERTED = f"SELECT EXISTS (SELECT FROM inserted), e.* FROM (SELECT) one LEFT JOIN LATERAL ({_IDENTICAL}) e ON true"  # noqa: S608 - no values
#: The index that keeps two identical queries from running at the same time.
_ONE_RUNS = "(fingerprint) WHERE finished_at IS NULL AND fingerprint <> ''"


@dataclass(frozen=True)
class Earlier:
    """The result of an ended query: the group of its offers, its answers, and the banks with an offer that has expired
    since. `offer_ids` are `offerId`s by identity: of the offers that this query or the first of its group stored."""

    simulation_group: UUID | None = None
    answers: list[Answer] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)
    offer_ids: Mapping[str, UUID] = field(default_factory=dict)

    def still_good(self) -> list[Answer]:
        """The answers that a repeated query may reuse: of settled banks, and recent enough. Banks that were pending,
        wanted a step or failed are asked again, because they may have offers now. So are banks with an expired offer,
        which the partner would get again otherwise."""
        since = time.time() - REPEAT_S
        good = (answer for answer in self.answers if answer.settled and answer.answered_at >= since)
        return [answer for answer in good if answer.provider not in self.outdated]


#: The result of no query.
NOTHING = Earlier()


def insert(query: Query) -> Earlier | None:
    """Insert the new `query`, which has a fingerprint, unless an identical query is running. Returns the result that it
    repeats, NOTHING if there is none, and None if it was not inserted.

    Two identical queries at the same moment meet at a unique index, so each bank is asked once.
    """
    identical: tuple[str, datetime] = (query.fingerprint, timezone.now() - timedelta(seconds=REPEAT_S))
    row = statements.insert_and_fetch(query, _INSERTED, identical, unless=_ONE_RUNS)
    is_inserted, *earlier = row or (False,)
    return (_read(earlier) or NOTHING) if is_inserted else None


def running(query: Query) -> Query | None:
    """The running query that is identical to `query`, if there is one."""
    found = Query.objects.filter(fingerprint=query.fingerprint, finished_at=None).select_related("partner")
    return found.defer("answers").first()


def of(query_id: UUID) -> Earlier | None:
    """The result of the query with this id. None while it has not ended."""
    return _read(statements.fetch_one(_ONE, [query_id]))


def _read(row: Any) -> Earlier | None:
    if row is None or row[0] is None:
        return None
    key, group, sealed, outdated, ids = row
    answers = Query._meta.get_field("answers").text(sealed, Query(id=key))
    return Earlier(
        group,
        msgspec.json.decode(answers, type=list[Answer]),
        outdated,
        msgspec.json.decode(ids or "{}", type=dict[str, UUID]),
    )
