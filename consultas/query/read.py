"""A query's current result: from its row once it has ended, otherwise from the answers that have come."""

from __future__ import annotations

from uuid import UUID

from consultas import offers, query_json
from consultas.answer import Answer
from consultas.models import Query
from consultas.query import end
from consultas.query.end import Result
from foundation.errors import NotFound
from partners.models import Partner


def find(partner: Partner, query_id: str) -> Query:
    """The partner's query. Raises NotFound, also for another partner's query and for one whose holder was erased."""
    try:
        query = Query.objects.filter(partner=partner, pk=UUID(query_id)).first() if len(query_id) == 36 else None
    except ValueError:
        query = None
    if query is None or (query.finished_at is not None and query.answers is None):
        raise NotFound
    query.partner = partner
    return query


def again(query: Query) -> Query:
    """The query, read again. Raises NotFound if it is gone."""
    return find(query.partner, str(query.id))


def current(query: Query) -> Result:
    """The result so far of a query that was just read. Ends an overdue query."""
    if query.is_overdue():
        return end.end(query)
    answers: dict[str, Answer] = {}
    if query.finished_at is None:
        answers = end.landed(query)
        # What a worker kept is deleted when the query ends, which may have happened between the two reads.
        query = again(query)
    stored = {answer.provider: answer for answer in end.answers_of(query)}
    return shown(query, list((answers | stored).values()))


def shown(query: Query, answers: list[Answer]) -> Result:
    """The result with some of the query's `answers`. Before its end, the offers are stored here if the query stores
    offers, so that they can be submitted. The process that ends the query finds them again."""
    if query.finished_at is not None:
        return end.shown(query, answers)
    answers = sorted(answers, key=lambda answer: answer.provider)
    ids: dict[str, list[UUID]] = {}
    if query.kind == Query.Kind.AGGREGATED:
        reused = {answer.provider for answer in end.answers_of(query)}
        ids = offers.known(query, {each.provider: each.offers for each in answers if each.provider in reused})
        others = {each.provider: each.offers for each in answers if each.provider not in ids}
        ids |= offers.known(query, others, refreshed_by=query)
        ids |= offers.persist(query, {bank: bank_offers for bank, bank_offers in others.items() if bank not in ids})
        if query.simulation_group is None and any(ids.values()):
            query.simulation_group = query.id  # as its end will store it
    return Result(query, answers, query_json.shown_offers(query, answers, ids))
