"""A submission to a bank: the holder, and where the money goes; and a proposal as the bank reports it. Units as in
`providers.types`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from django.db.models import TextChoices

from foundation.formats import sentence
from providers.limits import MAX_NATIVE_ID, MAX_PAID, check_text, rounded
from providers.types.query import BankOffer, BankQuery, Person

#: A block of the contract's dataset, by its names: texts without masks, dates, Decimals; only what was declared.
Block = dict[str, Any]


@dataclass(frozen=True)
class Disbursement:
    """Where a bank pays the money of a submission: exactly one of `account` and `pix` is set, with the dataset's names.
    A phone key is 10-11 digits without the country code.

    `remark` is Portuguese, for the partner: how the bank deviates from the submission.
    """

    account: Block | None = None
    pix: Block | None = None
    remark: str | None = None


@dataclass(frozen=True, kw_only=True)
class BankSubmission:
    """A proposal to be created at a bank. `reference` is the service's own and the same at every attempt.

    `offer` is the chosen offer with the bank's newest identifiers. The blocks are those of the contract's dataset.
    `titular["nome_pai"]` has two words. `recebimento` has exactly one of `conta_bancaria` and `pix`.
    """

    reference: str
    offer: BankOffer
    titular: Block = field(default_factory=dict)
    documento: Block = field(default_factory=dict)
    contato: Block = field(default_factory=dict)
    endereco: Block = field(default_factory=dict)
    vinculo: Block = field(default_factory=dict)
    recebimento: Block = field(default_factory=dict)
    evidencia: Block = field(default_factory=dict)
    referencias: Sequence[Block] = ()
    portfolio: str | None = None
    query: BankQuery | None = None

    @cached_property
    def person(self) -> Person:
        holder, contact = self.titular, self.contato
        return Person(holder["nome"], holder["cpf"], holder["data_nascimento"], contact["telefone"], contact["email"])

    @property
    def paid(self) -> Disbursement:
        """Where the partner wants the money."""
        return Disbursement(self.recebimento.get("conta_bancaria"), self.recebimento.get("pix"))


#: The blocks of the dataset.
BLOCKS = ("titular", "documento", "contato", "endereco", "vinculo", "recebimento", "evidencia", "referencias")
_PERSON = {
    "person.name": "titular.nome",
    "person.cpf": "titular.cpf",
    "person.birth_date": "titular.data_nascimento",
    "person.phone": "contato.telefone",
    "person.area_code": "contato.telefone",
    "person.local_number": "contato.telefone",
    "person.email": "contato.email",
}


def contract_name(name: str) -> str:
    """The dataset's name of a submission's value, such as `titular.cpf` of `person.cpf`. Empty if it has none."""
    return _PERSON.get(name) or (name if name.partition(".")[0] in BLOCKS else "")


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
    """What an open proposal waits for, as the contract spells it, in their order; and in words for operators."""

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
        if self.disbursed_amount is not None:
            object.__setattr__(self, "disbursed_amount", rounded(self.disbursed_amount, 2, MAX_PAID))
        check_text(self.native_status)
