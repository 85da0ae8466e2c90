"""External steps that holders owe banks. A query opens a step, a repeated query finds it again, a check closes it.

Only `settle` closes a step. A repeated query or a callback that learns of the end only brings the next check forward.
The checks of due steps have limits on number and time.
"""

import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import partial

import structlog
from django.db import connection, transaction
from django.db.models import Case, F, Prefetch, QuerySet, When, prefetch_related_objects
from django.utils import timezone

from authorizations import evidence
from consultas import offers, query_json
from consultas.models import Query, Step
from foundation import later
from foundation.database import outlasts_restart
from foundation.encryption import sealed
from foundation.errors import ApiError, InvalidInput
from partners import contract
from providers import operation, registry
from providers.bank import Bank
from providers.errors import BankFailure, BankSwitchedOff
from providers.operation import BankClient
from providers.reasons import Reason
from providers.types import given
from providers.types.query import BankAction, BankQuery, BankResult, QueryStatus, StepOutcome
from webhooks import outbox

log = structlog.get_logger(__name__)

#: A step's lifetime, if the bank does not give one.
DEFAULT_LIFETIME = timedelta(hours=72)
EAGER = timedelta(minutes=10)
EAGER_EVERY = timedelta(seconds=6)
SLOWEST = timedelta(minutes=5)
#: How long a claimed check may take before another worker may claim it.
LEASE = timedelta(seconds=45)
#: How long one run takes up due steps, in seconds. The next run continues.
TICK_S = 2.0
#: How many steps of one bank this process checks at the same time. A hanging bank therefore delays no other bank's
#: steps.
PLACES = 64

#: How many checks this process makes at present, by bank.
_checks: Counter[str] = Counter()


@outlasts_restart
def open_steps(query: Query, banks: list[str]) -> dict[str, Step]:
    """The steps that the holder of the query still owes, by bank, for the query's partner."""
    rows = Step.objects.filter(
        partner=query.partner_id, cpf_index=query.cpf_index, provider__in=banks, state=Step.State.OPEN
    )
    return {row.provider: row for row in rows}


def ask(bank: BankClient, query: Query, request: BankQuery, step: Step | None) -> BankResult:
    """The bank's answer to `query`. While a step is open, the bank is asked only for its state: the holder gets no
    second message, and the partner sees the same URL, even if the bank cannot tell the state. After a refused or
    expired step the bank is queried again, which opens another step."""
    if step is None:
        return _query(bank, query, request)
    outcome, result = _look(bank, step, request)
    if outcome is StepOutcome.OPEN:
        if step.url is None and result.action is not None and result.action.url is not None:
            _store_link(step, result.action)
        return replace(result, status=BankResult.waiting(step.action()).status, action=step.action())
    if outcome is StepOutcome.APPROVED:
        wake(step)
        return result
    settle(step, outcome, result)
    return _query(bank, query, request)


def _query(bank: BankClient, query: Query, request: BankQuery) -> BankResult:
    number = query.evidence_number
    about_to_send = None if number is None else partial(_record_evidence_use, number, bank.name, query)
    result = bank.query(request, about_to_send=about_to_send)
    if result.action is not None:
        step = _open(query, bank.name, result.action)
        result = replace(result, action=step.action())
    return result


def _record_evidence_use(number: int, bank: str, query: Query) -> None:
    """Record that the evidence `number` goes to `bank`, before the request is sent. If the process dies in between, one
    use too many is recorded; the opposite order could lose one."""
    evidence.record_use(number, [bank], call="query", reference=str(query.id))
    connection.close()


@outlasts_restart
def _open(query: Query, provider: str, action: BankAction) -> Step:
    """Store the step, or return the one that another query opened at the same moment. Tried again while the database is
    away: if the row were lost, the holder would be asked a second time."""
    now = timezone.now()
    step, _ = Step.objects.get_or_create(
        partner_id=query.partner_id,
        provider=provider,
        cpf_index=query.cpf_index,
        state=Step.State.OPEN,
        defaults={
            "query": query,
            "type": action.type,
            "url": action.url,
            "detail": action.detail,
            "reference": action.reference,
            "opened_at": now,
            "expires_at": action.expires_at or now + DEFAULT_LIFETIME,
            "due_at": now + EAGER_EVERY,
        },
    )
    return step


@outlasts_restart
def _store_link(step: Step, action: BankAction) -> None:
    step.type, step.url, step.detail = action.type, action.url, action.detail
    Step.objects.filter(pk=step.pk).update(type=step.type, url=sealed(step, "url", step.url), detail=step.detail)


def _look(bank: BankClient, step: Step, request: BankQuery) -> tuple[StepOutcome, BankResult]:
    """Ask the bank for the step's state. Returns the outcome, and the bank's answer to `request` if it gave one. A
    refusal ends the step, because the bank would repeat it forever; a failure leaves it open. A step that is still open
    after its lifetime has expired."""
    try:
        result = bank.check(request, step.reference)
        outcome = given(result.step)
    except (BankFailure, InvalidInput) as error:
        log.warning("step_check_failed", bank=step.provider, code=error.code)
        outcome, result = StepOutcome.OPEN, BankResult.waiting(step.action())
    except ApiError as error:
        log.info("step_check_refused", bank=step.provider, code=error.code)
        outcome, result = StepOutcome.REFUSED, BankResult.ended(StepOutcome.REFUSED, error.message)
    if outcome is StepOutcome.OPEN and step.is_over():
        return StepOutcome.EXPIRED, result
    return outcome, result


def wake(step: Step) -> None:
    """Have the step checked at once, before the steps that are due by their schedule."""
    _wake(Step.objects.filter(pk=step.pk))


def _wake(steps: QuerySet[Step]) -> None:
    if Step.hasten(steps.filter(state=Step.State.OPEN), woken_at=timezone.now()):
        later.ring(Step)


def wake_by_callback(provider: str, reference: str) -> None:
    """Have the step checked at once, because a bank's callback says that it ended. The callback alone proves nothing,
    so one that is repeated, late, or earlier than the step's row does no harm."""
    if "\0" not in reference:  # PostgreSQL cannot store NUL, so no step has such a reference
        _wake(Step.objects.filter(provider=provider, reference=reference))


def settle(step: Step, outcome: StepOutcome, result: BankResult) -> bool:
    """Close the step, store its offers and send the event, in one transaction. Returns False if it was already
    closed."""
    now = timezone.now()
    bank_offers = result.offers if outcome is StepOutcome.APPROVED else ()
    with transaction.atomic():
        closed = Step.objects.filter(pk=step.pk, state=Step.State.OPEN).update(
            state=outcome,
            closed_at=now,
            **later.released(None),
            offers=len(bank_offers),
            best_offer=max((offer.loan_value for offer in bank_offers), default=None),
        )
        if not closed:
            return False
        query = step.query
        ids = offers.persist(query, {step.provider: bank_offers})
        reason = _reason(step.provider, outcome, result)
        payload = query_json.authorization_result(step, outcome, reason, bank_offers, ids[step.provider])
        outbox.send(query.partner, "authorization_result", query.request["cpf"], payload)
    return True


def _reason(provider: str, outcome: StepOutcome, result: BankResult) -> Reason | None:
    """The reason why a step that ended brought no offers. None if it brought some."""
    if outcome is not StepOutcome.APPROVED:
        result = BankResult(QueryStatus.NO_OFFERS, step=outcome, reasons=result.reasons)
    why = (registry.get(provider) or Bank).reasons_for(result)
    return why[0] if why else None


# --- Checks -------------------------------------------------------------------------------------------------------


def check_due() -> None:
    """Check the due steps, each in a greenlet of its own, until none is left or the time is over."""
    end = time.monotonic() + TICK_S
    while later.each(Step, claim_due, _check_if_allowed) and time.monotonic() < end:
        pass


def claim_due() -> list[Step]:
    """Claim the due steps of each bank for this worker, as many as it has free places. Another worker may take them
    only after the lease. Woken steps come first, then young ones, whose end is promised soon."""
    due, steps = Step.due(), list[Step]()
    age = Case(When(opened_at__gt=timezone.now() - EAGER, then=0), default=1)
    order = (F("woken_at").asc(nulls_last=True), age, "due_at")
    for bank in due.order_by("provider").values_list("provider", flat=True).distinct():
        steps += Step.claim(due.filter(provider=bank), PLACES - _checks[bank], LEASE, order)
    if steps:
        Step.objects.filter(pk__in=[step.pk for step in steps]).update(woken_at=None, checks=F("checks") + 1)
        prefetch_related_objects(steps, Prefetch("query", Query.objects.defer("answers")))  # answers are large
    return steps


def _check_if_allowed(step: Step) -> None:
    """Check the step. It expires without a call if its bank has left the partner's contract, or if its bank is switched
    off and its lifetime is over."""
    request_id = step.query.request_id
    structlog.contextvars.bind_contextvars(request_id=request_id)
    _checks[step.provider] += 1
    try:
        if any(bank.name == step.provider for bank in contract.of(step.partner_id)):
            check(operation.client(step.provider, request_id=request_id, partner=str(step.partner_id)), step)
        else:
            settle(step, StepOutcome.EXPIRED, BankResult.waiting(step.action()))
    except BankSwitchedOff:
        if step.is_over():
            settle(step, StepOutcome.EXPIRED, BankResult.waiting(step.action()))
        else:
            _look_again(step)
    finally:
        _checks[step.provider] -= 1


def check(bank: BankClient, step: Step) -> None:
    """Check the step without side effects. Close it if it has ended; otherwise schedule the next check."""
    outcome, result = _look(bank, step, step.query.for_bank(step.provider))
    if outcome is StepOutcome.OPEN:
        _look_again(step)
    else:
        settle(step, outcome, result)


def _look_again(step: Step) -> None:
    """Schedule the next check: soon while the step is young, then after a twentieth of its age, at the latest after
    `SLOWEST`."""
    now = timezone.now()
    age = now - step.opened_at
    step.release(now + (min(SLOWEST, age / 20) if age > EAGER else EAGER_EVERY))
