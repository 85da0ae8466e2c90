"""A partner's submission: the proposal's row, the claim to its next attempt, and the wait for the outcome.

The row is committed before the bank is called. A unique index allows one live row per partner and offer. A worker sends
(proposals/sending.py). Submissions without an outcome are checked later (proposals/sweep.py). The states and the
reasons are in docs/decisions/0030-exactly-once-submission.md.
"""

import math
import time
from datetime import timedelta
from typing import Any

import msgspec
from django.conf import settings
from django.db import IntegrityError, connection
from django.utils import timezone
from redis.exceptions import RedisError

from consultas import offers
from consultas.models import Offer
from foundation import validation, workers
from foundation.database import outlasts_restart
from foundation.errors import ApiError, InvalidInput, InvalidState, NotFound, error_from_dict
from foundation.redis import redis
from partners.models import Partner
from proposals import dataset, envelope
from proposals.calls import adapter
from proposals.models import Proposal
from proposals.serializers import SubmissionRequest
from proposals.statuses import NOT_LIVE
from providers.errors import BankFailure, OfferExpired, ProviderUnavailable

Phase = Proposal.Submission
#: How often a waiting request looks at its row, in seconds, if nobody tells it anything.
LOOK_EVERY_S = 1.0
#: An attempt that no worker took within this many seconds may be published again: its task may be lost.
LOST_AFTER_S = 5.0
_UNKNOWN = "O resultado do envio ainda não é conhecido. Repita a chamada em instantes: nada será enviado em dobro."


class OtherData(InvalidState):
    """The offer has the proposal `proposal_id`, with other data than the request. `field` is the first."""

    def __init__(self, proposal_id: str, field: str) -> None:
        super().__init__(
            f"A proposta {proposal_id} desta oferta já foi enviada, ou está em envio, com outro valor neste campo. "
            "Nada foi alterado.",
            field=field,
        )
        self.with_facts(proposal_id=proposal_id)


def validated(partner: Partner, body: dict[str, Any]) -> dict[str, Any]:
    """The dataset in a submission's JSON body. Raises NotFound for a bank outside the contract, and InvalidInput that
    names every fault of its form and, as far as its valid part allows, every fault that its bank and its offer find."""
    try:
        data = validation.validated(SubmissionRequest, body)
    except InvalidInput as fault:
        part = validation.valid_part(SubmissionRequest, body)
        provider = (part.get("offer_ref") or {}).get("provider") or ""
        if partner.allowed_bank(provider) is None:
            raise  # reveal nothing about a bank outside the contract
        further = dataset.faults_of_part(partner, adapter(provider), part, fault.details)
        raise InvalidInput(details=[*fault.details, *further]) from None
    if partner.allowed_bank(data["offer_ref"]["provider"]) is None:
        raise NotFound
    return data


def submit(partner: Partner, data: dict[str, Any], request_id: str) -> tuple[Proposal, bool]:
    """The proposal for the validated dataset `data`, and True if this request had the bank make it.

    Raises InvalidInput before any call, OtherData if the offer has a proposal with other data, and the bank's own
    refusal. Raises ProviderUnavailable while the outcome is unknown; a repeat is then safe. An error about a stored
    proposal contains its `proposal_id`, and its `reason` if it has ended. OfferExpired also contains the `replacement`,
    an offer that may take the expired one's place.
    """
    (submitted, name), provider = _split(data), data["offer_ref"]["provider"]
    bank = adapter(provider)
    named = offers.named(partner, provider, data["offer_ref"]["offer_id"])
    offer = dataset.check(bank, data, named)
    deadline = time.monotonic() + settings.PROPOSAL_WAIT_S
    claimed, is_ours = _claim_attempt(offer, submitted, name, request_id)
    if claimed.submission != Phase.ACCEPTED:
        _await_outcome(claimed, deadline, publishes=is_ours)
    proposal = Proposal.objects.get(pk=claimed.pk)
    if is_ours and proposal.submission == Phase.SENDING:
        claimed.give_back_attempt()
        proposal.refresh_from_db()
    if proposal.submission == Phase.ACCEPTED:
        # The bank may have an earlier dataset than this request's.
        refuse_other_data(proposal, proposal.dataset, submitted)
        return proposal, is_ours and not proposal.was_found()
    error = error_of(proposal).with_facts(proposal_id=str(proposal.pk))
    if proposal.reason:
        error.with_facts(reason=proposal.reason)
    if isinstance(error, OfferExpired):
        error.with_facts(replacement=offers.replacement(offer))
    raise error


def error_of(proposal: Proposal) -> ApiError:
    """The error that tells the partner why the submission led to no proposal."""
    if proposal.error:
        error = error_from_dict(proposal.error)
        return ProviderUnavailable() if isinstance(error, BankFailure) else error
    is_open = proposal.submission in (Phase.SENDING, Phase.UNKNOWN)
    return ProviderUnavailable(_UNKNOWN if is_open else None)


def _claim_attempt(offer: Offer, submitted: dict[str, Any], name: str, request_id: str) -> tuple[Proposal, bool]:
    """The live proposal of this offer, and True if this request must have it sent: if no proposal existed, or if no
    other process is sending it (the last attempt never arrived, its outcome is unknown, or its lease expired). `name`
    is the partner's own name. Raises OtherData if the proposal has other data than `submitted`, and the bank has it,
    may have it or will get it."""
    while True:
        now = timezone.now()
        until = now + timedelta(seconds=settings.PROPOSAL_WAIT_S)
        live = Proposal.objects.filter(partner=offer.partner_id, offer=offer).exclude(status__in=NOT_LIVE).first()
        if live is None or live.submission == Phase.NOT_SENT:
            dataset.check_authorized(offer)
        if live is None:
            try:
                return Proposal.begin_first_attempt(offer, submitted, request_id, until, name), True
            except IntegrityError:
                if not Offer.objects.filter(pk=offer.pk).exists():
                    # The offer was erased after this request had read it.
                    raise InvalidInput(dataset.UNKNOWN_OFFER, field=dataset.OFFER) from None
                continue  # another request was first; use its row
        if not live.is_replaceable(now):
            refuse_other_data(live, live.next_dataset or live.dataset, submitted)
        if live.submission == Phase.ACCEPTED or live.is_held(now):
            live.rename(name)
            return live, False
        if live.begin_next_attempt(submitted, request_id, until, name):
            return live, True


def refuse_other_data(proposal: Proposal, stored: dict[str, Any], submitted: dict[str, Any]) -> None:
    """Raise OtherData on the first field in which `submitted` differs from `stored`, the dataset of `proposal`. If the
    bank has the proposal, the error contains its last known status and the possible next actions."""
    field = dataset.first_difference(SubmissionRequest(), stored, submitted)
    if field is None:
        return
    error = OtherData(str(proposal.pk), field)
    if proposal.submission == Phase.ACCEPTED:
        error.with_facts(status=proposal.status, next_actions=envelope.next_actions(proposal))
    raise error


def _split(data: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The dataset as a row stores it, and `partner_reference` (may be empty). The reference is not part of the dataset:
    banks do not get it, and a different reference does not make a different submission."""
    submitted = msgspec.to_builtins(data)
    return submitted, submitted.pop("partner_reference", None) or ""


def _await_outcome(proposal: Proposal, deadline: float, *, publishes: bool) -> None:
    """Have a worker send the current attempt if `publishes`, and wait until it has its outcome, at most until
    `deadline` (monotonic seconds). The row tells; what the worker tells only says when to look. While no worker has
    taken the attempt, one of the waiting requests publishes the task again, because it may be lost."""
    task, published_at = ("proposals.tasks.submit", (str(proposal.pk),)), time.monotonic()
    sending = Proposal.objects.filter(pk=proposal.pk, attempts=proposal.attempts, submission=Phase.SENDING)

    @outlasts_restart
    def look_at_row() -> Any:
        return sending.values("taken_at").first()

    for message in workers.hear(str(proposal.pk), deadline, LOOK_EVERY_S, task=task if publishes else None):
        row = look_at_row()
        connection.close()
        if row is None or (message is not None and message[0] == workers.FAILED):
            return
        is_lost = row["taken_at"] is None and time.monotonic() - published_at >= LOST_AFTER_S
        if (is_lost or not publishes) and _claim_retry(proposal):
            publishes, published_at = True, time.monotonic()
            left = deadline - published_at
            workers.publish(*task, expires_s=left, patience_s=min(left, workers.BROKER_PATIENCE_S))


def _claim_retry(proposal: Proposal) -> bool:
    """Claim to publish the task of the current attempt again. Returns True for the first process, and again after
    `LOST_AFTER_S`. Also without Redis, because an additional copy does no harm."""
    try:
        return bool(redis().set(f"asked:{proposal.pk}:{proposal.attempts}", 1, nx=True, ex=math.ceil(LOST_AFTER_S)))
    except RedisError:
        return True
