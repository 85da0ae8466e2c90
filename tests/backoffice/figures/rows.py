"""Rows of queries with answers, ended steps and proposals' moves, at times that a test chooses."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import msgspec
from django.db.models import Model
from django.utils import timezone

from backoffice.figures.counting import hour_of
from backoffice.figures.models import BankHour, BreakerMove, LatencyHour, Progress, QueryHour, ReasonHour
from consultas.models import Answer, Offer, Query, Step
from partners.models import Partner
from proposals.models import Cause, Move, Proposal
from proposals.statuses import WITHDRAWN
from providers.reasons import Reason, ReasonCode
from providers.types.query import BankOffer, QueryStatus
from tests.proposals.rows import a_proposal, a_query_row, a_step, an_offer


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


def a_counted_query(partner: Partner, at: datetime, answers: Sequence[Answer] | None, **changes: Any) -> Query:
    """A query that began at the time `at` and that a worker took. Without `answers`: its process died."""
    ended = None if answers is None else at + timedelta(seconds=1)
    told = None if answers is None else msgspec.to_builtins(answers)
    return a_query_row(partner, at=at, **{"takes": 1, "finished_at": ended, "answers": told, **changes})


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


def _sold(**numbers: int) -> dict[str, int]:
    """Columns of proposals, each of which is about 5,000 reais."""
    return numbers | {f"{name}_amount": 5000 * number for name, number in numbers.items()}


def some_figures(*partners: Partner, hours: int = 3) -> None:
    """Figures of each kind for two banks, in each of the last `hours`, and a breaker that opened."""
    now = hour_of(timezone.now())
    rows: dict[type[Model], list[Model]] = {model: [] for model in (QueryHour, BankHour, ReasonHour, LatencyHour)}

    def add(model: type[Model], **values: Any) -> None:
        rows[model].append(model(**values))

    answers = {"ok": 500, "no_offers": 400, "pending": 50, "refused": 150, "failed": 100}
    offers = {"offers": 20_000, "offered": Decimal("4000000.50")}
    stages = (("offer", "no_margin"), ("signature", "signature_expired"), ("payment", "none_yet"))
    sold = _sold(submitted=40, signed=30, disbursed=20, withdrawn=2)
    for age, hour in enumerate(now - timedelta(hours=age) for age in range(hours)):
        for partner in partners:
            add(QueryHour, hour=hour, partner=partner, queries=1200, with_offers=500, **offers)
            for bank in ("ipe", "cedro"):
                of_bank = {"hour": hour, "partner": partner, "bank": bank}
                add(BankHour, **of_bank, **answers, **offers, **sold)
                for stage, code in stages:
                    add(ReasonHour, **of_bank, stage=stage, code=code, count=10 + age)
        for bank, bound in product(("ipe", "cedro"), (500, 1000, 5000)):
            add(LatencyHour, hour=hour, bank=bank, up_to_ms=bound, count=400)
    for model, made in rows.items():
        model._default_manager.bulk_create(made)
    BreakerMove.objects.create(bank="ipe", is_open=True, at=now)
    BreakerMove.objects.create(bank="ipe", is_open=False, at=now + timedelta(seconds=17))
    BreakerMove.objects.create(bank="ipe", partner_id=partners[0].pk, is_open=True, at=now)
    Progress.objects.create(until=timezone.now())
