"""A proposal as JSON tells it: the envelope of every route, and the events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from consultas import offer_json
from foundation.formats import iso_utc, mask_account, mask_phone
from proposals import dataset
from proposals.dataset import CHANNELS
from providers import registry
from providers.bank import Bank
from providers.types import ProposalStatus

if TYPE_CHECKING:
    from proposals.models import Proposal

NEXT_ACTIONS = ("formalize", "cancel", "wait", "none")


def shown(proposal: Proposal, error: dict[str, Any] | None = None) -> dict[str, Any]:
    """A proposal as every route shows it; `error` stands in for the stored one where given."""
    return {
        "proposal_id": str(proposal.pk),
        "provider": proposal.provider,
        "status": proposal.status,
        "offer": offer_json.completed(proposal.terms),
        "action": _action(proposal),
        "next_actions": next_actions(proposal),
        "recebimento": _disbursement(proposal),
        "error": error or proposal.error,
        "reason": proposal.reason,
        "provider_data": {
            **proposal.data,
            "nativeProposalId": proposal.native_id or None,
            "nativeStatus": proposal.native_status or None,
        },
        "created_at": iso_utc(proposal.created_at),
        "updated_at": iso_utc(proposal.updated_at),
    }


def history(proposal: Proposal) -> list[dict[str, Any]]:
    """Every status that the proposal had, the first one first, and since when."""
    return [{"status": move.to_status, "at": iso_utc(move.at)} for move in proposal.moves.all()]


def next_actions(proposal: Proposal, refused: str = "") -> list[str]:
    """What the partner can do now: the calls that the status allows, without the one that was just `refused`; `wait`
    where it is the bank's turn, and `none` where nothing comes any more."""
    if proposal.is_final:
        return ["none"]
    may_formalize = proposal.status in (ProposalStatus.CREATED, ProposalStatus.AWAITING_SIGNATURE)
    bank = registry.get(proposal.provider) or Bank
    allowed = ["formalize"] if may_formalize and refused != "formalize" else ["wait"]
    return allowed + (["cancel"] if bank.cancels() and refused != "cancel" else [])


def _disbursement(proposal: Proposal) -> dict[str, Any]:
    """Where the bank pays the money, masked: the account's bank and last digits, or the kind of PIX key."""
    paid = dataset.disbursement(registry.get(proposal.provider) or Bank, proposal.dataset)
    account, pix = paid.account, paid.pix
    return {
        "conta_bancaria": account
        and {"banco": account.bank, "conta": mask_account(account.number), "tipo_conta": account.kind},
        "pix": pix and {"tipo_chave": pix.kind},
        "observacao": paid.remark,
    }


def _action(proposal: Proposal) -> dict[str, Any] | None:
    url = proposal.usable_link()
    if url is None:
        return None
    delivered = proposal.channel in CHANNELS
    return {
        "type": "signature",
        "url": url,
        "expires_at": proposal.signature_expires_at and iso_utc(proposal.signature_expires_at),
        "delivery": {
            "channel": proposal.channel if delivered else "link",
            "destination": mask_phone(proposal.dataset["contato"]["telefone"]) if delivered else None,
        },
    }
