"""A proposal as JSON: the envelope of every route, and the events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foundation.errors import error_from_dict
from foundation.formats import iso_utc, mask_account, mask_phone
from proposals import dataset
from proposals.dataset import CHANNELS
from proposals.statuses import UNKNOWN, WITHDRAWN
from providers import registry
from providers.bank import Bank
from providers.types.proposal import ProposalStatus

if TYPE_CHECKING:
    from proposals.models import Proposal

NEXT_ACTIONS = ("formalize", "cancel", "wait", "none")


def shown(proposal: Proposal, error: dict[str, Any] | None = None) -> dict[str, Any]:
    """A proposal as every route shows it. `error`, if given, replaces the stored one."""
    return {
        "proposal_id": str(proposal.pk),
        "partner_reference": proposal.partner_reference or None,
        "provider": proposal.provider,
        "status": proposal.shown_status,
        "offer": proposal.terms,
        "action": _action(proposal),
        "error": error or (error_from_dict(proposal.error).as_dict() if proposal.error else None),
        **_facts(proposal),
        "provider_data": {
            **proposal.data,
            "nativeProposalId": proposal.native_id or None,
            "nativeStatus": proposal.native_status or None,
        },
        "created_at": iso_utc(proposal.created_at),
        "updated_at": iso_utc(proposal.updated_at),
    }


def event(proposal: Proposal, previous: str) -> dict[str, Any]:
    """The event's own fields. `previous` is the status before the move; empty for the first one, and for an event that
    tells no move.

    The signature URL is left out, because the receiver may log the event, and anyone with the URL may sign.
    """
    action = _action(proposal)
    return {
        "provider": proposal.provider,
        "offer_id": str(proposal.offer_id),
        "partner_reference": proposal.partner_reference or None,
        "status": proposal.status,
        "previous_status": previous or None,
        "action": action and {name: value for name, value in action.items() if name != "url"},
        **_facts(proposal),
    }


def _facts(proposal: Proposal) -> dict[str, Any]:
    """The fields that envelope and events share. Null where the bank gives no value."""
    at, amount = proposal.disbursed_at, proposal.disbursed_amount
    is_paid = proposal.status == ProposalStatus.DISBURSED
    stage_since, until, withdrawn_at = proposal.stage_since, proposal.withdrawal_until, proposal.withdrawn_at
    return {
        "stage": proposal.stage or None,
        "stage_since": stage_since and iso_utc(stage_since),
        "stage_reason": proposal.stage_reason,
        "reason": proposal.reason,
        "next_actions": next_actions(proposal),
        "recebimento": disbursement(proposal),
        "contract_number": proposal.contract_number or None,
        "disbursed_at": iso_utc(at) if is_paid and at else None,
        "disbursed_amount": float(amount) if is_paid and amount is not None else None,
        "withdrawal_until": until.isoformat() if is_paid and until else None,
        "withdrawn_at": withdrawn_at and iso_utc(withdrawn_at),
    }


def history(proposal: Proposal) -> list[dict[str, Any]]:
    """Every status of the proposal, oldest first, with its time, and the reason for an end without payment."""
    moves = [move for move in proposal.moves.all() if move.to_status != WITHDRAWN]
    return [{"status": move.to_status, "at": iso_utc(move.at), "reason": move.reason} for move in moves]


def next_actions(proposal: Proposal, refused: str = "") -> list[str]:
    """What the partner can do now: the calls that the status allows, except the one that was just `refused`; `wait` if
    the bank must act; `none` if nothing more will happen."""
    if proposal.shown_status == UNKNOWN:
        return ["wait"]
    if proposal.is_final:
        return ["none"]
    may_formalize = proposal.status in (ProposalStatus.CREATED, ProposalStatus.AWAITING_SIGNATURE)
    bank = registry.get(proposal.provider) or Bank
    allowed = ["formalize"] if may_formalize and refused != "formalize" else ["wait"]
    return allowed + (["cancel"] if bank.cancels() and refused != "cancel" else [])


def disbursement(proposal: Proposal) -> dict[str, Any]:
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
