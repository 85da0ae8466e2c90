"""A web process's part of a query: from a validated body to its row, the reuse of answers, and the wait for the end.

The process publishes one task, listens to what the worker tells, and passes it on until the end or the deadline. All
readers hear the same: the request that waits for the whole, a stream, a reader that comes back, and an identical query
that follows this one. A reader judges nobody's life. Past the deadline it ends the query, if nobody else has.
"""

import math
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import structlog
from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import connection
from django.utils import timezone

from authorizations import evidence
from consultas.admission import admission
from consultas.models import LOST_AFTER, Answer, Query, failed
from consultas.query import end
from consultas.query.end import REPEAT_S, Earlier
from consultas.query_json import Result
from foundation import database, workers
from foundation.encryption import blind_index
from partners.contract import AllowedBank
from partners.models import Partner
from providers.errors import BankTimedOut, ProviderUnavailable
from providers.types.query import BankQuery

log = structlog.get_logger(__name__)

# `fingerprint <> ''` is the condition of the partial index, without which PostgreSQL would not use it. Of an erased
# holder's query `answers` is NULL.
_IDENTICAL = """
SELECT EXISTS (SELECT FROM inserted), earlier.* FROM (SELECT) one LEFT JOIN LATERAL (
    SELECT q.id, q.simulation_group, q.answers,
        ARRAY(SELECT o.provider FROM consultas_offer o
            WHERE o.cpf_index = q.cpf_index AND o.partner_id = q.partner_id AND o.expired_at IS NOT NULL),
        (SELECT jsonb_object_agg(o.identity, o.id) FROM consultas_offer o
            WHERE o.query_id IN (q.id, q.simulation_group))
    FROM consultas_query q
    WHERE q.fingerprint = %s AND q.fingerprint <> '' AND q.created_at >= %s
        AND q.finished_at IS NOT NULL AND q.answers IS NOT NULL ORDER BY q.created_at DESC LIMIT 1
) earlier ON true
"""
#: The index that keeps two identical queries from running at the same time.
_ONE_RUNS = "(fingerprint) WHERE finished_at IS NULL AND fingerprint <> ''"
#: How long after the deadline a reader waits for the end before it ends the query itself, in seconds.
END_ITSELF_AFTER_S = 1.0
#: How long a reader that has all answers waits until they are stored, in seconds.
STORED_WITHIN_S = 2.0
#: A reader that may have missed something looks at the row this often, in seconds. One that waits for answers wakes as
#: often, because `_until` moves when it has all of them.
LOOK_EVERY_S = 1.0


def begin(
    partner: Partner, data: dict[str, Any], kind: Query.Kind, request_id: str, banks: list[AllowedBank]
) -> tuple[Query, Result | None]:
    """Save a query of `partner` to `banks`. `data` was validated by `serializers.QueryRequest`. Also returns its result
    if it needs no bank, because it repeats one that has ended. Raises InvalidInput on `authorization_id` if that
    session's evidence cannot be used."""
    query = _query(partner, data, kind, request_id, banks)
    may_repeat = kind == Query.Kind.AGGREGATED
    # Streamed and individual queries store no offers and send no lead, so only an aggregated one can repeat another.
    if may_repeat and all(data.get(amount) is None for amount in ("loan_value", "installment_value", "installments")):
        paused = [bank.name for bank in banks if bank.is_paused]  # a repeat must not show their earlier offers
        parts = [str(partner.pk), query.request, query.banks, query.portfolios, paused]
        same = msgspec.json.encode(parts, order="sorted")
        query.fingerprint = blind_index("query", same.decode())
    earlier = _insert(query)
    return query, end_if_repeated(query, earlier) if may_repeat else None


def _insert(query: Query) -> Earlier:
    """Insert the new `query`. Returns the result that it repeats. If an identical query is running, it follows that."""
    while query.fingerprint:  # `follow` clears it
        earlier = insert_unless_running(query)
        if earlier is not None:
            return earlier
        identical = Query.objects.filter(fingerprint=query.fingerprint, finished_at=None).select_related("partner")
        leader = identical.defer("answers").first()
        if leader is not None and leader.seconds_left() > 0:
            query.follow(leader)
        elif leader is not None:
            end.end(leader)  # its time is over, and nobody has ended it
    database.insert(query)
    return Earlier()


def insert_unless_running(query: Query) -> Earlier | None:
    """Insert the new `query`, which has a fingerprint, unless an identical query is running: both meet at a unique
    index, so each bank is asked once. Returns the result that it repeats, which may be empty; None if it was not
    inserted."""
    identical = (query.fingerprint, timezone.now() - timedelta(seconds=REPEAT_S))
    row = database.insert_and_fetch(query, _IDENTICAL, identical, unless=_ONE_RUNS)
    is_inserted, key, group, sealed, outdated, ids = row or (False, *[None] * 5)
    if not is_inserted:
        return None
    if key is None:
        return Earlier()
    answers = Query._meta.get_field("answers").text(sealed, Query(id=key))
    return Earlier(
        group,
        msgspec.json.decode(answers, type=list[Answer]),
        outdated,
        msgspec.json.decode(ids or "{}", type=dict[str, UUID]),
    )


def end_if_repeated(query: Query, earlier: Earlier) -> Result | None:
    """End the query and return its result, if `earlier` has a good answer of each of its banks. Otherwise return None,
    and keep the good answers in the row, so that a worker asks the other banks."""
    reused = replace(earlier, answers=earlier.still_good())
    if not query.follows and {answer.provider for answer in reused.answers} >= set(query.banks):
        return end.end(query, earlier=reused)
    if reused.answers:
        query.reuse(msgspec.to_builtins(reused.answers), reused.simulation_group)
    return None


def _query(
    partner: Partner, data: dict[str, Any], kind: Query.Kind, request_id: str, banks: list[AllowedBank]
) -> Query:
    """The query of `begin`, not yet saved."""
    authorization_id = data.pop("authorization_id", None)
    reference = data.pop("partner_reference", None)
    acceptance = evidence.for_query(partner, data["cpf"], authorization_id) if authorization_id else None
    if acceptance is not None:
        data |= acceptance.for_bank  # in place of the body's `client_ip` and `geolocation`
    asked_portfolio = data.pop("portfolio", None)
    holder = msgspec.convert(data, BankQuery)
    return Query(
        partner=partner,
        kind=kind,
        cpf_index=blind_index("cpf", holder.cpf),
        request=msgspec.to_builtins(asdict(holder)),  # with the defaults, which msgspec leaves at the class
        banks=[bank.name for bank in banks],
        portfolios={bank.name: named for bank in banks if (named := bank.portfolio_for(asked_portfolio))},
        authorization_id=authorization_id or "",
        evidence_number=acceptance.number if acceptance else None,
        request_id=request_id,
        partner_reference=reference or "",
        deadline_at=(now := timezone.now()) + timedelta(seconds=settings.QUERY_DEADLINE_S),
        due_at=now + LOST_AFTER,
    )


# --- The wait -----------------------------------------------------------------------------------------------------


def aggregate(query: Query) -> msgspec.Raw:
    """The aggregated response to `query` as JSON. A worker asks the banks, or the query follows an identical one; the
    reader waits for the end and holds no database connection meanwhile. Raises ProviderUnavailable if no bank gave any
    answer but an infrastructure failure, and the database's error if the query cannot be stored."""
    reader = _Reader(query, (), publishes=True)
    for _ in reader.news(math.inf):
        pass
    if reader.reply is not None and query.follows is None:
        return msgspec.Raw(reader.reply)
    result = end.end(query)
    if not result.reached:
        raise ProviderUnavailable("Nenhum banco respondeu. Tente novamente em instantes.")
    return msgspec.Raw(result.reply())


def answers(
    query: Query, banks: Collection[str], pause_s: float = math.inf, *, publishes: bool = True
) -> Iterator[Answer | None]:
    """Like `aggregate`, but yields the answers of `banks` as they come, and None after each `pause_s` seconds without
    one, until the query has ended or has all its answers. Closing the generator frees everything held for it; the
    worker continues."""
    reader = _Reader(query, banks, publishes)
    yield from reader.news(pause_s)
    if not reader.left and reader.has_ended:
        return
    try:
        result = end.end(query, reader.heard)
        missing = [answer for answer in result.answers if answer.provider in reader.left]
    except (DatabaseFailure, Query.DoesNotExist) as fault:
        log.error("query_not_stored", query=str(query.id), fault=type(fault).__name__)
        missing = [failed(bank, BankTimedOut(), time.monotonic() - reader.begun) for bank in sorted(reader.left)]
    finally:
        connection.close()
    yield from missing


class _Reader:
    """One reader, who still wants the answers of the banks in `left`, and has heard some. `reply` is what the worker
    told at the end (`Result.told`), as JSON, if it told any."""

    def __init__(self, query: Query, banks: Collection[str], publishes: bool) -> None:
        self.left = set(banks)
        self.heard: list[Answer] = []
        self.has_ended = False
        self.reply: bytes | None = None
        self.begun = time.monotonic()
        self._query = query
        #: The first reader has the banks asked. Others may have missed something.
        self._is_first = publishes and query.follows is None
        self._until = self.begun + query.seconds_left() + END_ITSELF_AFTER_S

    def news(self, pause_s: float) -> Iterator[Answer | None]:
        """The answers, and None after each `pause_s` without one, until the end or the deadline."""
        work, pause_at = str(self._query.source), time.monotonic() + pause_s
        task = (end.ASK, (work,)) if self._is_first else None
        look_s = min(pause_s, LOOK_EVERY_S if self.left or not self._is_first else math.inf)
        for message in workers.hear(work, self._until, look_s, results=bool(self.left), task=task):
            for answer in self._read(message):
                pause_at = time.monotonic() + pause_s
                yield answer
            now = time.monotonic()
            if self.has_ended or now >= self._until:
                return
            if now >= pause_at:
                pause_at = now + pause_s
                yield None

    def _read(self, message: tuple[str, bytes] | None) -> Iterator[Answer]:
        """The answers that `message` brings. None: for a while none came."""
        match message:
            case (workers.START, _) if not self._query.follows:
                admission.observe(time.monotonic() - self.begun)
            case (workers.ANSWER, payload):
                yield from self._take(msgspec.json.decode(payload, type=list[Answer]))
            case (workers.END, payload):
                self.has_ended, self.reply = True, None if payload == b"null" else payload
            case (workers.READY, _):  # the reader came late, or Redis was away: it may have missed something
                yield from self._look()
            case None if not self._is_first:
                yield from self._look()

    def _take(self, answers: list[Answer]) -> Iterator[Answer]:
        for answer in answers:
            if answer.provider in self.left:
                self.left.remove(answer.provider)
                self.heard.append(answer)
                if len(self.heard) == len(self._query.banks):  # else others may still be asked
                    self._until = min(self._until, time.monotonic() + STORED_WITHIN_S)
                yield answer

    def _look(self) -> Iterator[Answer]:
        """The wanted answers that are in the row. Sees whether the query has ended."""
        try:
            row = Query.objects.filter(pk=self._query.source).first()
        except DatabaseFailure as fault:
            log.warning("query_unread", query=str(self._query.id), fault=type(fault).__name__)
            return
        finally:
            connection.close()
        if row is None or row.finished_at is not None:
            self.has_ended = True
        yield from self._take(row.stored_answers() if row else [])
