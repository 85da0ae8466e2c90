"""How a query stands: what its row tells once it has ended, until then what has landed."""

from __future__ import annotations

from uuid import UUID

from consultas import ending, landed, offers, query_json
from consultas.answer import Answer
from consultas.ending import Result
from consultas.models import Query
from foundation.errors import NotFound
from partners.models import Partner
from providers.errors import BankTimedOut


def find(partner: Partner, query_id: str) -> Query:
    """The partner's query. Raises NotFound, also for another partner's and for one whose holder was erased."""
    try:
        query = Query.objects.filter(partner=partner, pk=UUID(query_id)).first() if len(query_id) == 36 else None
    except ValueError:
        query = None
    if query is None or (query.finished_at is not None and query.answers is None):
        raise NotFound
    query.partner = partner
    return query


def fresh(query: Query) -> Query:
    """The query as its row is now. Raises NotFound if it is gone."""
    return find(query.partner, str(query.id))


def result(query: Query) -> Result:
    """What is known of the query, as found a moment ago. One that is overdue is ended."""
    if ending.is_overdue(query):
        return ending.end(query, (), BankTimedOut())
    found: dict[str, Answer] = {}
    if query.finished_at is None:
        found = landed.answers(query)
        # What landed is forgotten when the query ends, which may have been between the two looks.
        query = fresh(query)
    stored = {answer.provider: answer for answer in ending.answers_of(query)}
    return shown(query, list((found | stored).values()))


def shown(query: Query, answers: list[Answer]) -> Result:
    """Some of the query's `answers`. Before its end, the offers of a query that keeps them are stored now, so that they
    can be submitted; whoever ends the query finds them again."""
    if query.finished_at is not None:
        return ending.shown(query, answers)
    answers = sorted(answers, key=lambda answer: answer.provider)
    ids: dict[str, list[UUID]] = {}
    if query.kind == Query.Kind.AGGREGATED:
        reused = {answer.provider for answer in ending.answers_of(query)}
        ids = offers.known(query, {each.provider: each.offers for each in answers if each.provider in reused})
        others = {each.provider: each.offers for each in answers if each.provider not in ids}
        ids |= offers.known(query, others, refreshed_by=query)
        ids |= offers.persist(query, {bank: found for bank, found in others.items() if bank not in ids})
        if query.simulation_group is None and any(ids.values()):
            query.simulation_group = query.id  # as its end will store it
    return Result(query, answers, query_json.shown_offers(query, answers, ids))
