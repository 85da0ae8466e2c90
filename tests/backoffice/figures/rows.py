"""Rows of queries with answers, ended steps and proposals' moves, at times that a test chooses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
from django.utils import timezone

from backoffice.figures.counting import hour_of
from backoffice.figures.models import BankHour, BreakerMove, LatencyHour, Progress, QueryHour, ReasonHour, Source
from consultas.answer import Answer
from consultas.models import Offer, Query, Step
from foundation.encryption import blind_index
from partners.models import Partner
from proposals.models import Cause, Move, Proposal
from proposals.statuses import WITHDRAWN
from providers.reasons import Reason, ReasonCode
from providers.types.answer import BankOffer, QueryStatus
from tests.client import FULL_FLOW
from tests.proposals.rows import a_proposal, a_step, an_offer
from tests.providers.samples import a_query


def an_answer(bank: str, *amounts: int, at: datetime, code: ReasonCode | None = None, **changes: Any) -> Answer:
    """The answer of `bank` at the time `at`: with offers of these amounts, or without an offer for the reason
    `code`."""
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
    """A query that began at the time `at`. Without `answers`: its process died."""
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


def an_ended_step(
    partner: Partner, bank: str, at: datetime, state: Step.State, *amounts: int, query: Query | None = None
) -> Step:
    """A step that ended at the time `at`, and the offers that it brought. It belongs to `query`, or to a new query."""
    amount = Decimal(max(amounts)) if amounts else None
    changes = {"state": state, "closed_at": at, "due_at": None, "offers": len(amounts), "best_offer": amount}
    step = a_step(an_offer(partner, bank), **changes)
    if query is not None:
        step.query = query
        step.save(update_fields=["query"])
    return step


def a_moved_proposal(
    partner: Partner, bank: str, steps: Sequence[tuple[str, datetime]], code: ReasonCode | None = None, **changes: Any
) -> Proposal:
    """A proposal that reached each status of `steps` at the time beside it, the last one for the reason `code`."""
    offer: Offer = an_offer(partner, bank, **changes)
    proposal = a_proposal(
        offer,
        Proposal.Submission.ACCEPTED,
        status=next(status for status, _ in reversed(steps) if status != WITHDRAWN),
        reason=Reason.of(code).as_dict() if code else None,
        created_at=steps[0][1],
    )
    before = ""
    for status, at in steps:
        Move.objects.create(proposal=proposal, from_status=before, to_status=status, cause=Cause.REFRESH, at=at)
        before = status
    return proposal


def figures_of_a_month(*partners: Partner) -> None:
    """Figures for each hour of thirty days, more of them by day than by night."""
    chance = random.Random(5)
    hour = hour_of(timezone.now())
    queries, banks, reasons, latencies = [], [], [], []
    for _ in range(720):
        busy = 1 + 10 * max(0, 8 - abs(hour.hour - 17))
        for partner in partners:
            asked = chance.randint(busy, 3 * busy)
            offered = asked * 45 // 100
            queries.append(
                QueryHour(
                    hour=hour,
                    partner=partner,
                    queries=asked,
                    with_offers=offered,
                    offers=offered * 20,
                    offered=offered * 4000,
                )
            )
            for bank in ("ipe", "cedro"):
                ok, failed, sent = asked * 40 // 100, asked * chance.randint(0, 9) // 100, asked * 6 // 100
                banks.append(
                    BankHour(
                        hour=hour,
                        partner=partner,
                        bank=bank,
                        ok=ok,
                        no_offers=asked - ok - failed,
                        failed=failed,
                        offers=ok * 18,
                        offered=ok * 3500,
                        submitted=sent,
                        submitted_amount=sent * 3000,
                        signed=sent // 2,
                        signed_amount=sent // 2 * 3000,
                        disbursed=sent // 3,
                        disbursed_amount=sent // 3 * 3000,
                    )
                )
                for stage, code in (("offer", "no_margin"), ("offer", "age_limit"), ("signature", "signature_expired")):
                    reasons.append(
                        ReasonHour(
                            hour=hour, partner=partner, bank=bank, stage=stage, code=code, count=chance.randint(1, 9)
                        )
                    )
        for bank in ("ipe", "cedro"):
            for bound in (500, 1000, 2000, 5000):
                latencies.append(LatencyHour(hour=hour, bank=bank, up_to_ms=bound, count=chance.randint(1, 50)))
        hour -= timedelta(hours=1)
    QueryHour.objects.bulk_create(queries)
    BankHour.objects.bulk_create(banks)
    ReasonHour.objects.bulk_create(reasons)
    LatencyHour.objects.bulk_create(latencies)
    Progress.objects.create(source=Source.QUERIES, until=timezone.now())
    BreakerMove.objects.create(bank="ipe", is_open=True, at=timezone.now() - timedelta(hours=3))
