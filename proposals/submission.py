"""Submission that can't double: how a proposal reaches its bank exactly once, whatever fails.

The row is committed before the bank hears of it, and a unique index lets one live row exist per partner and
offer. A worker sends; whatever becomes of its process, what it began stands in the row. Once anything may have
been sent, the next step is always to ask the bank by our reference, and sending again takes its clear "not
found" after the longest time that it needs to show a submission.

Web side: `submit`. Worker side: `run`, `reconcile`. docs/decisions/0030-exactly-once-submission.md says why.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
import structlog
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from authorizations import evidence
from authorizations.models import Evidence
from consultas import offers
from consultas import serializers as query_serializers
from consultas.models import Offer
from foundation import validation, workers
from foundation.database import outlasts_restart
from foundation.encryption import blind_index
from foundation.errors import ApiError, Detail, InvalidInput, NotFound
from partners.models import Partner
from proposals import comparison, dataset
from proposals.calls import adapter, call_bank
from proposals.killpoints import die_at
from proposals.models import NOT_LIVE, BankCall, Cause, Proposal
from proposals.serializers import SubmissionRequest
from providers.errors import BankFailure, OfferExpired, ProviderRejected, ProviderUnavailable
from providers.models import Provider
from providers.operation import BankClient
from providers.types import BankProposal

log = structlog.get_logger(__name__)

Phase = Proposal.Submission
Operation = BankCall.Operation
#: Waits before each look for a submission whose outcome is unknown; the last one repeats.
RECONCILE_AFTER_S = (5, 30, 120, 600, 3600)
#: A worker may look, then send: so many time-outs of the bank, and some seconds to write it down.
TIMEOUTS_PER_TRY = 3
MARGIN = timedelta(seconds=5)
#: Submissions looked for in one sweep, and how long one may take before another sweep may look.
BATCH = 50
LOOK_LEASE = timedelta(seconds=60)
_UNKNOWN = "O resultado do envio ainda não é conhecido. Repita a chamada em instantes: nada será enviado em dobro."


# --- Web --------------------------------------------------------------------------------------------------------


def validated(partner: Partner, body: dict[str, Any]) -> dict[str, Any]:
    """The dataset of a submission's JSON body. Raises InvalidInput that names every fault of its form and, as far as
    its valid part tells, what its bank and its offer find at fault besides."""
    try:
        return validation.validated(SubmissionRequest, body)
    except InvalidInput as fault:
        part = validation.valid_part(SubmissionRequest, body)
        provider = (part.get("offer_ref") or {}).get("provider")
        if provider not in {allowed.name for allowed in partner.allowed_banks()}:
            raise  # of a bank outside the contract nothing is told
        further = dataset.faults_of_part(partner, adapter(provider), part, fault.details)
        raise InvalidInput(details=[*fault.details, *further]) from None


def submit(partner: Partner, data: dict[str, Any], request_id: str) -> tuple[Proposal, bool]:
    """The proposal for the validated dataset `data`, and whether this request made it.

    Raises NotFound for a bank outside the contract, InvalidInput before any call, OtherData where the offer's
    proposal has others, the bank's own refusal, and ProviderUnavailable where the outcome is not known (yet): then
    a repeat is safe. An error about a stored proposal bears its `proposal_id`.
    """
    provider = data["offer_ref"]["provider"]
    if provider not in {allowed.name for allowed in partner.allowed_banks()}:
        raise NotFound
    offer = offers.named(partner, provider, data["offer_ref"]["offer_id"])
    dataset.check(adapter(provider), data, offer)
    if offer is None:
        raise AssertionError("check() raises without an offer")
    deadline = time.monotonic() + settings.PROPOSAL_WAIT_S
    proposal, is_ours = _claim(partner, offer, data, request_id)
    answer = None
    if is_ours or (proposal.submission == Phase.SENDING and proposal.taken_at is None):
        # Another request's try too, until a worker takes it: the process that was to publish its task may have died.
        answer = workers.ask("proposals.tasks.submit", str(proposal.pk), deadline - time.monotonic())
    if is_ours and answer is None:
        _release(proposal)
    else:
        _follow(proposal, deadline)
    proposal = Proposal.objects.get(pk=proposal.pk)
    if proposal.submission == Phase.ACCEPTED:
        # The bank may have an earlier dataset than the one that this request brought, or waited for.
        _refuse_other_data(proposal, proposal.dataset, msgspec.to_builtins(data))
        return proposal, is_ours
    raise error_of(proposal).with_facts(proposal_id=str(proposal.pk))


def error_of(proposal: Proposal) -> ApiError:
    """Why the submission gave no proposal, as the partner sees it."""
    if proposal.error:
        error = from_dict(proposal.error)
        return ProviderUnavailable() if isinstance(error, BankFailure) else error
    is_open = proposal.submission in (Phase.SENDING, Phase.UNKNOWN)
    return ProviderUnavailable(_UNKNOWN if is_open else None)


def from_dict(told: dict[str, Any]) -> ApiError:
    """The error that `as_dict` wrote."""
    kind = ApiError.by_code[told["code"]]
    if kind is InvalidInput:
        return InvalidInput(told["message"], details=msgspec.convert(told["details"], list[Detail]))
    return kind(told["message"], field=told["field"])


def _claim(partner: Partner, offer: Offer, data: dict[str, Any], request_id: str) -> tuple[Proposal, bool]:
    """The live proposal of this offer, and whether the next try to send it is this request's.

    It is where none existed, or where none is at it: the last try never arrived, is unknown, or its lease ended.
    Raises OtherData where the proposal has other data than `data` and the bank has it, may have it or is about to
    get it.
    """
    told = msgspec.to_builtins(data)
    while True:
        now = timezone.now()
        live = Proposal.objects.filter(partner=partner, offer=offer).exclude(status__in=NOT_LIVE).first()
        if live is None or live.submission == Phase.NOT_SENT:
            dataset.check_authorized(offer)
        if live is None:
            try:
                return _create(partner, offer, data, request_id, now), True
            except IntegrityError:
                if not Offer.objects.filter(pk=offer.pk).exists():
                    # It was erased since it was looked up.
                    raise InvalidInput(dataset.UNKNOWN_OFFER, field=dataset.OFFER) from None
                continue  # another request was first: its row is the one
        if not _is_replaceable(live, now):
            _refuse_other_data(live, live.next_dataset or live.dataset, told)
        if live.submission == Phase.ACCEPTED or _is_held(live, now):
            return live, False
        # While the bank may have an earlier try, that one's data is what the row tells of.
        kept = _to_send(told) if live.sent_until is None else {"next_dataset": told}
        mine = Proposal.objects.filter(pk=live.pk, attempts=live.attempts, submission=live.submission).update(
            **kept,
            submission=Phase.SENDING,
            attempts=live.attempts + 1,
            taken_at=None,
            error=None,
            request_id=request_id,
            **_lease(now + timedelta(seconds=settings.PROPOSAL_WAIT_S)),
        )
        if mine:
            live.attempts += 1
            return live, True


def _is_held(proposal: Proposal, now: datetime) -> bool:
    return proposal.submission == Phase.SENDING and proposal.lease_until is not None and proposal.lease_until > now


def _is_replaceable(proposal: Proposal, now: datetime) -> bool:
    """True where the bank certainly has nothing of the proposal and nobody is about to send it: its data may be
    replaced by others."""
    if proposal.submission == Phase.NOT_SENT:
        return True
    never_sent = proposal.submission == Phase.SENDING and proposal.sent_until is None
    return never_sent and not _is_held(proposal, now)


def _refuse_other_data(proposal: Proposal, kept: dict[str, Any], told: dict[str, Any]) -> None:
    """Raise OtherData on the first field in which `told` is another submission than `kept`, that of `proposal`."""
    field = comparison.first_difference(kept, told)
    if field is not None:
        raise comparison.OtherData(str(proposal.pk), field)


def _to_send(told: dict[str, Any]) -> dict[str, Any]:
    """The columns that say what is sent to the bank."""
    return {"dataset": told, "channel": told["evidencia"].get("tipo_envio") or "", "next_dataset": None}


def _lease(until: datetime) -> dict[str, datetime]:
    """The columns that keep others off a try until then, and have the sweep look at it after that."""
    return {"lease_until": until, "next_reconcile_at": until}


def _create(partner: Partner, offer: Offer, data: dict[str, Any], request_id: str, now: datetime) -> Proposal:
    """The committed row. Raises IntegrityError where the offer has a live proposal."""
    shown = query_serializers.offer(offer.provider, offer.as_bank_offer(), offer.query.holder(), offer.pk)
    return Proposal.objects.create(
        partner=partner,
        offer=offer,
        provider=offer.provider,
        cpf_index=blind_index("cpf", data["titular"]["cpf"]),
        terms=shown,
        request_id=request_id,
        **_to_send(msgspec.to_builtins(data)),
        **_lease(now + timedelta(seconds=settings.PROPOSAL_WAIT_S)),
    )


def _release(proposal: Proposal) -> None:
    """After no word came: give a try back that no worker took, so that a repeat need not wait for the lease."""
    untaken = Proposal.objects.filter(
        pk=proposal.pk, attempts=proposal.attempts, submission=Phase.SENDING, taken_at__isnull=True
    )
    untaken.filter(sent_until__isnull=True).update(submission=Phase.NOT_SENT, next_reconcile_at=None)
    untaken.filter(sent_until__isnull=False).update(submission=Phase.UNKNOWN, next_reconcile_at=timezone.now())


def _follow(proposal: Proposal, deadline: float) -> None:
    """Wait until the current try has its outcome, or until `deadline` (monotonic seconds). Another copy of the task
    may be at it, which answers to another request."""
    pause = 0.05
    sending = Proposal.objects.filter(pk=proposal.pk, attempts=proposal.attempts, submission=Phase.SENDING)
    while time.monotonic() < deadline and sending.exists():
        connection.close()
        time.sleep(pause)
        pause = min(0.5, pause * 1.5)


# --- Worker -----------------------------------------------------------------------------------------------------


def run(proposal_id: str) -> None:
    """Take the current try of the proposal and bring it to an outcome. A task that comes twice, or too late,
    finds nothing to take."""
    proposal = _take(proposal_id)
    if proposal is None:
        return
    structlog.contextvars.bind_contextvars(request_id=proposal.request_id)
    try:
        if proposal.sent_until is None or _nothing_is_there(proposal):
            _send(proposal)
    finally:
        connection.close()


@outlasts_restart
def _take(proposal_id: str) -> Proposal | None:
    """The proposal, its current try taken for this worker; None where there is no try to take.

    With the same commit the row says that something may have been sent: from here on only the bank knows. The
    object's own `sent_until` stays that of the earlier tries, None where nothing was ever sent.
    """
    with transaction.atomic():
        rows = Proposal.objects.select_for_update(of=("self",)).select_related("offer__query")
        proposal = rows.get(pk=proposal_id)
        now = timezone.now()
        if proposal.taken_at is not None or not _is_held(proposal, now):
            return None
        until = now + timedelta(seconds=TIMEOUTS_PER_TRY * _timeout_s(proposal)) + MARGIN
        earlier = proposal.sent_until
        proposal.taken_at = now
        proposal.lease_until = proposal.next_reconcile_at = until
        proposal.sent_until = earlier or until
        proposal.save(update_fields=["taken_at", "lease_until", "next_reconcile_at", "sent_until", "updated_at"])
    proposal.sent_until = earlier
    return proposal


def _timeout_s(proposal: Proposal) -> float:
    row = Provider.objects.only("timeout_s").filter(name=proposal.provider).first()
    return float((row and row.timeout_s) or settings.BANK_TIMEOUT_S)


def _nothing_is_there(proposal: Proposal) -> bool:
    """Whether the bank has nothing of the earlier tries, so that one more may be sent. What it has is adopted;
    where it can't tell yet, the outcome stays unknown."""
    is_final = _is_final(proposal)
    try:
        found = _find(proposal)
    except ApiError:
        found = None
    else:
        if found is None and (is_final or adapter(proposal.provider).deduplicates):
            if is_final:
                proposal.sent_until = None
            sending = _to_send(proposal.next_dataset or proposal.dataset)
            proposal.dataset = sending["dataset"]
            # Fenced: where somebody else took over meanwhile, this worker sends nothing.
            return bool(_ours(proposal).update(sent_until=proposal.lease_until, **sending))
    if found is not None:
        _accept(proposal, found, Cause.RECONCILE)
    else:
        wait = timedelta(seconds=_pause(proposal.reconciles))
        _ours(proposal).update(submission=Phase.UNKNOWN, next_reconcile_at=timezone.now() + wait)
    return False


def _send(proposal: Proposal) -> None:
    die_at("after_commit")
    # What is sent has arrived, or never will, when the lease ends: others count on it.
    left = (proposal.lease_until - timezone.now()).total_seconds() if proposal.lease_until else 0.0
    seconds = max(0.0, min((TIMEOUTS_PER_TRY - 1) * _timeout_s(proposal), left))
    body = dataset.to_bank(proposal.dataset, proposal.offer, reference=proposal.reference)

    def submit(bank: BankClient) -> BankProposal:
        return bank.submit(body, about_to_send=partial(_note_evidence, proposal))

    try:
        accepted = call_bank(proposal, Operation.SUBMIT, submit, seconds=seconds)
    except BankFailure as failure:
        if failure.sent:
            _outcome_unknown(proposal)
        else:
            _never_arrived(proposal, failure)
    except InvalidInput as error:
        _never_arrived(proposal, error)
    except (OfferExpired, NotFound):
        # An offer that the bank knows no longer: asked again, it makes a new one.
        _refuse(proposal, OfferExpired())
    except ApiError as error:
        _refuse(proposal, ProviderRejected(error.message))
    else:
        die_at("after_send")
        _accept(proposal, accepted, Cause.SUBMIT)


def _note_evidence(proposal: Proposal) -> None:
    """The bank is about to rely on the session that the offer's query was authorized by, where it was."""
    if authorization_id := proposal.offer.query.authorization_id:
        seen = Evidence.objects.get(session__authorization_id=authorization_id)
        evidence.record_use(seen.number, [proposal.provider], call="submit", reference=str(proposal.pk))
    connection.close()


def _find(proposal: Proposal) -> BankProposal | None:
    return call_bank(proposal, Operation.FIND, lambda bank: bank.find(proposal.reference))


def _is_final(proposal: Proposal) -> bool:
    """Whether a "not found" to a question asked from now on counts: all that was sent has long arrived, and the
    bank has had its longest time. A question already asked may have been answered too early."""
    if proposal.sent_until is None:
        return True
    longest = timedelta(seconds=adapter(proposal.provider).processing_time_s)
    return timezone.now() >= proposal.sent_until + longest


def _ours(proposal: Proposal) -> QuerySet[Proposal]:
    """The row, as long as the try that it is about is still the current one and has no outcome."""
    return Proposal.objects.filter(pk=proposal.pk, attempts=proposal.attempts, submission=Phase.SENDING)


@outlasts_restart
def _accept(proposal: Proposal, found: BankProposal, cause: Cause) -> None:
    """What the bank accepted counts, whoever learns of it and however late."""
    with Proposal.locked(proposal.pk) as row:
        row.accept(found, cause)
        die_at("before_settle")


@outlasts_restart
def _refuse(proposal: Proposal, error: ProviderRejected | OfferExpired) -> None:
    """The bank refused this try. An earlier one that may still arrive could be accepted all the same: then the
    refusal is told, and counts only once nothing is there and nothing can arrive."""
    with Proposal.locked(proposal.pk) as row:
        if row.attempts != proposal.attempts or row.submission != Phase.SENDING:
            return
        if proposal.sent_until is None:
            row.refuse(error)
        else:
            row.submission, row.sent_until, row.error = Phase.UNKNOWN, proposal.sent_until, error.as_dict()
            row.next_reconcile_at = timezone.now() + timedelta(seconds=_pause(row.reconciles))
        die_at("before_settle")


@outlasts_restart
def _never_arrived(proposal: Proposal, error: ApiError) -> None:
    """Nothing of this try was sent. Where nothing of an earlier one can arrive either, the bank has nothing of it,
    for certain, and the next try may be sent at once."""
    if proposal.sent_until is None:
        _ours(proposal).update(
            submission=Phase.NOT_SENT, error=error.as_dict(), sent_until=None, lease_until=None, next_reconcile_at=None
        )
    else:
        wait = timedelta(seconds=_pause(proposal.reconciles))
        _ours(proposal).update(
            submission=Phase.UNKNOWN, sent_until=proposal.sent_until, next_reconcile_at=timezone.now() + wait
        )


@outlasts_restart
def _outcome_unknown(proposal: Proposal) -> None:
    now = timezone.now()
    _ours(proposal).update(
        submission=Phase.UNKNOWN,
        sent_until=now,
        reconciles=0,
        next_reconcile_at=now + timedelta(seconds=_pause(0)),
    )


# --- Sweep ------------------------------------------------------------------------------------------------------


def claim_unsettled() -> list[Proposal]:
    """Submissions that are due to be looked for, taken for this worker. One whose worker died becomes unknown
    on the way, or not sent where no worker ever took it."""
    now = timezone.now()
    with transaction.atomic():
        rows = Proposal.objects.select_for_update(skip_locked=True, of=("self",)).order_by("next_reconcile_at")
        due = rows.filter(next_reconcile_at__lte=now, submission__in=(Phase.SENDING, Phase.UNKNOWN))
        ids = [proposal.pk for proposal in due.only("pk")[:BATCH]]
        ended = Proposal.objects.filter(pk__in=ids, submission=Phase.SENDING, lease_until__lte=now)
        ended.filter(sent_until__isnull=True).update(submission=Phase.NOT_SENT, next_reconcile_at=None)
        ended.filter(sent_until__isnull=False).update(submission=Phase.UNKNOWN, reconciles=0)
        unknown = Proposal.objects.filter(pk__in=ids, submission=Phase.UNKNOWN)
        unknown.update(next_reconcile_at=now + LOOK_LEASE)
    return list(Proposal.objects.filter(pk__in=ids, submission=Phase.UNKNOWN))


def reconcile(proposal: Proposal) -> None:
    """Look for a submission whose outcome is unknown: adopt it, or know that it never arrived, or look later.

    Nothing is sent from here: only a partner who asks again wants the proposal still.
    """
    structlog.contextvars.bind_contextvars(request_id=proposal.request_id)
    current = Proposal.objects.filter(pk=proposal.pk, attempts=proposal.attempts, submission=Phase.UNKNOWN)
    is_final = _is_final(proposal)
    try:
        found = _find(proposal)
    except ApiError:
        found, is_final = None, False
    if found is not None:
        _accept(proposal, found, Cause.RECONCILE)
    elif is_final:
        _nothing_arrived(proposal)
    else:
        looks = proposal.reconciles + 1
        wait = timedelta(seconds=_pause(looks))
        current.update(reconciles=looks, next_reconcile_at=timezone.now() + wait)


def _nothing_arrived(proposal: Proposal) -> None:
    """The bank has nothing, and nothing can arrive any more: what it said of the last try counts now."""
    with Proposal.locked(proposal.pk) as row:
        if row.attempts != proposal.attempts or row.submission != Phase.UNKNOWN:
            return
        if row.error:
            row.refuse(from_dict(row.error))
        else:
            row.submission, row.next_reconcile_at = Phase.NOT_SENT, None


def bring_forward(proposals: QuerySet[Proposal]) -> list[UUID]:
    """Have those whose outcome is unknown looked for at the next sweep, and soon again after it; returns their ids. A
    try that a worker is at is left alone."""
    now = timezone.now()
    lapsed = Q(submission=Phase.UNKNOWN) | Q(submission=Phase.SENDING, lease_until__lte=now)
    ids = list(proposals.filter(lapsed).values_list("pk", flat=True))
    Proposal.objects.filter(lapsed, pk__in=ids).update(next_reconcile_at=now, reconciles=0)
    return ids


def _pause(looks: int) -> int:
    return RECONCILE_AFTER_S[min(looks, len(RECONCILE_AFTER_S) - 1)]
