"""From a validated body to a query and its answers: which banks, whose evidence, and what a repeat reuses.

Two identical parameterless queries of one partner within 60 s share the answers of the banks that are
settled; at the same moment they share all answers, so that each bank is asked once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import structlog
from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import connection, transaction
from django.utils import timezone
from redis.exceptions import RedisError
from redis.lock import Lock

from authorizations import evidence
from authorizations.evidence import QueryEvidence
from consultas import fan_out, offers, serializers
from consultas.fan_out import Answer
from consultas.models import Query
from foundation import statements
from foundation.database import outlasts_restart
from foundation.encryption import blind_index, decrypt
from foundation.errors import Detail, InvalidInput, NotFound
from foundation.redis import redis
from partners.models import AllowedBank, Partner
from providers import registry
from providers.errors import ProviderNotAllowed, ProviderUnavailable
from providers.types import BankOffer, BankQuery
from webhooks import outbox

log = structlog.get_logger(__name__)

#: Within this many seconds an identical parameterless query is a repeat.
REPEAT_S = 60
#: A follower looks for the leader's end after this pause, then after longer and longer ones.
_FLIGHT_POLL_S = 0.05
_FLIGHT_POLL_FACTOR = 1.5
_FLIGHT_LONGEST_POLL_S = 0.5
#: The query that asks the banks prolongs its lock this often. The lock ends after the longer time; then another asks.
_FLIGHT_BEAT_S = 1.0
_FLIGHT_TTL_S = 5
_FINISH = "UPDATE consultas_query SET answers = %s, simulation_group = %s, finished_at = %s WHERE id = %s"
_FINISH_ONCE = f"{_FINISH} AND finished_at IS NULL"


@dataclass(frozen=True)
class Aggregate:
    """What the aggregated route answers with: each bank's answer by name, and all offers as they are shown."""

    query: Query
    answers: list[Answer]
    shown: serializers.RenderedOffers


def choose_banks(partner: Partner, requested: list[str] | None) -> list[AllowedBank]:
    """The contract's banks, narrowed to `requested` where that is given.

    Raises InvalidInput on `providers`, listing the contract's banks, when none is left.
    """
    allowed = partner.allowed_banks()
    if requested is None:
        return allowed
    chosen = [bank for bank in allowed if bank.name in requested]
    if not chosen:
        names = tuple(bank.name for bank in allowed)
        message = f"Nenhum banco informado pertence ao contrato. Bancos disponíveis: {', '.join(names) or '-'}."
        raise InvalidInput(details=[Detail("providers", message, names)])
    return chosen


def choose_bank(partner: Partner, name: str) -> AllowedBank:
    """The contract's bank `name`. Raises NotFound for an unknown bank, ProviderNotAllowed outside the contract."""
    if registry.get(name) is None:
        raise NotFound("Banco desconhecido.")
    for bank in partner.allowed_banks():
        if bank.name == name:
            return bank
    raise ProviderNotAllowed


def begin(partner: Partner, data: dict[str, Any], kind: Query.Kind, request_id: str, banks: list[AllowedBank]) -> Query:
    """Save a query of `partner` to `banks`; `data` is what `serializers.QueryRequest` validated.

    Raises InvalidInput on `authorization_id` where that session's evidence can't be used.
    """
    authorization_id = data.pop("authorization_id", None)
    seen = evidence.for_query(partner, data["cpf"], authorization_id) if authorization_id else None
    if seen is not None:
        data |= _from_session(seen)
    asked_portfolio = data.pop("portfolio", None)
    holder = BankQuery(**data)
    query = Query(
        partner=partner,
        kind=kind,
        cpf_index=blind_index("cpf", holder.cpf),
        request=msgspec.to_builtins(holder),
        banks=[bank.name for bank in banks],
        portfolios={bank.name: named for bank in banks if (named := bank.portfolio_for(asked_portfolio))},
        authorization_id=authorization_id or "",
        evidence_number=seen.number if seen else None,
        request_id=request_id,
        deadline_at=timezone.now() + timedelta(seconds=settings.QUERY_DEADLINE_S),
    )
    parameterless = holder.loan_value is None and holder.installment_value is None and holder.installments is None
    if (
        parameterless and kind is Query.Kind.AGGREGATED
    ):  # streamed and individual queries store no offers and send no lead
        same = msgspec.json.encode([str(partner.pk), query.request, query.banks, query.portfolios], order="sorted")
        query.fingerprint = blind_index("query", same.decode())
    statements.insert(query)
    return query


def _from_session(seen: QueryEvidence) -> dict[str, Any]:
    """The fields that come from a session's evidence. The body's own `client_ip` and `geolocation` do not count."""
    return {
        "client_ip": seen.ip,
        "geolocation": seen.geolocation,
        "user_agent": seen.user_agent,
        "device_model": seen.device.get("deviceModel"),
        "platform": seen.device.get("platform"),
        "accepted_at": seen.accepted_at,
        "authorization_reference": f"evidence-{seen.number}",
    }


def aggregate(query: Query) -> Aggregate:
    """Ask every bank of `query`, keep the offers, tell the partner of the lead.

    Raises ProviderUnavailable when no bank gave any answer but an infrastructure failure.
    """
    while True:
        with _flight(query) as flight:
            if flight.leader is None:
                earlier = _earlier(query)
                reused = _still_good(earlier) if earlier else []
                known = {answer.provider for answer in reused}
                fresh = _ask(query, flight, [bank for bank in query.banks if bank not in known])
                return _finish(query, earlier if reused else None, reused, fresh)
        followed = _await(query, flight.leader)
        if followed is not None:
            return _finish(query, followed, followed.answers, [])
        if query.seconds_left() <= 0:
            raise ProviderUnavailable


def _ask(query: Query, flight: _Flight, banks: list[str]) -> list[Answer]:
    """The answers of `banks`. Prolongs the flight's lock meanwhile: it ends soon after a process that died."""
    found: list[Answer] = []
    for answer in fan_out.answers_and_pauses(query, banks, _FLIGHT_BEAT_S):
        if answer is not None:
            found.append(answer)
        flight.keep_up()
    return found


class _Flight:
    """A query's part in its flight: identical queries at the same moment, of which one asks the banks.

    `leader` is the id of the query that asks the banks already; None where this query shall ask them. Then it holds the
    flight's lock, whose token is its id. Without Redis every query asks: that costs calls, never an answer. After the
    first error Redis is left alone, because each further look at a frozen Redis would cost a full time-out; the lock
    ends by itself.
    """

    def __init__(self, query: Query) -> None:
        self.leader: str | None = None
        self._lock: Lock | None = None
        if not query.fingerprint:
            return
        connection.close()
        lock = redis().lock(_flight_key(query), timeout=_FLIGHT_TTL_S, blocking=False, thread_local=False)
        try:
            if lock.acquire(token=str(query.id)):
                self._lock = lock
            else:
                held = redis().get(lock.name)
                # The lock may have ended between the two looks: the caller tries again.
                self.leader = held.decode() if isinstance(held, bytes) else ""
        except RedisError:
            log.warning("flight_unreachable")
        self._kept_at = time.monotonic()

    def keep_up(self) -> None:
        """Prolong the lock, if the last time is long enough ago."""
        if self._lock and time.monotonic() - self._kept_at >= _FLIGHT_BEAT_S:
            try:
                self._lock.reacquire()
                self._kept_at = time.monotonic()
            except RedisError:  # Redis is away, or another query has the lock by now
                self._lock = None

    def end(self) -> None:
        """Let the next query ask."""
        if self._lock:
            connection.close()
            with suppress(RedisError):
                self._lock.release()


@contextmanager
def _flight(query: Query) -> Iterator[_Flight]:
    flight = _Flight(query)
    try:
        yield flight
    finally:
        flight.end()


def _flight_key(query: Query) -> str:
    return f"flight:{query.fingerprint}"


def _await(query: Query, leader: str) -> _Earlier | None:
    """What the leader found, when it has finished. None if the leader died before, or the time is over."""
    key, pause = _flight_key(query), _FLIGHT_POLL_S
    while leader and query.seconds_left() > 0:
        row = _finished("id = %s", leader)
        connection.close()
        if row is not None:
            return row
        try:
            if redis().get(key) != leader.encode():
                return _finished("id = %s", leader)
        except RedisError:
            return None
        time.sleep(pause)
        pause = min(pause * _FLIGHT_POLL_FACTOR, _FLIGHT_LONGEST_POLL_S)
    return None


def _earlier(query: Query) -> _Earlier | None:
    """The newest finished query of which `query` is a repeat."""
    if not query.fingerprint:
        return None
    since = timezone.now() - timedelta(seconds=REPEAT_S)
    # The second condition is the index's own, which a prepared statement can't conclude from the first.
    return _finished("fingerprint = %s AND fingerprint <> '' AND created_at >= %s", query.fingerprint, since)


@dataclass(frozen=True)
class _Earlier:
    """What a finished query found: the group of its offers, and its answers; and the banks of which an offer to the
    holder has expired meanwhile."""

    simulation_group: UUID | None
    answers: list[Answer]
    outdated: list[str]


def _finished(which: str, *params: Any) -> _Earlier | None:
    """The newest of the queries `which`, a condition in SQL, that has its answers. A query whose holder was
    erased has finished and has no answers."""
    row = statements.fetch_one(
        "SELECT simulation_group, answers, ARRAY(SELECT o.provider FROM consultas_offer o WHERE"  # noqa: S608 - of ours
        " o.cpf_index = q.cpf_index AND o.partner_id = q.partner_id AND o.expired_at IS NOT NULL)"
        f" FROM consultas_query q WHERE {which}"
        " AND finished_at IS NOT NULL AND answers IS NOT NULL ORDER BY created_at DESC LIMIT 1",
        params,
    )
    if row is None:
        return None
    group, sealed, outdated = row
    return _Earlier(group, msgspec.json.decode(decrypt(sealed), type=list[Answer]), outdated)


def _still_good(earlier: _Earlier) -> list[Answer]:
    """The earlier answers that a repeat may reuse: of settled banks, and young enough. Banks that were pending, wanted
    an action or failed are asked again, so that no offer that became available stays hidden. So are banks that know an
    offer no longer: the partner would get it again."""
    since = time.time() - REPEAT_S
    good = (answer for answer in earlier.answers if answer.settled and answer.answered_at >= since)
    return [answer for answer in good if answer.provider not in earlier.outdated]


def answers_of(query: Query) -> list[Answer]:
    """The stored answers of a finished query."""
    return msgspec.convert(query.answers or [], list[Answer])


def _finish(query: Query, source: _Earlier | None, reused: list[Answer], fresh: list[Answer]) -> Aggregate:
    """Store the answers and offers and tell of the lead; `source` is the query whose answers were reused, whose
    group is kept and whose lead is not told twice."""
    answers = sorted((*reused, *fresh), key=lambda answer: answer.provider)
    query.finished_at = timezone.now()
    reused_offers = {answer.provider: answer.offers for answer in reused}
    shown = _store(query, source, answers, _sealed(answers), reused_offers)
    if answers and not any(answer.reached for answer in answers):
        raise ProviderUnavailable("Nenhum banco respondeu. Tente novamente em instantes.")
    return Aggregate(query, answers, shown)


@outlasts_restart
def _store(
    query: Query,
    source: _Earlier | None,
    answers: list[Answer],
    sealed: str,
    reused: dict[str, tuple[BankOffer, ...]],
) -> serializers.RenderedOffers:
    """Store everything in one transaction, which may be repeated: if only the confirmation of a commit was lost, no
    second event is sent. Offers `reused` were stored by `source` and are only looked up."""
    with transaction.atomic():
        ids = offers.known(query, reused) if reused else {}
        others = (answer for answer in answers if answer.provider not in ids)
        ids |= offers.persist(query, {answer.provider: answer.offers for answer in others})
        group = source.simulation_group if source else None
        is_new = group is None and any(ids.values())
        query.simulation_group = query.id if is_new else group
        shown = serializers.shown_offers(query, answers, ids)
        first = statements.execute(_FINISH_ONCE, [sealed, query.simulation_group, query.finished_at, query.pk])
        if first and is_new:
            outbox.send(query.partner, "lead", str(query.id), serializers.lead(query, answers, shown))
    return shown


def close(query: Query, answers: list[Answer]) -> None:
    """Store the answers of a streamed or individual query, which keeps no offers.

    If the database stays away, the back office never sees them and the log says so. The partner gets them all the same.
    """
    query.finished_at = timezone.now()
    try:
        _save_answers(query, _sealed(answers))
    except DatabaseFailure as fault:
        log.error("query_not_stored", query=str(query.id), fault=type(fault).__name__)


@outlasts_restart
def _save_answers(query: Query, sealed: str) -> None:
    statements.execute(_FINISH, [sealed, query.simulation_group, query.finished_at, query.pk])


def _sealed(answers: list[Answer]) -> str:
    """`answers` as the database keeps them."""
    field = Query._meta.get_field("answers")
    stored: str = field.get_prep_value(answers)
    return stored
