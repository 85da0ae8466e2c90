"""From a validated body to a query and its answers: the choice of banks, the evidence, and the reuse of answers.

Two identical parameterless queries of one partner within 60 s share the answers of settled banks. At the same time they
share all answers, so that each bank is asked once.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextvars import copy_context
from datetime import timedelta
from typing import Any

import msgspec
from django.conf import settings
from django.db import connection
from django.utils import timezone

from authorizations import evidence
from authorizations.evidence import QueryEvidence
from consultas import ending, fan_out, flight, repeats, standing
from consultas.admission import Place
from consultas.answer import Answer
from consultas.fan_out import Ended
from consultas.models import Query
from consultas.repeats import Earlier
from foundation import statements
from foundation.encryption import blind_index
from foundation.errors import Detail, InvalidInput, NotFound
from partners.models import AllowedBank, Partner
from providers import registry
from providers.errors import BankTimedOut, ProviderNotAllowed, ProviderUnavailable
from providers.types.query import BankQuery

_REUSE = "UPDATE consultas_query SET answers = %s, simulation_group = %s WHERE id = %s AND finished_at IS NULL"


def choose_banks(partner: Partner, requested: list[str] | None) -> list[AllowedBank]:
    """The contract's banks, restricted to `requested` if given.

    Raises InvalidInput on `providers`, with the contract's banks, if none remains.
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
    """Save a query of `partner` to `banks`. `data` was validated by `serializers.QueryRequest`.

    Raises InvalidInput on `authorization_id` if that session's evidence cannot be used.
    """
    query = _query(partner, data, kind, request_id, banks)
    statements.insert(query)
    return query


def begin_aggregated(
    partner: Partner, data: dict[str, Any], request_id: str, banks: list[AllowedBank]
) -> tuple[Query, Earlier]:
    """Like `begin`, for an aggregated query. Also returns the result that the query repeats."""
    query = _query(partner, data, Query.Kind.AGGREGATED, request_id, banks)
    # Streamed and individual queries store no offers and send no lead, so only an aggregated one can repeat another.
    if all(data.get(amount) is None for amount in ("loan_value", "installment_value", "installments")):
        same = msgspec.json.encode([str(partner.pk), query.request, query.banks, query.portfolios], order="sorted")
        query.fingerprint = blind_index("query", same.decode())
    return query, repeats.insert(query)


def _query(
    partner: Partner, data: dict[str, Any], kind: Query.Kind, request_id: str, banks: list[AllowedBank]
) -> Query:
    """The query of `begin`, not yet saved."""
    authorization_id = data.pop("authorization_id", None)
    reference = data.pop("partner_reference", None)
    acceptance = evidence.for_query(partner, data["cpf"], authorization_id) if authorization_id else None
    if acceptance is not None:
        data |= _from_session(acceptance)
    asked_portfolio = data.pop("portfolio", None)
    holder = BankQuery(**data)
    return Query(
        partner=partner,
        kind=kind,
        cpf_index=blind_index("cpf", holder.cpf),
        request=msgspec.to_builtins(holder),
        banks=[bank.name for bank in banks],
        portfolios={bank.name: named for bank in banks if (named := bank.portfolio_for(asked_portfolio))},
        authorization_id=authorization_id or "",
        evidence_number=acceptance.number if acceptance else None,
        request_id=request_id,
        partner_reference=reference or "",
        deadline_at=timezone.now() + timedelta(seconds=settings.QUERY_DEADLINE_S),
    )


def _from_session(acceptance: QueryEvidence) -> dict[str, Any]:
    """The fields that come from a session's evidence. `client_ip` and `geolocation` of the body are ignored."""
    return {
        "client_ip": acceptance.ip,
        "geolocation": acceptance.geolocation,
        "user_agent": acceptance.user_agent,
        "device_model": acceptance.device.get("deviceModel"),
        "platform": acceptance.device.get("platform"),
        "accepted_at": acceptance.accepted_at,
        "authorization_reference": f"evidence-{acceptance.number}",
    }


def aggregate(query: Query, earlier: Earlier = repeats.NOTHING) -> msgspec.Raw:
    """Ask every bank of `query` and wait for its end, or repeat `earlier` if that has a good answer of every bank.
    Returns the aggregated response as JSON.

    Raises ProviderUnavailable if no bank gave any answer but an infrastructure failure.
    """
    repeated = _repeated(query, earlier)
    while repeated is None:
        with flight.flight(query) as part:
            if part.leader is None:
                # An identical query may have ended since this one was saved.
                earlier = repeats.earlier(query)
                return _repeated(query, earlier) or _asked(query, part, _reuse(query, earlier))
        followed = flight.follow(query, part.leader)
        if followed is not None:
            query.simulation_group = followed.simulation_group
            return _shown(ending.end(query, (), BankTimedOut(), followed.answers, followed.offer_ids))
        if query.seconds_left() <= 0:
            theirs = _of_overdue(part.leader)
            if theirs is not None:
                query.simulation_group = theirs.query.simulation_group
            return _shown(ending.end(query, (), BankTimedOut(), theirs.answers if theirs else None))
    return repeated


def aggregate_within(query: Query, earlier: Earlier, wait_ms: int | None, place: Place) -> msgspec.Raw:
    """Like `aggregate`, but waits at most `wait_ms` milliseconds (None: to the end) and then returns the response so
    far. The query continues, and keeps its `place` until its end."""
    if wait_ms is None:
        return aggregate(query, earlier)
    held = place.pass_on()
    reply: Future[msgspec.Raw] = Future()

    def run() -> None:
        try:
            reply.set_result(aggregate(query, earlier))
        except Exception as error:
            reply.set_exception(error)
        finally:
            held.leave()
            connection.close()

    connection.close()
    threading.Thread(target=copy_context().run, args=(run,), name="query", daemon=True).start()
    try:
        return reply.result(wait_ms / 1000)
    except TimeoutError:
        return msgspec.Raw(standing.result(standing.fresh(query)).reply())


def _of_overdue(leader: str | None) -> ending.Result | None:
    """The result of a leader whose time is over and that no process has ended: it is ended now with the answers so far.
    None if it still has time, or is gone."""
    leading = Query.objects.select_related("partner").filter(pk=leader).first() if leader else None
    if leading is None or leading.seconds_left() > 0:
        return None
    return ending.end(leading, (), BankTimedOut())


def _asked(query: Query, part: flight.Flight, banks: list[str]) -> msgspec.Raw:
    """Have `banks` asked. Renews the flight's lock meanwhile, so that it expires soon after this process dies."""
    for each in fan_out.follow(query, banks, flight.BEAT_S):
        part.keep_up()
        if isinstance(each, Ended):
            if not each.reached:
                raise _nobody_answered()
            return each.reply
    raise ProviderUnavailable


def _shown(result: ending.Result) -> msgspec.Raw:
    if not result.reached:
        raise _nobody_answered()
    return msgspec.Raw(result.reply())


def _nobody_answered() -> ProviderUnavailable:
    return ProviderUnavailable("Nenhum banco respondeu. Tente novamente em instantes.")


def _repeated(query: Query, earlier: Earlier) -> msgspec.Raw | None:
    """End `query` with the answers of `earlier` and return the response. None if a bank has no good answer there."""
    reused = repeats.still_good(earlier)
    if _left(query, reused):
        return None
    query.simulation_group = earlier.simulation_group
    return _shown(ending.end(query, (), BankTimedOut(), reused, earlier.offer_ids))


def _reuse(query: Query, earlier: Earlier) -> list[str]:
    """Store the good answers of `earlier` for the process that will end `query`. Returns the banks without one."""
    reused = repeats.still_good(earlier)
    if reused:
        query.simulation_group = earlier.simulation_group
        query.answers = msgspec.to_builtins(reused)
        statements.execute(_REUSE, [ending.sealed(query, reused), query.simulation_group, query.pk])
    return _left(query, reused)


def _left(query: Query, answers: list[Answer]) -> list[str]:
    """The banks of `query` without one of `answers`."""
    answered = {answer.provider for answer in answers}
    return [bank for bank in query.banks if bank not in answered]


def ask_one(query: Query, bank: str) -> Answer:
    """Ask the only bank of an individual query."""
    answers = [each for each in fan_out.follow(query, [bank], 60) if isinstance(each, Answer)]
    return answers[0]
