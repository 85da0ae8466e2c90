"""External steps that holders owe banks: opened by a query, found again by a re-query, closed by a check.

A finished step has one place where it is closed, `settle`: a re-query or a bank's callback that learns of it
only brings the next check forward.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from consultas import offers, serializers
from consultas.models import Pending, Query
from providers.base import Bank
from providers.types import BankAction, BankQuery, BankResult, StepOutcome
from webhooks import outbox

#: Where a bank does not say when it gives a step up.
DEFAULT_LIFETIME = timedelta(hours=72)
EAGER = timedelta(minutes=10)
EAGER_EVERY = timedelta(seconds=6)
SLOWEST = timedelta(minutes=5)
#: How long a claimed check may take before another worker may claim it.
LEASE = timedelta(seconds=45)


def open_steps(query: Query, banks: list[str]) -> dict[str, Pending]:
    """The steps that the holder still owes, by bank, for the query's partner."""
    rows = Pending.objects.filter(
        partner=query.partner_id, cpf_index=query.cpf_index, provider__in=banks, state=Pending.State.OPEN
    )
    return {row.provider: row for row in rows}


def ask(bank: Bank, query: Query, request: BankQuery, step: Pending | None) -> BankResult:
    """The bank's answer to `query`. While a step is open it is only looked at: the same link is shown and no
    second message is sent. After a refused or expired one the bank is queried anew, which opens another."""
    if step is None:
        return _query(bank, query, request)
    result = bank.check(request, step.reference)
    outcome = _outcome(step, result)
    if outcome is StepOutcome.OPEN:
        return replace(result, action=step.action())
    if outcome is StepOutcome.APPROVED:
        wake(step)
        return result
    settle(step, outcome, result)
    return _query(bank, query, request)


def _query(bank: Bank, query: Query, request: BankQuery) -> BankResult:
    result = bank.query(request)
    if result.action is not None:
        step = _open(query, bank.name, result.action)
        result = replace(result, action=step.action())
    return result


def _open(query: Query, provider: str, action: BankAction) -> Pending:
    """The stored step; where a query at the same moment opened one first, that one."""
    now = timezone.now()
    step, _ = Pending.objects.get_or_create(
        partner_id=query.partner_id,
        provider=provider,
        cpf_index=query.cpf_index,
        state=Pending.State.OPEN,
        defaults={
            "query": query,
            "type": action.type,
            "url": action.url,
            "detail": action.detail,
            "reference": action.reference,
            "opened_at": now,
            "expires_at": action.expires_at or now + DEFAULT_LIFETIME,
            "next_check_at": now + EAGER_EVERY,
        },
    )
    return step


def _outcome(step: Pending, result: BankResult) -> StepOutcome:
    """How the step stands; one that the bank leaves open beyond its end has expired."""
    outcome = result.step or (StepOutcome.OPEN if result.action else StepOutcome.APPROVED)
    if outcome is StepOutcome.OPEN and step.expires_at <= timezone.now():
        return StepOutcome.EXPIRED
    return outcome


def wake(step: Pending) -> None:
    """Have the step checked at the next sweep."""
    Pending.objects.filter(pk=step.pk, state=Pending.State.OPEN).update(next_check_at=timezone.now())


def settle(step: Pending, outcome: StepOutcome, result: BankResult) -> bool:
    """Close the step, keep its offers and tell the partner, in one transaction; False if it was closed already."""
    now = timezone.now()
    with transaction.atomic():
        closed = Pending.objects.filter(pk=step.pk, state=Pending.State.OPEN).update(
            state=Pending.State(outcome.value), closed_at=now, next_check_at=None
        )
        if not closed:
            return False
        query = step.query
        found = result.offers if outcome is StepOutcome.APPROVED else ()
        ids = offers.persist(query, {step.provider: found})
        payload = serializers.authorization_result(query, step.provider, outcome, found, ids, now)
        outbox.send(query.partner, payload["event"], payload["external_reference"], payload)
    return True
