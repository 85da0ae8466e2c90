"""A submission to a bank: the holder, and where the money goes. Units as in `providers.types`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from providers.types.answer import BankOffer
from providers.types.query import BankQuery, Person


@dataclass(frozen=True)
class Holder:
    """`sex` is M or F; `marital_status` one of the contract's six words; `father_name` has two words or is None."""

    name: str
    cpf: str
    birth_date: date
    sex: str
    mother_name: str
    father_name: str | None = None
    nationality: str | None = None
    marital_status: str | None = None
    birth_city: str | None = None
    birth_state: str | None = None
    politically_exposed: bool | None = None


@dataclass(frozen=True)
class IdentityDocument:
    """The document as the partner declared it. Fields that were not declared are None."""

    number: str | None = None
    issuer: str | None = None
    issuer_state: str | None = None
    issued_on: date | None = None


@dataclass(frozen=True)
class Address:
    """`postal_code` is 8 digits, without a mask."""

    postal_code: str
    street: str
    number: str
    district: str
    city: str
    state: str
    complement: str | None = None


@dataclass(frozen=True)
class DeclaredEmployment:
    """The employment as the partner declared it. Fields that were not declared are None."""

    employer_cnpj: str | None = None
    employer_name: str | None = None
    job_title: str | None = None
    salary: Decimal | None = None
    margin: Decimal | None = None
    admission_date: date | None = None
    registration: str | None = None


@dataclass(frozen=True)
class BankAccount:
    """`bank` is a COMPE code. `kind` is corrente, poupanca or salario. Numbers have no mask."""

    bank: str
    branch: str
    number: str
    digit: str
    kind: str
    branch_digit: str | None = None


@dataclass(frozen=True)
class PixKey:
    """`kind` is cpf, telefone, email or aleatoria. A phone key is 10-11 digits without the country code."""

    kind: str
    key: str

    @property
    def international(self) -> str:
        """The key, a phone with `+55`, as the central bank's directory writes it."""
        return f"+55{self.key}" if self.kind == "telefone" else self.key


@dataclass(frozen=True)
class Disbursement:
    """Where a bank pays the money of a submission: exactly one of `account` and `pix` is set.

    `remark` is Portuguese, for the partner: how the bank deviates from the submission.
    """

    account: BankAccount | None = None
    pix: PixKey | None = None
    remark: str | None = None


@dataclass(frozen=True)
class PersonalReference:
    """`degree`: 0 spouse, 1 relative, 2 friend."""

    name: str
    phone: str
    degree: int = 1


@dataclass(frozen=True)
class BankSubmission:
    """A proposal to be created at a bank. `reference` is the service's own and the same at every attempt.

    `offer` is the chosen offer with the bank's newest identifiers. Exactly one of `account` and `pix` is set. `channel`
    (sms, whatsapp or None) is how the bank must deliver the signature URL.
    """

    reference: str
    offer: BankOffer
    holder: Holder
    phone: str
    email: str
    address: Address
    ip: str
    document: IdentityDocument = IdentityDocument()
    employment: DeclaredEmployment = DeclaredEmployment()
    account: BankAccount | None = None
    pix: PixKey | None = None
    references: tuple[PersonalReference, ...] = ()
    channel: str | None = None
    portfolio: str | None = None
    query: BankQuery | None = None

    @property
    def person(self) -> Person:
        return Person(self.holder.name, self.holder.cpf, self.holder.birth_date, self.phone, self.email)
