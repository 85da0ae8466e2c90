"""A proposal as a bank reports it. Units as in `providers.types`."""

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.db.models import TextChoices

from foundation.formats import sentence
from providers.limits import MAX_NATIVE_ID, MAX_PAID, check_text, rounded


class ProposalStatus(TextChoices):
    """Normalized status of a proposal, as the contract spells it, and in words for operators."""

    CREATED = "created", "criada"
    IN_ANALYSIS = "in_analysis", "em análise"
    AWAITING_SIGNATURE = "awaiting_signature", "aguardando assinatura"
    SIGNED = "signed", "assinada"
    DISBURSED = "disbursed", "paga"
    REJECTED = "rejected", "recusada"
    CANCELLED = "cancelled", "cancelada"
    EXPIRED = "expired", "expirada"


class Stage(TextChoices):
    """What an open proposal waits for, as the contract spells it, in the order in which the stages come; and in words
    for operators."""

    ANALYSIS = "analysis", "análise"
    SIGNATURE = "signature", "assinatura"
    AVERBATION = "averbation", "averbação"
    DISBURSEMENT = "disbursement", "pagamento"


@dataclass(frozen=True)
class StageReport:
    """The stage as the bank names it, and `since` when, if it says. `reason` is its sentence for why the proposal still
    waits, cleaned by `formats.sentence`, and `reason_code` its code; None while nothing is wrong. `is_retried` is True
    if the bank tries again by itself."""

    stage: Stage
    since: datetime | None = None
    reason: str | None = None
    reason_code: str | None = None
    is_retried: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", sentence(self.reason or "") or None)


@dataclass(frozen=True)
class BankProposal:
    """A proposal as the bank reports it. `native_id` is the bank's identifier, `native_status` its status word.
    `reason` is its sentence for refusing the proposal, cleaned by `formats.sentence`, and `reason_code` its code.

    `stage` is None if the bank names none. The holder may withdraw until the day `withdrawal_until`, and did so at
    `withdrawn_at`; None where the bank does not say.

    `status` is None for an unknown word; the caller then keeps the status that it has. Raises ValueError for an
    identifier or a word beyond `providers.limits`. A long word is cut when it is stored.
    """

    native_id: str
    native_status: str
    status: ProposalStatus | None
    signature_url: str | None = None
    signature_expires_at: datetime | None = None
    disbursed_at: datetime | None = None
    disbursed_amount: Decimal | None = None
    contract_number: str | None = None
    reason: str | None = None
    reason_code: str | None = None
    stage: StageReport | None = None
    withdrawal_until: date | None = None
    withdrawn_at: datetime | None = None
    data: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", sentence(self.reason or "") or None)
        check_text(self.native_id, MAX_NATIVE_ID)
        check_text(self.contract_number or "", MAX_NATIVE_ID)
        rounded(self.disbursed_amount or Decimal(0), 2, MAX_PAID)
        check_text(self.native_status)
