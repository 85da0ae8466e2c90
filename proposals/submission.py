"""A partner's submission: its checks, and the wait for its outcome.

The row is claimed (proposals/claim.py). A worker sends (proposals/sending.py). Submissions without an outcome are
checked later (proposals/sweep.py).
"""

import math
import time
from typing import Any

import msgspec
from django.conf import settings
from django.db import connection
from redis.exceptions import RedisError

from consultas import offers
from foundation import validation, workers
from foundation.database import outlasts_restart
from foundation.errors import ApiError, InvalidInput, NotFound, error_from_dict
from foundation.redis import redis
from partners.models import Partner
from proposals import claim, dataset
from proposals.calls import adapter
from proposals.models import Proposal
from proposals.serializers import SubmissionRequest
from providers.errors import BankFailure, OfferExpired, ProviderUnavailable

Phase = Proposal.Submission
#: How often a waiting request looks at its row, in seconds, if nobody tells it anything.
LOOK_EVERY_S = 1.0
#: An attempt that no worker took within this many seconds may be published again: its task may be lost.
LOST_AFTER_S = 5.0
_UNKNOWN = "O resultado do envio ainda não é conhecido. Repita a chamada em instantes: nada será enviado em dobro."


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

    Raises InvalidInput before any call, claim.OtherData if the offer has a proposal with other data, and the bank's own
    refusal. Raises ProviderUnavailable while the outcome is unknown; a repeat is then safe. An error about a stored
    proposal contains its `proposal_id`, and its `reason` if it has ended. OfferExpired also contains the `replacement`,
    an offer that may take the expired one's place.
    """
    (submitted, name), provider = _split(data), data["offer_ref"]["provider"]
    bank = adapter(provider)
    named = offers.named(partner, provider, data["offer_ref"]["offer_id"])
    offer = dataset.check(bank, data, named)
    deadline = time.monotonic() + settings.PROPOSAL_WAIT_S
    claimed, is_ours = claim.claim_attempt(offer, submitted, name, request_id)
    if claimed.submission != Phase.ACCEPTED:
        _await_outcome(claimed, deadline, publishes=is_ours)
    proposal = Proposal.objects.get(pk=claimed.pk)
    if is_ours and proposal.submission == Phase.SENDING:
        claimed.give_back_attempt()
        proposal.refresh_from_db()
    if proposal.submission == Phase.ACCEPTED:
        # The bank may have an earlier dataset than this request's.
        claim.refuse_other_data(proposal, proposal.dataset, submitted)
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
        is_lost = not publishes or time.monotonic() - published_at >= LOST_AFTER_S
        if row["taken_at"] is None and is_lost and _claim_retry(proposal):
            publishes, published_at = True, time.monotonic()
            left = deadline - published_at
            workers.publish(*task, expires_s=left, patience_s=min(left, workers.BROKER_PATIENCE_S))


def _claim_retry(proposal: Proposal) -> bool:
    """True if this process is to publish the task of the current attempt again: one process every `LOST_AFTER_S`. While
    Redis is away each may, because an additional copy does no harm."""
    try:
        return bool(redis().set(f"asked:{proposal.pk}:{proposal.attempts}", 1, nx=True, ex=math.ceil(LOST_AFTER_S)))
    except RedisError:
        return True
