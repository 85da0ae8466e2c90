"""A submission to a bank: the holder, and where the money goes. Units as in `providers.types`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from providers.types.answer import BankOffer
from providers.types.query import BankQuery, Person

#: A block of the contract's dataset (`proposals.serializers`), by its names: texts without masks, dates, Decimals. What
#: was not declared is left out.
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
