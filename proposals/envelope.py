"""A proposal as JSON: the envelope of every route, and the events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foundation.errors import error_from_dict
from foundation.formats import iso_utc, mask_account, mask_phone
from foundation.shapes import Shape
from proposals import dataset, shapes
from proposals.dataset import CHANNELS
from proposals.statuses import UNKNOWN, WITHDRAWN
from providers import registry
from providers.bank import Bank
from providers.types.proposal import ProposalStatus

if TYPE_CHECKING:
    from proposals.models import Proposal


def shown(proposal: Proposal, error: dict[str, Any] | None = None) -> shapes.Proposal:
    """A proposal as every route shows it. `error`, if given, replaces the stored one."""
    return shapes.Proposal.of(
        proposal,
        **_facts(proposal),
        proposal_id=proposal.pk,
        status=proposal.shown_status,
        offer=proposal.terms,
        action=_action(proposal),
        error=error or (error_from_dict(proposal.error).as_dict() if proposal.error else None),
        provider_data={
            **proposal.data,
            "nativeProposalId": proposal.native_id or None,
            "nativeStatus": proposal.native_status or None,
        },
    )


def detail(proposal: Proposal, error: dict[str, Any] | None) -> shapes.ProposalDetail:
    """A proposal with every status it had, oldest first. The reason of an end without payment stands beside it."""
    moves = [move for move in proposal.moves.all() if move.to_status != WITHDRAWN]
    history = [shapes.ProposalHistory.of(move, status=move.to_status) for move in moves]
    return shapes.ProposalDetail.of(shown(proposal, error), history=history)


def event(proposal: Proposal, previous: str) -> Shape:
    """The event's own fields. `previous` is the status before the move; empty for the first one, and for an event that
    tells no move.

    The signature URL is left out, because the receiver may log the event, and anyone with the URL may sign.
    """
    action = _action(proposal)
    return shapes.ProposalEvent.of(
        proposal,
        **_facts(proposal),
        external_reference=proposal.pk,
        previous_status=previous or None,
        action=action and shapes.SignatureNotice.of(action),
    )


def _facts(proposal: Proposal) -> dict[str, Any]:
    """The fields that envelope and events share, where they are not the row's as they are. Null where the bank gives no
    value."""
    is_paid = proposal.status == ProposalStatus.DISBURSED
    at, amount = proposal.disbursed_at, proposal.disbursed_amount
    return {
        "partner_reference": proposal.partner_reference or None,
        "stage": proposal.stage or None,
        "next_actions": next_actions(proposal),
        "recebimento": disbursement(proposal),
        "contract_number": proposal.contract_number or None,
        "disbursed_at": iso_utc(at) if is_paid and at else None,
        "disbursed_amount": float(amount) if is_paid and amount is not None else None,
        "withdrawal_until": proposal.withdrawal_until if is_paid else None,
    }


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


def disbursement(proposal: Proposal) -> shapes.Disbursement:
    """Where the bank pays the money, masked: the account's bank and last digits, or the kind of PIX key."""
    paid = dataset.disbursement(registry.get(proposal.provider) or Bank, proposal.dataset)
    account, pix = paid.account, paid.pix
    return shapes.Disbursement(
        conta_bancaria=shapes.PaidAccount(
            banco=account.bank, conta=mask_account(account.number), tipo_conta=account.kind
        )
        if account
        else None,
        pix=shapes.PaidPix(tipo_chave=pix.kind) if pix else None,
        observacao=paid.remark,
    )


def _action(proposal: Proposal) -> shapes.SignatureAction | None:
    url = proposal.usable_link()
    if url is None:
        return None
    delivered = proposal.channel in CHANNELS
    expires_at = proposal.signature_expires_at
    return shapes.SignatureAction(
        type="signature",
        url=url,
        expires_at=iso_utc(expires_at) if expires_at else None,
        delivery=shapes.Delivery(
            channel=proposal.channel if delivered else "link",
            destination=mask_phone(proposal.dataset["contato"]["telefone"]) if delivered else None,
        ),
    )
