"""A holder's query to a bank. Units as in `providers.types`."""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property

#: The parts of a query that are evidence of the holder's acceptance and that a bank may have no field for.
EVIDENCE = (
    "user_agent",
    "device_model",
    "platform",
    "authorization_reference",
    "geolocation",
    "app_authorization",
)


@dataclass(frozen=True)
class Geolocation:
    """WGS 84 degrees. `accuracy` is in metres, if the device reported it."""

    lat: Decimal
    lng: Decimal
    accuracy: Decimal | None = None


@dataclass(frozen=True)
class AppEvidence:
    """Evidence of an acceptance in the partner's app. None means "not collected"."""

    user_agent: str | None = None
    operational_system: str | None = None
    device_model: str | None = None
    device_name: str | None = None
    device_type: str | None = None
    geolocation: Geolocation | None = None


@dataclass(frozen=True)
class AppAuthorization:
    """`app_authorization` of a query: stronger evidence, for banks that accept it."""

    authorization_id: str | None = None
    signature_date: str | None = None
    evidence: AppEvidence | None = None


@dataclass(frozen=True)
class Person:
    """What a query and a submission both say of the holder. `phone` is 10-11 digits without the country code."""

    name: str
    cpf: str
    birth_date: date
    phone: str
    email: str

    @property
    def area_code(self) -> str:
        return self.phone[:2]

    @property
    def local_number(self) -> str:
        """The phone without its area code."""
        return self.phone[2:]


@dataclass(frozen=True)
class BankQuery:
    """A holder's query, the same for every bank.

    `sex` is 0 (not given), 1 (male) or 2 (female). `installments` is the desired term in months; it is always set if an
    amount or an installment is requested. `portfolio` is the origination identifier (`originador`) of the contract or
    the call, or None.

    The other fields are evidence of the holder's acceptance. None means "not known" and is never filled in. `client_ip`
    and `accepted_at` are always set: `accepted_at` is the time recorded by the authorization session, otherwise the
    time of the partner's call.
    """

    cpf: str
    name: str
    birth_date: date
    phone: str
    email: str
    client_ip: str
    sex: int = 0
    geolocation: Geolocation | None = None
    user_agent: str | None = None
    device_model: str | None = None
    platform: str | None = None
    accepted_at: datetime | None = None
    authorization_reference: str | None = None
    app_authorization: AppAuthorization | None = None
    portfolio: str | None = None
    loan_value: Decimal | None = None
    installment_value: Decimal | None = None
    installments: int | None = None
    with_insurance: bool = True

    @property
    def wish(self) -> str:
        """What to simulate: `loan_value`, else `installment_value`, else the `maximum`."""
        if self.loan_value is not None:
            return "loan_value"
        return "maximum" if self.installment_value is None else "installment_value"

    @property
    def amount(self) -> Decimal | None:
        """The amount or the installment of the wish."""
        return self.installment_value if self.loan_value is None else self.loan_value

    @cached_property
    def person(self) -> Person:
        return Person(self.name, self.cpf, self.birth_date, self.phone, self.email)
