"""The JSON of queries, for the routes and the webhooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.utils import timezone

from consultas.answer import Answer
from consultas.models import Query, Step
from consultas.offer_json import offer, snake_offer, sort_offers
from foundation.formats import iso_utc
from providers.reasons import Reason
from providers.types.answer import BankOffer, Employment, QueryStatus
from providers.types.steps import BankAction, StepOutcome

#: Rendered offers, and rendered offers by bank.
Offers = list[dict[str, Any]]
RenderedOffers = dict[str, Offers]
#: The status of a bank that has not answered yet, in a response that did not wait for it.
PROCESSING = "processing"


def provider_result(answer: Answer, shown: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A bank's part of the aggregated response. `shown` are its rendered offers."""
    waiting = answer.status in (QueryStatus.REQUIRES_ACTION, QueryStatus.PENDING)
    return {
        "provider": answer.provider,
        "status": answer.status,
        "success": answer.status is not QueryStatus.ERROR,
        "proposals": list(shown),
        "vinculos": [_employment(each) for each in answer.links],
        "error": answer.error,
        "elapsedMs": answer.elapsed_ms,
        "noProposalReasons": list(answer.reasons),
        "reasons": [reason.as_dict() for reason in answer.coded],
        "requiresSignature": waiting,
        "signatureUrl": answer.action.url if answer.action else None,
        "action": _action(answer.action),
        "termAutoAuthorized": answer.term_auto_authorized,
    }


def still_asked(provider: str, elapsed_ms: int) -> dict[str, Any]:
    """The part of the aggregated response for a bank that has not answered yet."""
    nothing = Answer(provider, QueryStatus.PENDING, elapsed_ms, 0)
    return {**provider_result(nothing, ()), "status": PROCESSING, "requiresSignature": False}


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


def aggregate(query: Query, answers: Sequence[Answer], shown: RenderedOffers) -> dict[str, Any]:
    """The aggregated response so far. Before the end it includes the banks that have not answered yet."""
    now = timezone.now()
    elapsed_ms = round(((query.finished_at or now) - query.created_at).total_seconds() * 1000)
    results = {answer.provider: provider_result(answer, shown[answer.provider]) for answer in answers}
    if query.finished_at is None:
        results |= {bank: still_asked(bank, elapsed_ms) for bank in query.banks if bank not in results}
        results = dict(sorted(results.items()))
    return {
        "queryId": str(query.id),
        "partnerReference": query.partner_reference or None,
        "complete": query.finished_at is not None,
        "proposals": sort_offers(item for items in shown.values() for item in items),
        "providerResults": results,
        "employers": employers(answers),
        "elapsedMs": elapsed_ms,
        "timestamp": iso_utc(now),
        "simulationGroupId": str(query.simulation_group) if query.simulation_group else None,
    }


def employers(answers: Iterable[Answer]) -> list[dict[str, Any]]:
    """Unique employers by CNPJ, each from the first bank by name that reports a margin, otherwise from the first by
    name."""
    by_cnpj: dict[str, dict[str, Any]] = {}
    for answer in sorted(answers, key=attrgetter("provider")):
        for each in answer.links:
            employer = by_cnpj.get(each.employer_cnpj)
            if employer is None or (employer["margin"] is None and each.margin is not None):
                by_cnpj[each.employer_cnpj] = {
                    "cnpj": each.employer_cnpj,
                    "name": each.employer_name,
                    "matricula": each.registration,
                    "provider": answer.provider,
                    "margin": _number(each.margin),
                }
    return list(by_cnpj.values())


def envelope(query: Query, answer: Answer, proposal_id: str | None) -> dict[str, Any]:
    """The individual route's answer, in snake_case."""
    request = query.holder
    return {
        "query_id": str(query.id),
        "partner_reference": query.partner_reference or None,
        "provider": answer.provider,
        "status": answer.status,
        "offers": [snake_offer(answer.provider, item, request) for item in answer.offers],
        "vinculos": [_snake_employment(each) for each in answer.links],
        "proposal_id": proposal_id,
        "action": _action(answer.action),
        "error": answer.error,
        "elapsed_ms": answer.elapsed_ms,
        "no_proposal_reasons": list(answer.reasons),
        "reasons": [reason.as_dict() for reason in answer.coded],
        "term_auto_authorized": answer.term_auto_authorized,
        "provider_data": answer.data,
    }


def stream_event(query: Query, answer: Answer, shown: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """`provider_result` for a bank that answered or refused; `provider_error` for an infrastructure failure. `shown`
    are the bank's rendered offers."""
    if not answer.reached:
        return {
            "event": "provider_error",
            "queryId": str(query.id),
            "provider": answer.provider,
            "error": answer.error,
            "reasons": [reason.as_dict() for reason in answer.coded],
            "elapsedMs": answer.elapsed_ms,
        }
    return {"event": "provider_result", "queryId": str(query.id), **provider_result(answer, shown)}


def lead(query: Query, answers: Sequence[Answer], shown: RenderedOffers) -> dict[str, Any]:
    """The event's own fields of the webhook `lead`."""
    best = sort_offers(item for items in shown.values() for item in items)[:1]
    return {
        "cpf": query.request["cpf"],
        "simulation_group_id": str(query.simulation_group),
        "query_id": str(query.id),
        "partner_reference": query.partner_reference or None,
        "providers": _outcomes(answers),
        "best_offer": best[0] if best else None,
    }


def completed(query: Query, answers: Sequence[Answer]) -> dict[str, Any]:
    """The event's own fields of the webhook `query.completed`. None identifies the holder."""
    return {
        "query_id": str(query.id),
        "partner_reference": query.partner_reference or None,
        "kind": query.kind,
        "simulation_group_id": str(query.simulation_group) if query.simulation_group else None,
        "providers": _outcomes(answers),
    }


def _outcomes(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    return [{"provider": answer.provider, "status": answer.status, "offers": len(answer.offers)} for answer in answers]


def authorization_result(
    step: Step, outcome: StepOutcome, reason: Reason | None, bank_offers: Sequence[BankOffer], ids: Sequence[UUID]
) -> dict[str, Any]:
    """The event's own fields of the webhook `authorization_result`. `bank_offers` is empty unless the step was
    approved; `reason` says why it is empty."""
    query, provider = step.query, step.provider
    request = query.for_bank(provider)
    shown = (offer(provider, item, request, offer_id) for item, offer_id in zip(bank_offers, ids, strict=True))
    return {
        "query_id": str(query.id),
        "partner_reference": query.partner_reference or None,
        "provider": provider,
        "status": outcome,
        "reason": reason.as_dict() if reason else None,
        "offers": sort_offers(shown),
    }


def _action(action: BankAction | None) -> dict[str, Any] | None:
    return {"type": action.type, "url": action.url, "detail": action.detail} if action else None


def _employment(each: Employment) -> dict[str, Any]:
    return {
        "matricula": each.registration,
        "employerCnpj": each.employer_cnpj,
        "employerName": each.employer_name,
        "jobTitle": each.job_title,
        "admissionDate": each.admission_date.isoformat() if each.admission_date else None,
        "margin": _number(each.margin),
    }


def _snake_employment(each: Employment) -> dict[str, Any]:
    return {
        "matricula": each.registration,
        "employer_cnpj": each.employer_cnpj,
        "employer_name": each.employer_name,
        "job_title": each.job_title,
        "admission_date": each.admission_date.isoformat() if each.admission_date else None,
        "margin": _number(each.margin),
    }


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)
