"""The JSON of queries, for the routes and the webhooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from operator import attrgetter
from uuid import UUID

import msgspec
from django.utils import timezone

from consultas.answer import Answer
from consultas.models import Query, Step
from consultas.offer_json import offer, sort_offers
from consultas.shapes import (
    PROCESSING,
    Action,
    AggregatedResponse,
    AuthorizationResultEvent,
    Employer,
    IndividualEnvelope,
    IndividualOffer,
    IndividualVinculo,
    LeadBank,
    LeadEvent,
    Offer,
    ProviderErrorEvent,
    ProviderResult,
    ProviderResultEvent,
    QueryCompletedEvent,
    Vinculo,
)
from foundation.formats import iso_utc
from foundation.shapes import Shape
from providers.reasons import Reason
from providers.types import given
from providers.types.answer import BankOffer, Employment, QueryStatus
from providers.types.steps import BankAction, StepOutcome

#: Rendered offers, and rendered offers by bank.
Offers = list[Offer]
RenderedOffers = dict[str, Offers]


def provider_result(answer: Answer, shown: Offers) -> ProviderResult:
    """A bank's part of the aggregated response. `shown` are its rendered offers."""
    return ProviderResult(
        provider=answer.provider,
        status=answer.status,
        success=answer.status is not QueryStatus.ERROR,
        proposals=shown,
        vinculos=[_employment(each) for each in answer.links],
        error=answer.error,
        elapsed_ms=answer.elapsed_ms,
        no_proposal_reasons=[*answer.reasons],
        reasons=[*answer.coded],
        requires_signature=answer.status in (QueryStatus.REQUIRES_ACTION, QueryStatus.PENDING),
        signature_url=answer.action.url if answer.action else None,
        action=_action(answer.action),
        term_auto_authorized=answer.term_auto_authorized,
    )


def still_asked(provider: str, elapsed_ms: int) -> ProviderResult:
    """The part of the aggregated response for a bank that has not answered yet."""
    nothing = provider_result(Answer(provider, QueryStatus.PENDING, elapsed_ms, 0), [])
    return msgspec.structs.replace(nothing, status=PROCESSING, requires_signature=False)


def shown_offers(query: Query, answers: Iterable[Answer], ids: Mapping[str, Sequence[UUID]]) -> RenderedOffers:
    """Each bank's offers, rendered and sorted. `ids` holds their `offerId`s by bank, in the answers' order. A bank
    missing in `ids` gets offers without `offerId`."""
    request = query.holder
    shown: RenderedOffers = {}
    for answer in answers:
        stored: Sequence[UUID | None] = ids.get(answer.provider) or [None] * len(answer.offers)
        pairs = zip(answer.offers, stored, strict=True)
        shown[answer.provider] = sort_offers(offer(answer.provider, item, request, pk) for item, pk in pairs)
    return shown


def aggregate(query: Query, answers: Sequence[Answer], shown: RenderedOffers) -> AggregatedResponse:
    """The aggregated response so far. Before the end it includes the banks that have not answered yet."""
    now = timezone.now()
    elapsed_ms = round(((query.finished_at or now) - query.created_at).total_seconds() * 1000)
    results = {answer.provider: provider_result(answer, shown[answer.provider]) for answer in answers}
    if query.finished_at is None:
        results |= {bank: still_asked(bank, elapsed_ms) for bank in query.banks if bank not in results}
        results = dict(sorted(results.items()))
    return AggregatedResponse(
        query_id=query.id,
        partner_reference=query.partner_reference or None,
        complete=query.finished_at is not None,
        proposals=sort_offers(item for items in shown.values() for item in items),
        provider_results=results,
        employers=employers(answers),
        elapsed_ms=elapsed_ms,
        timestamp=iso_utc(now),
        simulation_group_id=query.simulation_group,
    )


def employers(answers: Iterable[Answer]) -> list[Employer]:
    """Unique employers by CNPJ, each from the first bank by name that reports a margin, otherwise from the first by
    name."""
    by_cnpj: dict[str, Employer] = {}
    for answer in sorted(answers, key=attrgetter("provider")):
        for each in answer.links:
            employer = by_cnpj.get(each.employer_cnpj)
            if employer is None or (employer.margin is None and each.margin is not None):
                by_cnpj[each.employer_cnpj] = Employer(
                    cnpj=each.employer_cnpj,
                    name=each.employer_name,
                    matricula=each.registration,
                    provider=answer.provider,
                    margin=_number(each.margin),
                )
    return list(by_cnpj.values())


def envelope(query: Query, answer: Answer, proposal_id: str | None) -> IndividualEnvelope:
    """The individual route's answer, in snake_case. Its offers are not stored."""
    shown = (offer(answer.provider, item, query.holder, None) for item in answer.offers)
    return IndividualEnvelope(
        query_id=query.id,
        partner_reference=query.partner_reference or None,
        provider=answer.provider,
        status=answer.status,
        offers=[IndividualOffer.of(each) for each in shown],
        vinculos=[IndividualVinculo.of(_employment(each)) for each in answer.links],
        proposal_id=proposal_id,
        action=_action(answer.action),
        error=answer.error,
        elapsed_ms=answer.elapsed_ms,
        no_proposal_reasons=[*answer.reasons],
        reasons=[*answer.coded],
        term_auto_authorized=answer.term_auto_authorized,
        provider_data=answer.data,
    )


def stream_event(query: Query, answer: Answer, shown: Offers) -> Shape:
    """`provider_result` for a bank that answered or refused; `provider_error` for an infrastructure failure. `shown`
    are the bank's rendered offers."""
    if not answer.reached:
        return ProviderErrorEvent(
            event="provider_error",
            query_id=query.id,
            provider=answer.provider,
            error=answer.error,
            reasons=[*answer.coded],
            elapsed_ms=answer.elapsed_ms,
        )
    told = msgspec.structs.asdict(provider_result(answer, shown))
    return ProviderResultEvent(event="provider_result", query_id=query.id, **told)


def lead(query: Query, answers: Sequence[Answer], shown: RenderedOffers) -> LeadEvent:
    """The event's own fields of the webhook `lead`."""
    best = sort_offers(item for items in shown.values() for item in items)[:1]
    return LeadEvent(
        cpf=query.request["cpf"],
        simulation_group_id=given(query.simulation_group),
        query_id=query.id,
        partner_reference=query.partner_reference or None,
        providers=_outcomes(answers),
        best_offer=best[0] if best else None,
    )


def completed(query: Query, answers: Sequence[Answer]) -> QueryCompletedEvent:
    """The event's own fields of the webhook `query.completed`. None identifies the holder."""
    return QueryCompletedEvent(
        query_id=query.id,
        partner_reference=query.partner_reference or None,
        kind=query.kind,
        simulation_group_id=query.simulation_group,
        providers=_outcomes(answers),
    )


def _outcomes(answers: Sequence[Answer]) -> list[LeadBank]:
    return [LeadBank(provider=answer.provider, status=answer.status, offers=len(answer.offers)) for answer in answers]


def authorization_result(
    step: Step, outcome: StepOutcome, reason: Reason | None, bank_offers: Sequence[BankOffer], ids: Sequence[UUID]
) -> AuthorizationResultEvent:
    """The event's own fields of the webhook `authorization_result`. `bank_offers` is empty unless the step was
    approved; `reason` says why it is empty."""
    query, provider = step.query, step.provider
    request = query.for_bank(provider)
    shown = (offer(provider, item, request, offer_id) for item, offer_id in zip(bank_offers, ids, strict=True))
    return AuthorizationResultEvent(
        query_id=query.id,
        partner_reference=query.partner_reference or None,
        provider=provider,
        status=outcome,
        reason=reason,
        offers=sort_offers(shown),
    )


def _action(action: BankAction | None) -> Action | None:
    return Action.of(action) if action else None


def _employment(each: Employment) -> Vinculo:
    return Vinculo(
        matricula=each.registration,
        employer_cnpj=each.employer_cnpj,
        employer_name=each.employer_name,
        job_title=each.job_title,
        admission_date=each.admission_date,
        margin=_number(each.margin),
    )


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)
