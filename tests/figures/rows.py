"""Queries with answers, steps that ended and proposals that moved, at moments that a test names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from consultas.fan_out import Answer
from consultas.models import Offer, Query, Step
from foundation.encryption import blind_index
from partners.models import Partner
from proposals.models import Cause, Move, Proposal
from providers.reasons import Reason, ReasonCode
from providers.types import BankOffer, QueryStatus
from tests.client import FULL_FLOW
from tests.proposals.rows import a_proposal, a_step, an_offer
from tests.providers.samples import a_query


def an_answer(bank: str, *amounts: int, at: datetime, code: ReasonCode | None = None, **changes: Any) -> Answer:
    """The answer of `bank` at the moment `at`: with offers of these amounts, or without one for the reason `code`."""
    offer = BankOffer("native", Decimal(1), Decimal(1), 12, Decimal("1.5"), Decimal(12), "T", False, None, "1")
    status = QueryStatus.OK if amounts else QueryStatus.NO_OFFERS
    answer = Answer(
        provider=bank,
        status=status,
        elapsed_ms=800,
        answered_at=at.timestamp() + 0.8,
        offers=tuple(replace(offer, loan_value=Decimal(amount)) for amount in amounts),
        coded=(Reason.of(code),) if code else (),
    )
    return replace(answer, **changes)


def a_counted_query(partner: Partner, at: datetime, answers: Sequence[Answer] | None) -> Query:
    """A query that began at the moment `at`; without `answers` its process died."""
    return Query.objects.create(
        partner=partner,
        kind=Query.Kind.AGGREGATED,
        cpf_index=blind_index("cpf", FULL_FLOW),
        request=msgspec.to_builtins(a_query()),
        request_id="request-1",
        created_at=at,
        deadline_at=at + timedelta(seconds=30),
        finished_at=None if answers is None else at + timedelta(seconds=1),
        answers=None if answers is None else msgspec.to_builtins(answers),
    )


def an_ended_step(partner: Partner, bank: str, at: datetime, state: Step.State, *amounts: int) -> Step:
    """A step that ended at the moment `at`, and what offers came of it."""
    amount = Decimal(max(amounts)) if amounts else None
    changes = {"state": state, "closed_at": at, "next_check_at": None, "offers": len(amounts), "best_offer": amount}
    return a_step(an_offer(partner, bank), **changes)


def a_moved_proposal(
    partner: Partner, bank: str, steps: Sequence[tuple[str, datetime]], code: ReasonCode | None = None, **changes: Any
) -> Proposal:
    """A proposal that came to each status of `steps` at the moment beside it, to the last for the reason `code`."""
    offer: Offer = an_offer(partner, bank, **changes)
    proposal = a_proposal(
        offer,
        Proposal.Submission.ACCEPTED,
        status=steps[-1][0],
        reason=Reason.of(code).as_dict() if code else None,
        created_at=steps[0][1],
    )
    before = ""
    for status, at in steps:
        Move.objects.create(proposal=proposal, from_status=before, to_status=status, cause=Cause.REFRESH, at=at)
        before = status
    return proposal
