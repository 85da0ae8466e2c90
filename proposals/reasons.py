"""The reasons for a proposal's end without payment, and for a stage that lasts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from providers import registry
from providers.bank import Bank
from providers.errors import OfferExpired
from providers.reasons import Reason, ReasonCode, ReasonSource
from providers.types.proposal import BankProposal, ProposalStatus, StageReport


def of_refusal(provider: str, error: Mapping[str, Any]) -> Reason:
    """Why the bank refused a submission. `error` is ProviderRejected or OfferExpired as the row keeps it."""
    if error["code"] == OfferExpired.code:
        return Reason.of(ReasonCode.OFFER_EXPIRED)
    return (registry.get(provider) or Bank).reason(error["message"], error["native_code"])


def of_refused(provider: str, reported: BankProposal) -> Reason | None:
    """Why the bank refused a proposal after its submission, as the bank reports it now. None if the proposal is not
    refused or the bank gives no reason."""
    if reported.status is not ProposalStatus.REJECTED or not reported.reason:
        return None
    return (registry.get(provider) or Bank).reason(reported.reason, reported.reason_code)


def of_stage(provider: str, told: StageReport) -> Reason | None:
    """Why the bank still waits, retryable if it tries again by itself. None while nothing is wrong."""
    if not told.reason:
        return None
    return replace((registry.get(provider) or Bank).reason(told.reason, told.reason_code), retryable=told.is_retried)


def of_move(before: str, after: ProposalStatus, *, by_partner: bool, word: str) -> Reason | None:
    """Why a proposal moved from the status `before` to `after`, whose native word is `word`. Most banks give only the
    word, but the status before the end shows who ended the proposal. None if `after` is not an end without payment."""
    match after:
        case ProposalStatus.CANCELLED:
            return Reason.of(ReasonCode.CANCELLED, source=None if by_partner else ReasonSource.BANK)
        case ProposalStatus.EXPIRED:
            return Reason.of(ReasonCode.SIGNATURE_EXPIRED)
        case ProposalStatus.REJECTED if before == ProposalStatus.AWAITING_SIGNATURE:
            return Reason.of(ReasonCode.SIGNATURE_REFUSED)
        case ProposalStatus.REJECTED if before == ProposalStatus.SIGNED:
            return Reason.of(ReasonCode.AVERBATION_REFUSED)
        case ProposalStatus.REJECTED if before == ProposalStatus.IN_ANALYSIS:
            return Reason.of(ReasonCode.CREDIT_POLICY)
        case ProposalStatus.REJECTED:
            return Reason.of(ReasonCode.OTHER, f"O banco encerrou a proposta. Situação no banco: {word}.")
    return None
