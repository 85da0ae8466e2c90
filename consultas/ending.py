"""Ends a query: once, in one transaction, by the first process that tries.

Normally that is the worker with the last answer. If it died, the waiting web process ends the query at its deadline. If
that died, too, the sweep process does. Any later attempt finds `finished_at` set and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from uuid import UUID

import msgspec
import structlog
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from gevent.lock import BoundedSemaphore
from gevent.pool import Pool

from consultas import landed, offers, query_json
from consultas.answer import Answer, failed
from consultas.models import Query
from consultas.offers import NONE_READ
from foundation import encryption, statements
from foundation.database import give_back_connection, outlasts_restart
from providers.errors import BankFailure, BankTimedOut
from providers.types.answer import BankOffer
from webhooks import outbox

log = structlog.get_logger(__name__)

#: The sweep ends a query this many seconds after its deadline. By then the worker or the web process should have done
#: it.
OVERDUE_S = 1.5
#: How many overdue queries are read at once, and how many of them are ended at the same time.
_READ_AT_ONCE = 200
_ENDED_AT_ONCE = 16
_FINISH = (
    "UPDATE consultas_query SET answers = %s, simulation_group = %s, finished_at = %s"
    " WHERE id = %s AND finished_at IS NULL"
)
COMPLETED = "query.completed"
_turn = BoundedSemaphore()


@dataclass(frozen=True)
class Result:
    """A query that has ended: each bank's answer by name, and its offers as they are shown."""

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


def end(
    query: Query,
    fresh: Iterable[Answer],
    error: BankFailure,
    reused: list[Answer] | None = None,
    offer_ids: Mapping[str, UUID] = NONE_READ,
) -> Result:
    """End the query with the answers `fresh`, the answers `reused` of another query (None: those in its row), and the
    answers kept in Redis. Banks without an answer get `error`. `offer_ids` are `offerId`s by identity that the caller
    has read; others are looked up.

    Stores answers, offers and events in one transaction. If another process was first, the result that it stored is
    returned. Raises the database's error if the database stays unavailable.
    """
    reused = answers_of(query) if reused is None else reused
    by_bank = {answer.provider: answer for answer in (*reused, *fresh)}
    missing = [bank for bank in query.banks if bank not in by_bank]
    if missing:
        by_bank |= landed.answers(query, missing)
        elapsed_s = (timezone.now() - query.created_at).total_seconds()
        by_bank |= {bank: failed(bank, error, elapsed_s) for bank in missing if bank not in by_bank}
    answers = sorted(by_bank.values(), key=attrgetter("provider"))
    known = {answer.provider: answer.offers for answer in reused}
    keeps_offers = query.kind == Query.Kind.AGGREGATED
    is_new = keeps_offers and query.simulation_group is None and any(answer.offers for answer in answers)
    group = query.id if is_new else query.simulation_group
    result = _store(query, answers, sealed(query, answers), known, offer_ids, group, is_new, timezone.now())
    return result or stored(query)


@outlasts_restart
def _store(
    query: Query,
    answers: list[Answer],
    content: str,
    reused: Mapping[str, tuple[BankOffer, ...]],
    offer_ids: Mapping[str, UUID],
    group: UUID | None,
    is_new: bool,
    at: datetime,
) -> Result | None:
    """Store everything at once, which may be repeated. None if the query has already ended. Offers in `reused` were
    stored by another query and are only looked up. The `lead` event is sent once, by the query that created the
    group."""
    keeps_offers = query.kind == Query.Kind.AGGREGATED
    ids = offers.known(query, reused, read=offer_ids) if keeps_offers and reused else {}
    others = {each.provider: each.offers for each in answers if keeps_offers and each.provider not in ids}
    tells_end = query.partner.wants_event(COMPLETED)
    # A repeat that stores nothing but its row needs one statement, and so no transaction.
    is_more_than_the_row = is_new or tells_end or any(others.values())
    with transaction.atomic() if is_more_than_the_row else nullcontext():
        if not statements.execute(_FINISH, [content, group, at, query.pk]):
            return None
        query.simulation_group, query.finished_at = group, at
        ids |= offers.persist(query, others)
        result = Result(query, answers, query_json.shown_offers(query, answers, ids))
        if is_new:
            outbox.send(query.partner, "lead", str(query.id), query_json.lead(query, answers, result.shown))
        if tells_end:
            outbox.send(query.partner, COMPLETED, str(query.id), query_json.completed(query, answers))
    return result


def stored(query: Query) -> Result:
    """The result in the row of a query that has ended. Raises Query.DoesNotExist if the row is gone."""
    row = Query.objects.get(pk=query.pk)
    return shown(row, answers_of(row))


def shown(query: Query, answers: list[Answer]) -> Result:
    """The result of a query that has ended, with the `offerId`s if it stores offers."""
    offers_by_bank = {answer.provider: answer.offers for answer in answers}
    ids = offers.known(query, offers_by_bank) if query.kind == Query.Kind.AGGREGATED else {}
    return Result(query, answers, query_json.shown_offers(query, answers, ids))


def is_any_overdue() -> bool:
    """True if any query should have ended and has not."""
    return _overdue().exists()


def _overdue() -> QuerySet[Query]:
    return Query.objects.filter(finished_at=None, deadline_at__lt=timezone.now() - timedelta(seconds=OVERDUE_S))


def end_overdue() -> None:
    """End the overdue queries until none is left that can be ended. The processes that worked on them have died. Does
    nothing while an earlier call in this process is still ending them."""
    if not _turn.acquire(blocking=False):
        return
    unended: set[UUID] = set()
    try:
        # Those that cannot be ended, for whatever reason, are read once and do not block the others.
        while queries := list(_overdue().exclude(pk__in=unended).select_related("partner")[:_READ_AT_ONCE]):
            give_back_connection()
            has_ended = Pool(_ENDED_AT_ONCE).map(_end_overdue, queries)
            unended |= {query.pk for query, is_done in zip(queries, has_ended, strict=True) if not is_done}
    finally:
        _turn.release()


def _end_overdue(query: Query) -> bool:
    """End an overdue query. False if that failed."""
    try:
        result = end(query, [], BankTimedOut())
    except Exception:
        log.exception("query_not_ended", query=str(query.id))
        return False
    finally:
        give_back_connection()
    answered = sum(answer.reached for answer in result.answers)
    log.warning("query_ended_by_sweep", query=str(query.id), answered=answered, banks=len(result.answers))
    return True


def is_overdue(query: Query) -> bool:
    """True if the query should have ended and has not."""
    return query.finished_at is None and query.seconds_left() < -OVERDUE_S


def sealed(query: Query, answers: list[Answer]) -> str:
    """`answers` encrypted as the database stores them for `query`."""
    token: str = encryption.sealed(query, "answers", answers).token
    return token
