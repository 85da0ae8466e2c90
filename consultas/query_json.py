"""The JSON of queries and of their offers, for the routes and the webhooks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import attrgetter
from uuid import UUID

import msgspec
from django.utils import timezone

from consultas import shapes
from consultas.models import ASSUMED_TERM, Answer, Query, Step
from foundation.formats import iso_utc, to_reais_text
from foundation.shapes import Shape
from providers.reasons import Reason
from providers.types.query import BankOffer, BankQuery, QueryStatus, StepOutcome

#: Rendered offers, and rendered offers by bank.
Offers = list[shapes.Offer]
RenderedOffers = dict[str, Offers]


def provider_result(answer: Answer, shown: Offers) -> shapes.ProviderResult:
    """A bank's part of the aggregated response. `shown` are its rendered offers."""
    return shapes.ProviderResult.of(
        answer,
        success=answer.status is not QueryStatus.ERROR,
        proposals=shown,
        vinculos=[shapes.Vinculo.of(each, matricula=each.registration) for each in answer.employments],
        no_proposal_reasons=[*answer.reasons],
        reasons=[*answer.coded],
        requires_signature=answer.status in (QueryStatus.REQUIRES_ACTION, QueryStatus.PENDING),
        signature_url=answer.action.url if answer.action else None,
        action=shapes.Action.of(answer.action) if answer.action else None,
    )


def still_asked(provider: str, elapsed_ms: int) -> shapes.ProviderResult:
    """The part of the aggregated response for a bank that has not answered yet."""
    nothing = provider_result(Answer(provider, QueryStatus.PENDING, elapsed_ms, 0), [])
    return msgspec.structs.replace(nothing, status=shapes.PROCESSING, requires_signature=False)


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


def aggregate(query: Query, answers: Sequence[Answer], shown: RenderedOffers) -> shapes.AggregatedResponse:
    """The aggregated response so far. Before the end it includes the banks that have not answered yet."""
    now = timezone.now()
    elapsed_ms = round(((query.finished_at or now) - query.created_at).total_seconds() * 1000)
    results = {answer.provider: provider_result(answer, shown[answer.provider]) for answer in answers}
    if query.finished_at is None:
        results |= {bank: still_asked(bank, elapsed_ms) for bank in query.banks if bank not in results}
        results = dict(sorted(results.items()))
    return shapes.AggregatedResponse(
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


@dataclass(frozen=True)
class Result:
    """A query's answers, and its offers as they are shown, by bank."""

    query: Query
    answers: list[Answer]
    shown: RenderedOffers

    def told(self) -> msgspec.Raw | None:
        """What a worker tells at the end: the aggregated response. None for other routes, and if no bank was reached,
        which a reader sees in the row."""
        return msgspec.Raw(self.reply()) if self.reached and self.query.kind == Query.Kind.AGGREGATED else None

    @property
    def reached(self) -> bool:
        """False if no bank gave any answer but an infrastructure failure."""
        return not self.answers or any(answer.reached for answer in self.answers)

    def reply(self) -> bytes:
        return msgspec.json.encode(aggregate(self.query, self.answers, self.shown))


def employers(answers: Iterable[Answer]) -> list[shapes.Employer]:
    """Unique employers by CNPJ, each from the first bank by name that reports a margin, otherwise the first."""
    by_cnpj: dict[str, shapes.Employer] = {}
    for answer in sorted(answers, key=attrgetter("provider")):
        for each in answer.employments:
            employer = by_cnpj.get(each.employer_cnpj)
            if employer is None or (employer.margin is None and each.margin is not None):
                by_cnpj[each.employer_cnpj] = shapes.Employer.of(
                    each,
                    cnpj=each.employer_cnpj,
                    name=each.employer_name,
                    matricula=each.registration,
                    provider=answer.provider,
                )
    return list(by_cnpj.values())


def envelope(query: Query, answer: Answer, proposal_id: str | None) -> shapes.IndividualEnvelope:
    """The individual route's answer, in snake_case. Its offers are not stored."""
    shown = (offer(answer.provider, item, query.holder, None) for item in answer.offers)
    told = provider_result(answer, [])
    return shapes.IndividualEnvelope.of(
        told,
        query_id=query.id,
        partner_reference=query.partner_reference or None,
        offers=[shapes.IndividualOffer.of(each) for each in shown],
        vinculos=[shapes.IndividualVinculo.of(each) for each in told.vinculos],
        proposal_id=proposal_id,
        provider_data=None,  # no bank informs anything else
    )


def stream_event(query: Query, answer: Answer, shown: Offers) -> Shape:
    """`provider_result` for a bank that answered or refused; `provider_error` for an infrastructure failure. `shown`
    are the bank's rendered offers."""
    if not answer.reached:
        return shapes.ProviderErrorEvent.of(answer, event="provider_error", query_id=query.id, reasons=[*answer.coded])
    told = msgspec.structs.asdict(provider_result(answer, shown))
    return shapes.ProviderResultEvent(event="provider_result", query_id=query.id, **told)


def lead(query: Query, answers: Sequence[Answer], shown: RenderedOffers) -> shapes.LeadEvent:
    """The event's own fields of the webhook `lead`, which only the query that creates the group of offers tells."""
    best = sort_offers(item for items in shown.values() for item in items)[:1]
    return shapes.LeadEvent(
        cpf=query.request["cpf"],
        simulation_group_id=query.id,
        query_id=query.id,
        partner_reference=query.partner_reference or None,
        providers=_outcomes(answers),
        best_offer=best[0] if best else None,
    )


def completed(query: Query, answers: Sequence[Answer]) -> shapes.QueryCompletedEvent:
    """The event's own fields of the webhook `query.completed`. None identifies the holder."""
    return shapes.QueryCompletedEvent(
        query_id=query.id,
        partner_reference=query.partner_reference or None,
        kind=query.kind,
        simulation_group_id=query.simulation_group,
        providers=_outcomes(answers),
    )


def _outcomes(answers: Sequence[Answer]) -> list[shapes.LeadBank]:
    return [
        shapes.LeadBank(provider=answer.provider, status=answer.status, offers=len(answer.offers)) for answer in answers
    ]


def authorization_result(
    step: Step, outcome: StepOutcome, reason: Reason | None, bank_offers: Sequence[BankOffer], ids: Sequence[UUID]
) -> shapes.AuthorizationResultEvent:
    """The event's own fields of the webhook `authorization_result`. `bank_offers` is empty unless the step was
    approved; `reason` says why it is empty."""
    query, provider = step.query, step.provider
    request = query.for_bank(provider)
    shown = (offer(provider, item, request, offer_id) for item, offer_id in zip(bank_offers, ids, strict=True))
    return shapes.AuthorizationResultEvent(
        query_id=query.id,
        partner_reference=query.partner_reference or None,
        provider=provider,
        status=outcome,
        reason=reason,
        offers=sort_offers(shown),
    )


def offer(provider: str, item: BankOffer, request: BankQuery, offer_id: UUID | None) -> shapes.Offer:
    """An offer as shown by the aggregated routes, the stream, the proposals and the webhooks."""
    notes = adjustments(request, item)
    comparable_monthly, comparable_annual = item.comparable_cet()
    native = {**item.native, "nativeOfferId": item.native_offer_id, "withInsurance": item.with_insurance}
    return shapes.Offer.of(
        item,
        provider=provider,
        offer_id=offer_id,
        cet_comparable_monthly=_number(comparable_monthly),
        cet_comparable_annual=_number(comparable_annual),
        matricula=item.registration,
        provider_data=native,
        adjusted=bool(notes),
        adjustments=notes,
    )


def sort_offers(items: Iterable[shapes.Offer]) -> list[shapes.Offer]:
    """Highest amount first, then lowest rate, then by bank."""
    return sorted(items, key=lambda item: (-item.loan_value, item.interest_rate, item.provider))


def adjustments(request: BankQuery, offer: BankOffer) -> list[str]:
    """The differences between `offer` and the request, in Portuguese sentences, by the service's own comparison instead
    of the bank's remarks. Empty if there are none."""
    notes: list[str] = []
    by_amount, by_installment = request.loan_value, request.installment_value
    term = request.installments
    if term is None and (by_amount or by_installment):
        term = ASSUMED_TERM
    if term is not None and offer.installments != term:
        notes.append(f"Prazo de {term} parcelas indisponível; a melhor oferta tem {offer.installments} parcelas.")
    if by_amount is not None:
        if offer.loan_value != by_amount:
            notes.append(_moved("Valor", by_amount, offer.loan_value))
    elif by_installment is not None and offer.installment_value != by_installment:
        notes.append(_moved("Parcela", by_installment, offer.installment_value))
    return notes


def _moved(what: str, requested: Decimal, offered: Decimal) -> str:
    why = "acima do máximo" if offered < requested else "abaixo do mínimo"
    return (
        f"{what} de R$ {to_reais_text(requested)} {why} disponível; a melhor oferta é de R$ {to_reais_text(offered)}."
    )


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)
