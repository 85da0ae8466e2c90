"""Decides whether two submissions of one offer are the same, or the second would change the contract."""

from collections.abc import Iterator
from typing import Any

from rest_framework.serializers import BaseSerializer, ListSerializer

from foundation.errors import InvalidState
from proposals import envelope
from proposals.dataset import declared
from proposals.models import Proposal
from proposals.serializers import SubmissionRequest


def refuse_other_data(proposal: Proposal, stored: dict[str, Any], submitted: dict[str, Any]) -> None:
    """Raise OtherData on the first field in which `submitted` differs from `stored`, the dataset of `proposal`. If the
    bank has the proposal, the error contains its last known status and the possible next actions."""
    field = first_difference(stored, submitted)
    if field is None:
        return
    error = OtherData(str(proposal.pk), field)
    if proposal.submission == Proposal.Submission.ACCEPTED:
        error.with_facts(status=proposal.status, next_actions=envelope.next_actions(proposal))
    raise error


class OtherData(InvalidState):
    """The offer has the proposal `proposal_id`, with other data than the request. `field` is the first."""

    def __init__(self, proposal_id: str, field: str) -> None:
        super().__init__(
            f"A proposta {proposal_id} desta oferta já foi enviada, ou está em envio, com outro valor neste campo. "
            "Nada foi alterado.",
            field=field,
        )
        self.with_facts(proposal_id=proposal_id)


def first_difference(stored: dict[str, Any], submitted: dict[str, Any]) -> str | None:
    """The first field, in the contract's order, in which banks would receive something else for the datasets `stored`
    and `submitted`: dotted, or the name of a block that only one of the two has. None if both are the same submission:
    the offer, whichever id the body used, and the evidence of one call do not distinguish submissions."""
    one, other = declared(stored), declared(submitted)
    fields = (field for field in _differences(SubmissionRequest(), one, other) if not field.startswith("evidencia."))
    return next(fields, None)


def _differences(block: BaseSerializer[Any], one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    for name, field in block.fields.items():  # type: ignore[attr-defined]  # a block's
        mine, theirs = one.get(name), other.get(name)
        if mine == theirs:
            continue
        if not (mine and theirs and isinstance(field, BaseSerializer)):
            yield name
        elif isinstance(field, ListSerializer):
            if len(mine) != len(theirs):
                yield name
            item: Any = field.child
            for index, pair in enumerate(zip(mine, theirs, strict=False)):
                yield from (f"{name}.{index}.{inner}" for inner in _differences(item, *pair))
        else:
            yield from (f"{name}.{inner}" for inner in _differences(field, mine, theirs))
