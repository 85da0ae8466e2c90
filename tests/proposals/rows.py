"""Rows for tests that call no bank."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.utils import timezone

from consultas import query_json
from consultas.models import Offer, Query, Step
from foundation.encryption import blind_index
from partners.models import Partner
from proposals.models import Cause, Proposal
from providers.types.proposal import BankProposal, ProposalStatus
from tests.client import FULL_FLOW
from tests.proposals.datasets import dataset
from tests.providers.samples import OFFER, a_query


def a_query_row(partner: Partner, cpf: str = FULL_FLOW, at: datetime | None = None, **changes: Any) -> Query:
    """A query for `cpf` that began at the time `at`, by default now."""
    began = at or timezone.now()
    values: dict[str, Any] = {
        "kind": Query.Kind.AGGREGATED,
        "cpf_index": blind_index("cpf", cpf),
        "request": msgspec.to_builtins(a_query(cpf)),
        "request_id": "request-1",
        "created_at": began,
        "deadline_at": began + timedelta(seconds=30),
    }
    return Query.objects.create(partner=partner, **{**values, **changes})


def an_offer(partner: Partner, provider: str, cpf: str = FULL_FLOW, **changes: Any) -> Offer:
    """An offer that `provider` gave for `cpf`."""
    query = a_query_row(partner, cpf)
    values: dict[str, Any] = {
        **vars(OFFER),
        "query": query,
        "cpf_index": query.cpf_index,
        "identity": blind_index("offer", f"{query.pk}"),
        "native_offer_id": f"native-{query.pk}",
        "quoted_at": query.created_at,
    }
    return Offer.objects.create(partner=partner, provider=provider, **{**values, **changes})


def shown(offer: Offer) -> dict[str, Any]:
    """The part of the offer's JSON that a submission needs."""
    return {"provider": offer.provider, "offerId": str(offer.pk)}


def a_proposal(offer: Offer, submission: Proposal.Submission = Proposal.Submission.SENDING, **changes: Any) -> Proposal:
    """A proposal made from `offer`, in the state `submission`."""
    values: dict[str, Any] = {
        "partner": offer.partner,
        "offer": offer,
        "origin_query_id": offer.query_id,
        "provider": offer.provider,
        "cpf_index": offer.cpf_index,
        "dataset": dataset(shown(offer)),
        "terms": msgspec.to_builtins(
            query_json.offer(offer.provider, offer.as_bank_offer(), offer.query.holder, offer.pk)
        ),
        "request_id": "request-1",
        "submission": submission,
    }
    return Proposal.objects.create(**{**values, **changes})


def accepted(offer: Offer, status: ProposalStatus = ProposalStatus.AWAITING_SIGNATURE, **facts: Any) -> Proposal:
    """A proposal that the bank accepted, and reported as `status` with these facts."""
    proposal = a_proposal(offer)
    proposal.adopt(BankProposal("N-1", str(status), status, **facts), Cause.SUBMIT)
    return Proposal.objects.get(pk=proposal.pk)


def a_step(offer: Offer, **values: Any) -> Step:
    """An open step that the offer's query opened, due for a check."""
    now = timezone.now()
    return Step.objects.create(
        partner=offer.partner,
        query=offer.query,
        provider=offer.provider,
        cpf_index=offer.cpf_index,
        type="biometria",
        detail="Prova de vida.",
        reference="step-1",
        **{"opened_at": now, "expires_at": now + timedelta(hours=72), "due_at": now, **values},
    )
