"""Ends a query: once, in one transaction, by the first process that tries.

Normally that is the worker with the last answer. If it died, another worker takes the query. Past the deadline, the web
process that still waits ends the query, or else a sweep. Any later attempt finds `finished_at` set and changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from uuid import UUID

import msgspec
import structlog
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F, Value, prefetch_related_objects
from django.db.models.functions import Least
from django.utils import timezone
from gevent.pool import Pool

from consultas import offers, query_json
from consultas.models import LATE, LOST_AFTER, Answer, Query
from consultas.query_json import Result, shown_offers
from foundation import database, workers
from foundation.database import give_back_connection, outlasts_restart
from foundation.encryption import sealed
from webhooks import outbox

log = structlog.get_logger(__name__)

_FINISH = """
UPDATE consultas_query q SET answers = ended.answers, simulation_group = ended.simulation_group,
    finished_at = %s::timestamptz, due_at = NULL, lease_until = NULL, worker = ''
FROM unnest(string_to_array(%s, ' ')::uuid[], string_to_array(%s, ' '), string_to_array(%s, ' ', 'None')::uuid[])
    AS ended (id, answers, simulation_group)
WHERE q.id = ended.id AND q.finished_at IS NULL RETURNING q.id
"""
#: The task that asks a query's banks.
ASK = "consultas.query.ask.run"
COMPLETED = "query.completed"
#: An identical parameterless query within this many seconds is a repeat.
REPEAT_S = 60
#: How many overdue queries are ended in one transaction, and of how many the kept answers are read at the same time.
_ENDED_AT_ONCE = 200
_READ_AT_ONCE = 16
#: How long a sweep may take for them. After that, another one tries those that could not be ended.
_LEASE = timedelta(seconds=10)


@dataclass(frozen=True)
class Earlier:
    """The result of an ended query: the group of its offers, its answers, and the banks with an offer that has expired
    since. `offer_ids` are `offerId`s by identity: of the offers that this query or the first of its group stored."""

    simulation_group: UUID | None = None
    answers: list[Answer] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)
    offer_ids: Mapping[str, UUID] = field(default_factory=dict)

    def still_good(self) -> list[Answer]:
        """The answers that a repeated query may reuse: with offers or without, and recent. Banks that were pending,
        wanted a step or failed are asked again, because they may have offers now. So are banks with an expired offer,
        which the partner would get again otherwise."""
        since = time.time() - REPEAT_S
        good = (answer for answer in self.answers if answer.is_reusable and answer.answered_at >= since)
        return [answer for answer in good if answer.provider not in self.outdated]


def kept_answers(query: Query) -> dict[str, Answer]:
    """The answers that a worker has kept for the running query, by bank. No database connection is held meanwhile."""
    give_back_connection()
    kept = (msgspec.json.decode(each, type=list[Answer]) for each in workers.kept(str(query.source)))
    return {answer.provider: answer for answers in kept for answer in answers}


def end(query: Query, fresh: Sequence[Answer] = (), earlier: Earlier | None = None) -> Result:
    """End the query with the answers `fresh`, those of `earlier`, which it repeats (None: those in its row and those of
    the query that it follows), and those that a worker has kept; banks without an answer get a time-out. If another
    process was first, the result that it stored is returned. Raises Query.DoesNotExist if the row is gone, and the
    database's error if the database stays away."""
    if result := store([prepared(query, fresh, earlier)]).get(query.pk):
        return result
    row = Query.objects.get(pk=query.pk)
    return result_with_ids(row, row.stored_answers())


@outlasts_restart
def prepared(query: Query, fresh: Sequence[Answer] = (), earlier: Earlier | None = None) -> Ending:
    """What `end` stores."""
    earlier = earlier or _followed(query, fresh) or Earlier(answers=query.stored_answers())
    by_bank = {answer.provider: answer for answer in (*fresh, *earlier.answers)}
    if missing := [bank for bank in query.banks if bank not in by_bank]:
        by_bank |= {bank: answer for bank, answer in kept_answers(query).items() if bank in missing}
        silent = [bank for bank in missing if bank not in by_bank]
        by_bank |= query.timed_out(silent) if silent else {}
    answers = sorted(by_bank.values(), key=attrgetter("provider"))
    group = query.simulation_group or earlier.simulation_group
    if query.kind != Query.Kind.AGGREGATED:
        return Ending(query, answers, group)
    known = offers.known(query, {each.provider: each.offers for each in earlier.answers}, read=earlier.offer_ids)
    new = {each.provider: each.offers for each in answers if each.provider not in known}
    is_new = group is None and any(answer.offers for answer in answers)
    return Ending(query, answers, query.id if is_new else group, is_new, known, new)


def _followed(query: Query, fresh: Sequence[Answer]) -> Earlier | None:
    """The result of the query that `query` follows. That one is ended first, so that one of the two creates the group
    and tells the lead. None if `query` follows none, or an erased holder's."""
    leader = Query.objects.filter(pk=query.follows).select_related("partner").first() if query.follows else None
    if leader is None or (leader.finished_at and leader.answers is None):
        return None
    if leader.finished_at is None:
        result = end(leader, fresh)
        return Earlier(result.query.simulation_group, result.answers)
    return Earlier(leader.simulation_group, leader.stored_answers())


@dataclass(frozen=True)
class Ending:
    """The end of `query` with `answers`. `group` is the group of its offers, which the query creates if `is_new`. By
    bank, `known` are the ids of offers that another query stored, and `new` the offers to store."""

    query: Query
    answers: list[Answer]
    group: UUID | None
    is_new: bool = False
    known: offers.IdsByBank = field(default_factory=dict)
    new: offers.OffersByBank = field(default_factory=dict)

    @property
    def is_one_row(self) -> bool:
        """True if nothing but the query's row is stored."""
        return not (self.is_new or self.query.partner.wants_event(COMPLETED) or any(self.new.values()))

    def result(self, at: datetime, ids: offers.IdsByBank) -> Result:
        """The result of the query, which has ended `at` this time and stored offers with these `ids`."""
        self.query.simulation_group, self.query.finished_at = self.group, at
        return Result(self.query, self.answers, shown_offers(self.query, self.answers, self.known | ids))

    def messages(self, result: Result) -> Iterator[outbox.Message]:
        """The partner's events. The query that creates the group of offers tells the lead, so that it is told once."""
        query, name = self.query, str(self.query.id)
        if self.is_new:
            yield query.partner, "lead", name, query_json.lead(query, self.answers, result.shown)
        if query.partner.wants_event(COMPLETED):
            yield query.partner, COMPLETED, name, query_json.completed(query, self.answers)


@outlasts_restart
def store(endings: Sequence[Ending]) -> dict[UUID, Result]:
    """End these queries in one transaction, which may be repeated. Returns the results of those that had not ended yet,
    by the query's id."""
    at = timezone.now()
    # A repeat that stores nothing but its row needs one statement, and so no transaction.
    with nullcontext() if len(endings) == 1 and endings[0].is_one_row else transaction.atomic():
        ended = _finish(endings, at)
        first = [each for each in endings if each.query.pk in ended]
        ids = offers.persist_all({each.query: each.new for each in first})
        results = {each.query.pk: each.result(at, ids[each.query.pk]) for each in first}
        if messages := [message for each in first for message in each.messages(results[each.query.pk])]:
            outbox.send_all(messages)
    return results


def _finish(endings: Sequence[Ending], at: datetime) -> set[UUID]:
    """Write the queries' rows. Returns the ids of those that had not ended yet."""
    rows = [(each.query.pk, sealed(each.query, "answers", each.answers).token, each.group) for each in endings]
    with database.cursor() as cursor:
        # Texts, because psycopg looks through each item of an array. No id and nothing sealed holds a space.
        cursor.execute(_FINISH, [at, *(" ".join(map(str, column)) for column in zip(*rows, strict=True))])
        return {key for (key,) in cursor.fetchall()}


def read_or_end(query: Query) -> Result:
    """The result so far of a query that was just read. Ends an overdue query, and one whose leader has ended."""
    answers: dict[str, Answer] = {}
    if query.finished_at is None:
        answers = kept_answers(query)
        # What a worker kept is deleted when the query ends, which may have happened between the two reads.
        query = Query.of(query.partner, str(query.id))
        if query.is_left_over():
            return end(query)
    answers |= {answer.provider: answer for answer in query.stored_answers()}
    return result_with_ids(query, [*answers.values()])


def result_with_ids(query: Query, answers: list[Answer]) -> Result:
    """The result with these `answers`, and with the `offerId`s if the query stores offers. The ids of a query that has
    ended, and of answers that it reuses, are looked up. Before its end, new offers are stored here, so that they can be
    submitted. The process that ends the query finds them again."""
    answers, ids = sorted(answers, key=attrgetter("provider")), {}
    if query.kind == Query.Kind.AGGREGATED:
        new = {answer.provider: answer.offers for answer in answers}
        reused = new.keys() if query.finished_at else {answer.provider for answer in query.stored_answers()}
        ids = offers.known(query, {bank: new.pop(bank) for bank in reused & new.keys()})
        if query.finished_at is None:
            ids |= offers.known(query, new, refreshed_by=query)
            ids |= offers.persist(query, {bank: each for bank, each in new.items() if bank not in ids})
            if query.simulation_group is None and any(ids.values()):
                query = copy(query)  # the group is not stored yet: whoever stores it tells the lead
                query.simulation_group = query.source
    return Result(query, answers, shown_offers(query, answers, ids))


# --- Queries that are due: their task was lost, their worker died, or nobody ended them ---------------------------


def take_over() -> None:
    """Have due queries asked by a worker, and end those whose time is over, which several workers share by leases."""
    _publish_lost()
    overdue = Query.due().filter(deadline_at__lte=timezone.now() - LATE)
    for is_first in (True, False):  # a query that follows another repeats what the end of that one stored
        while queries := Query.claim(overdue.filter(follows__isnull=is_first), _ENDED_AT_ONCE, _LEASE):
            prefetch_related_objects(queries, "partner")
            give_back_connection()
            _end_all([ending for ending in Pool(_READ_AT_ONCE).map(_prepared, queries) if ending])


def _publish_lost() -> None:
    """Publish the tasks of the due queries that still have time. Each is due again after `LOST_AFTER`, or if nobody
    has ended it at its deadline."""
    now = timezone.now()
    lost = list(Query.due(now).filter(deadline_at__gt=now).values_list("pk", "deadline_at"))
    still_run = Query.objects.filter(pk__in=[key for key, _ in lost], finished_at=None)
    still_run.update(due_at=Least(Value(now + LOST_AFTER), F("deadline_at") + LATE))
    give_back_connection()
    for key, deadline in lost:
        log.warning("query_published_again", query=str(key))
        workers.publish(ASK, (str(key),), expires_s=(deadline - now).total_seconds())


def _prepared(query: Query) -> Ending | None:
    """What is stored at the end of an overdue query. None if that failed."""
    try:
        return prepared(query)
    except Exception:
        log.exception("query_not_ended", query=str(query.id))
        return None
    finally:
        give_back_connection()


def _end_all(endings: Sequence[Ending]) -> None:
    """Store these ends together. If that fails, halves of them, so that a query that cannot be ended blocks no other.
    Raises the database's error if the database stays away: a later sweep takes them again."""
    try:
        results = store(endings) if endings else {}
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        if len(endings) == 1:
            log.exception("query_not_ended", query=str(endings[0].query.id))
            return
        middle = len(endings) // 2
        _end_all(endings[:middle])
        _end_all(endings[middle:])
        return
    for key, result in results.items():
        answered = sum(answer.reached for answer in result.answers)
        log.warning("query_ended_by_sweep", query=str(key), answered=answered, banks=len(result.answers))
