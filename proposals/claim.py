"""The one live proposal of an offer: which row a request works on, and whether this request must have it sent.

The row is committed before the bank is called. A unique index allows one live row per partner and offer. The states and
the reasons are in docs/decisions/0030-exactly-once-submission.md.
"""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError
from django.utils import timezone

from consultas.models import Offer
from foundation.errors import InvalidInput, InvalidState
from proposals import dataset, envelope
from proposals.models import Proposal
from proposals.serializers import SubmissionRequest
from proposals.statuses import NOT_LIVE

Phase = Proposal.Submission


class OtherData(InvalidState):
    """The offer has the proposal `proposal_id`, with other data than the request. `field` is the first."""

    def __init__(self, proposal_id: str, field: str) -> None:
        super().__init__(
            f"A proposta {proposal_id} desta oferta já foi enviada, ou está em envio, com outro valor neste campo. "
            "Nada foi alterado.",
            field=field,
        )
        self.with_facts(proposal_id=proposal_id)


def claim_attempt(offer: Offer, submitted: dict[str, Any], name: str, request_id: str) -> tuple[Proposal, bool]:
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
