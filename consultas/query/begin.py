"""From a validated body to a query and its answers: the choice of banks, the evidence, and the reuse of answers."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
from django.conf import settings
from django.utils import timezone

from authorizations import evidence
from authorizations.evidence import QueryEvidence
from consultas.models import UNSTARTED, Answer, Query
from consultas.query import end
from consultas.query.end import REPEAT_S, Earlier, Result
from foundation import database
from foundation.encryption import blind_index
from foundation.errors import Detail, InvalidInput, NotFound
from partners.contract import AllowedBank
from partners.models import Partner
from providers import registry
from providers.errors import ProviderNotAllowed
from providers.types.query import BankQuery

# An erased holder's query has ended without answers. PostgreSQL needs the condition of the partial index in words: it
# cannot derive it from a parameter.
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
#: The result of no query.
NOTHING = Earlier()


def choose_banks(partner: Partner, requested: list[str] | None) -> list[AllowedBank]:
    """The contract's banks, restricted to `requested` if given.

    Raises InvalidInput on `providers`, with the contract's banks, if none remains.
    """
    allowed = partner.allowed_banks()
    if requested is None:
        return allowed
    chosen = [bank for bank in allowed if bank.name in requested]
    if not chosen:
        names = [bank.name for bank in allowed]
        message = f"Nenhum banco informado pertence ao contrato. Bancos disponíveis: {', '.join(names) or '-'}."
        raise InvalidInput(details=[Detail("providers", message, names)])
    return chosen


def choose_bank(partner: Partner, name: str) -> AllowedBank:
    """The contract's bank `name`. Raises NotFound for an unknown bank, ProviderNotAllowed outside the contract."""
    if registry.get(name) is None:
        raise NotFound("Banco desconhecido.")
    bank = partner.allowed_bank(name)
    if bank is None:
        raise ProviderNotAllowed
    return bank


def begin(partner: Partner, data: dict[str, Any], kind: Query.Kind, request_id: str, banks: list[AllowedBank]) -> Query:
    """Save a query of `partner` to `banks`. `data` was validated by `serializers.QueryRequest`.

    Raises InvalidInput on `authorization_id` if that session's evidence cannot be used.
    """
    query = _query(partner, data, kind, request_id, banks)
    database.insert(query)
    return query


def begin_aggregated(
    partner: Partner, data: dict[str, Any], request_id: str, banks: list[AllowedBank]
) -> tuple[Query, Result | None]:
    """Like `begin`, for an aggregated query. Also returns its result if it needs no bank, because it repeats one that
    has ended."""
    query = _query(partner, data, Query.Kind.AGGREGATED, request_id, banks)
    # Streamed and individual queries store no offers and send no lead, so only an aggregated one can repeat another.
    if all(data.get(amount) is None for amount in ("loan_value", "installment_value", "installments")):
        paused = [bank.name for bank in banks if bank.is_paused]  # a repeat must not show their earlier offers
        parts = [str(partner.pk), query.request, query.banks, query.portfolios, paused]
        same = msgspec.json.encode(parts, order="sorted")
        query.fingerprint = blind_index("query", same.decode())
    return query, repeated(query, _insert(query))


def _insert(query: Query) -> Earlier:
    """Insert the new `query`. Returns the result that it repeats. If an identical query is running, it follows that."""
    while query.fingerprint:  # `follow` clears it
        earlier = insert_alone(query)
        if earlier is not None:
            return earlier
        identical = Query.objects.filter(fingerprint=query.fingerprint, finished_at=None).select_related("partner")
        leader = identical.defer("answers").first()
        if leader is not None and leader.seconds_left() > 0:
            query.follow(leader.pk)
        elif leader is not None:
            end.end(leader)  # its time is over, and nobody has ended it
    database.insert(query)
    return NOTHING


def insert_alone(query: Query) -> Earlier | None:
    """Insert the new `query`, which has a fingerprint, unless an identical query is running. Returns the result that it
    repeats, NOTHING if there is none, and None if it was not inserted.

    Two identical queries at the same moment meet at a unique index, so each bank is asked once.
    """
    identical = (query.fingerprint, timezone.now() - timedelta(seconds=REPEAT_S))
    row = database.insert_and_fetch(query, _IDENTICAL, identical, unless=_ONE_RUNS)
    is_inserted, key, group, sealed, outdated, ids = row or (False, *[None] * 5)
    if not is_inserted:
        return None
    if key is None:
        return NOTHING
    answers = Query._meta.get_field("answers").text(sealed, Query(id=key))
    return Earlier(
        group,
        msgspec.json.decode(answers, type=list[Answer]),
        outdated,
        msgspec.json.decode(ids or "{}", type=dict[str, UUID]),
    )


def repeated(query: Query, earlier: Earlier) -> Result | None:
    """The result of a query to whose banks all `earlier` has good answers: it ends. Otherwise None, and the row keeps
    those that it has, so that a worker asks the other banks."""
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
        deadline_at=(now := timezone.now()) + timedelta(seconds=settings.QUERY_DEADLINE_S),
        due_at=now + UNSTARTED,
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
