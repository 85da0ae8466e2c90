"""What a partner does with its proposals (read, formalize, cancel), and the service's own status checks."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings

from consultas import admission
from foundation import workers
from foundation.encryption import blind_index
from foundation.errors import ApiError, InvalidState, NotFound, NotSupported, RateLimited
from foundation.listing import PAGE, newest_first
from partners.limits import Usage
from partners.models import Partner
from proposals.calls import adapter, call_bank
from proposals.models import BankCall, Cause, Proposal
from proposals.statuses import UNKNOWN
from providers.errors import BankFailure, ProviderError, ProviderUnavailable
from providers.operation import BankClient
from providers.types.proposal import BankProposal, ProposalStatus

log = structlog.get_logger(__name__)

Operation = BankCall.Operation
#: The partner's reads of one proposal ask the bank at most this often.
STATUS_EVERY = timedelta(seconds=5)


# --- Web --------------------------------------------------------------------------------------------------------


def get(partner: Partner, proposal_id: str) -> Proposal:
    """The partner's proposal. Raises NotFound if `proposal_id` is invalid or unknown, or if the proposal belongs to
    another partner or to a bank that the contract no longer has. The error does not say which."""
    try:
        proposal = Proposal.of(partner).filter(pk=UUID(proposal_id)).first()
    except ValueError:
        proposal = None
    if proposal is None:
        raise NotFound
    return proposal


def page(partner: Partner, filters: dict[str, Any]) -> tuple[list[Proposal], str | None]:
    """A page of the partner's proposals, newest first, and the cursor of the next page. `filters` are those of
    `SearchRequest`. Raises InvalidInput on `cursor` for a cursor that this list did not issue."""
    lookups = {name: value for name, value in filters.items() if value is not None}
    cursor, limit = lookups.pop("cursor", None), lookups.pop("limit", PAGE)
    cpf, shown_status = lookups.pop("cpf", None), lookups.pop("status", None)
    rows = Proposal.of(partner).filter(**lookups)
    if shown_status == UNKNOWN:
        rows = rows.filter(Proposal.is_unknown())
    elif shown_status is not None:
        rows = rows.filter(~Proposal.is_unknown(), status=shown_status)
    if "partner_reference" in lookups:
        rows = rows.filter(partner_reference__gt="")  # the condition of the partial index
    if cpf:
        rows = rows.filter(cpf_index=blind_index("cpf", cpf))
    return newest_first(rows, cursor, limit)


def formalize(proposal: Proposal, channel: str | None, request_id: str, usage: Usage) -> None:
    """Have the bank issue the contract. While the contract awaits the signature, the bank gives the same URL again, or
    a fresh one if the first has expired. If the bank cannot be asked, the proposal keeps its earlier URL while that is
    valid, and has the `error` to show with it, which is not stored.

    Raises InvalidState if the proposal's status does not allow it, RateLimited if the partner's `usage` gives no place,
    and the bank's failure if there is no URL yet.
    """
    if proposal.is_final or proposal.shown_status == UNKNOWN:
        raise InvalidState
    try:
        with admission.place(usage):
            _have_called(proposal, Operation.FORMALIZE, channel, request_id)
    except BankFailure:
        if proposal.usable_link() is None:
            raise
        proposal.error = ProviderUnavailable().as_dict()


def cancel(proposal: Proposal, reason: str | None, request_id: str, usage: Usage) -> None:
    """Cancel at the bank. Does nothing for a proposal that is already cancelled. Raises NotSupported if the bank does
    not cancel, InvalidState if the status does not allow it, and RateLimited if `usage` gives no place."""
    if proposal.shown_status == UNKNOWN:
        raise InvalidState
    if not adapter(proposal.provider).cancels():
        raise NotSupported("Este banco não permite cancelamento.")
    if proposal.status == ProposalStatus.CANCELLED:
        return
    if proposal.is_final:
        raise InvalidState
    with admission.place(usage):
        _have_called(proposal, Operation.CANCEL, reason, request_id)


def look_if_due(proposal: Proposal, request_id: str, usage: Usage) -> None:
    """Give `proposal` its current status at the bank. The bank is asked at most once per `STATUS_EVERY`, and never
    about a final proposal, nor about one of unknown outcome, which has its own checks. If the partner's `usage` gave no
    place or no worker answered, the proposal has the `error` to show, which is not stored."""
    if proposal.is_final or proposal.shown_status == UNKNOWN or not proposal.claim_look(STATUS_EVERY):
        return
    answer = None
    with suppress(RateLimited), admission.place(usage):  # the last known status is no reason for a 429
        answer = workers.ask("proposals.tasks.look", settings.PROPOSAL_WAIT_S, str(proposal.pk), request_id)
    proposal.refresh_from_db()
    if answer is None:
        proposal.error = ProviderUnavailable().as_dict()


def _have_called(proposal: Proposal, operation: Operation, argument: str | None, request_id: str) -> None:
    """Have a worker call the bank, and wait for it. The proposal is then as after the call, also if an error is raised:
    the call's, or ProviderUnavailable if no worker answered."""
    call = (str(proposal.pk), operation, argument, request_id)
    try:
        if workers.ask("proposals.tasks.act", settings.PROPOSAL_WAIT_S, *call) is None:
            raise ProviderUnavailable
    finally:
        proposal.refresh_from_db()


# --- Worker -----------------------------------------------------------------------------------------------------


def run(call_id: str, proposal_id: str, operation: str, argument: str | None, request_id: str) -> None:
    """Make the call that a partner asked for, and store the result. Raises the bank's refusal or failure, and
    SecondCopy if another copy of the task makes the call."""
    structlog.contextvars.bind_contextvars(request_id=request_id)
    proposal = Proposal.objects.get(pk=proposal_id)
    told = {"proposal": proposal, "operation": operation, "request_id": request_id}
    call, is_first = BankCall.objects.get_or_create(pk=UUID(call_id), defaults=told)
    if not is_first:
        raise workers.SecondCopy
    channel = argument if operation == Operation.FORMALIZE else None
    calls: dict[str, Callable[[BankClient], BankProposal]] = {
        Operation.FORMALIZE: lambda bank: bank.formalize(proposal.native_id, channel or proposal.channel or None),
        Operation.CANCEL: lambda bank: bank.cancel(proposal.native_id, argument),
    }
    try:
        reported = call_bank(call, calls[operation])
    except InvalidState:  # the bank's status is another than ours: the partner is told that one
        _look(proposal, Cause.STATUS, request_id)
        raise
    except BankFailure:  # the bank may nevertheless have done it: check soon
        proposal.hasten_refresh()
        raise
    except NotFound:  # a failure of the bank, because the partner's id is valid
        raise ProviderError from None
    proposal.absorb(reported, Cause(operation), channel=channel)


def look(proposal_id: str, request_id: str) -> None:
    """Ask the bank for the status because the partner asked. A failure is stored as the proposal's `error`."""
    _look(Proposal.objects.get(pk=proposal_id), Cause.STATUS, request_id)


def _look(proposal: Proposal, cause: Cause, request_id: str) -> None:
    """Ask the bank for the status and store it. If the bank does not answer, the last known status stays. The call
    itself is not stored, because status checks are many; the moves that it causes are, and once, that the bank does not
    know its proposal."""
    structlog.contextvars.bind_contextvars(request_id=request_id)
    bank_call = BankCall(id=proposal.pk, proposal=proposal, operation=Operation.STATUS, request_id=request_id)
    try:
        reported = call_bank(bank_call, lambda bank: bank.status(proposal.native_id), keep=False)
    except ApiError:
        log.info("proposal_status_unanswered", bank=proposal.provider, cause=cause)
        proposal.mark_unanswered(cause)
    else:
        proposal.absorb(reported, cause)


# --- Sweep ------------------------------------------------------------------------------------------------------


def refresh(proposal: Proposal) -> None:
    """Ask the bank for the status because the next check is due."""
    _look(proposal, Cause.REFRESH, proposal.request_id)
