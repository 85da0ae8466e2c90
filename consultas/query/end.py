"""Ends a query: once, in one transaction, by the first process that tries.

Normally that is the worker with the last answer. If it died, another worker takes the query. Past the deadline, the web
process that still waits ends the query, or else a sweep. Any later attempt finds `finished_at` set and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from uuid import UUID

import msgspec
from django.db import transaction
from django.utils import timezone

from consultas import offers, query_json
from consultas.answer import Answer, failed
from consultas.models import Query
from consultas.query import repeat
from consultas.query.repeat import Earlier
from foundation import channels, encryption, statements
from foundation.database import outlasts_restart
from providers.errors import BankFailure, BankTimedOut
from providers.types.answer import BankOffer
from webhooks import outbox

_FINISH = (
    "UPDATE consultas_query SET answers = %s, simulation_group = %s, finished_at = %s,"
    " due_at = NULL, lease_until = NULL, worker = '' WHERE id = %s AND finished_at IS NULL"
)
COMPLETED = "query.completed"


class Ended(msgspec.Struct, frozen=True):
    """What a worker tells at the end of a query. `reached` is False if no bank gave any answer but an infrastructure
    failure. `reply` is the aggregated response, null for other routes. `is_stored` is False if the database was
    away."""

    is_stored: bool = True
    reached: bool = True
    reply: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True)
class Result:
    """A query's answers, and its offers as they are shown, by bank."""

    query: Query
    answers: list[Answer]
    shown: query_json.RenderedOffers

    @property
    def reached(self) -> bool:
        """False if no bank gave any answer but an infrastructure failure."""
        return not self.answers or any(answer.reached for answer in self.answers)

    def reply(self) -> bytes:
        """The aggregated response as JSON."""
        return msgspec.json.encode(query_json.aggregate(self.query, self.answers, self.shown))


def answers_of(query: Query) -> list[Answer]:
    """The answers in the query's row: all of them once it has ended; before that, those that it reuses."""
    return msgspec.convert(query.answers or [], list[Answer])


def landed(query: Query, banks: Iterable[str] | None = None) -> dict[str, Answer]:
    """The answers of `banks` (None: of all) that a worker has kept for the running query, by bank."""
    kept = channels.kept(str(query.source), banks)
    return {bank: msgspec.json.decode(answer, type=Answer) for bank, answer in kept.items()}


def end(
    query: Query,
    fresh: Iterable[Answer] = (),
    error: BankFailure | None = None,
    earlier: Earlier | None = None,
) -> Result:
    """End the query with the answers `fresh`, those of `earlier`, which it repeats (None: those in its row and those of
    the query that it follows), and those that a worker has kept. Banks without an answer get `error`, a time-out by
    default.

    Stores answers, offers and events in one transaction. If another process was first, the result that it stored is
    returned. Raises the database's error if the database stays away.
    """
    if earlier is None:
        earlier = (repeat.of(query.follows) if query.follows else None) or Earlier(None, answers_of(query))
    by_bank = {answer.provider: answer for answer in (*earlier.answers, *fresh)}
    if missing := [bank for bank in query.banks if bank not in by_bank]:
        by_bank |= landed(query, missing)
        elapsed_s = (timezone.now() - query.created_at).total_seconds()
        by_bank |= {bank: failed(bank, error or BankTimedOut(), elapsed_s) for bank in missing if bank not in by_bank}
    query.simulation_group = query.simulation_group or earlier.simulation_group
    is_new = query.simulation_group is None and any(answer.offers for answer in by_bank.values())
    answers = sorted(by_bank.values(), key=attrgetter("provider"))
    return _Ending(query, answers, earlier, is_new and query.kind == Query.Kind.AGGREGATED).store() or stored(query)


@dataclass(frozen=True)
class _Ending:
    """The end of `query` with `answers`. Those of `earlier` were stored by another query. `is_new` is True if the query
    creates a group of offers."""

    query: Query
    answers: list[Answer]
    earlier: Earlier
    is_new: bool

    @outlasts_restart
    def store(self) -> Result | None:
        """Store everything at once, which may be repeated. None if the query has already ended.

        Offers of earlier answers are only looked up. The `lead` event is sent once, by the query that creates the
        group.
        """
        query, at = self.query, timezone.now()
        keeps_offers = query.kind == Query.Kind.AGGREGATED
        ids = self._known_ids() if keeps_offers else {}
        others = {each.provider: each.offers for each in self.answers if keeps_offers and each.provider not in ids}
        tells_end = query.partner.wants_event(COMPLETED)
        # A repeat that stores nothing but its row needs one statement, and so no transaction.
        is_more_than_the_row = self.is_new or tells_end or any(others.values())
        with transaction.atomic() if is_more_than_the_row else nullcontext():
            group = query.id if self.is_new else query.simulation_group
            if not statements.execute(_FINISH, [sealed(query, self.answers), group, at, query.pk]):
                return None
            ids |= offers.persist(query, others)
            result = self._shown(group, at, ids)
            if self.is_new:
                outbox.send(query.partner, "lead", str(query.id), query_json.lead(query, self.answers, result.shown))
            if tells_end:
                outbox.send(query.partner, COMPLETED, str(query.id), query_json.completed(query, self.answers))
        return result

    def _known_ids(self) -> dict[str, list[UUID]]:
        by_bank: Mapping[str, tuple[BankOffer, ...]] = {each.provider: each.offers for each in self.earlier.answers}
        return offers.known(self.query, by_bank, read=self.earlier.offer_ids) if by_bank else {}

    def _shown(self, group: UUID | None, at: datetime, ids: dict[str, list[UUID]]) -> Result:
        self.query.simulation_group, self.query.finished_at = group, at
        return Result(self.query, self.answers, query_json.shown_offers(self.query, self.answers, ids))


def stored(query: Query) -> Result:
    """The result in the row of a query that has ended. Raises Query.DoesNotExist if the row is gone."""
    row = Query.objects.get(pk=query.pk)
    return shown(row, answers_of(row))


def shown(query: Query, answers: list[Answer]) -> Result:
    """The result of a query that has ended, with the `offerId`s if it stores offers."""
    offers_by_bank = {answer.provider: answer.offers for answer in answers}
    ids = offers.known(query, offers_by_bank) if query.kind == Query.Kind.AGGREGATED else {}
    return Result(query, answers, query_json.shown_offers(query, answers, ids))


def sealed(query: Query, answers: list[Answer]) -> str:
    """`answers` encrypted as the database stores them for `query`."""
    token: str = encryption.sealed(query, "answers", answers).token
    return token
