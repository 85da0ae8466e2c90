"""A query of a bank and its answer: what is asked, offers, employments, steps. Units as in `providers.types`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from foundation.formats import sentence
from providers import price
from providers.limits import MAX_AMOUNT, MAX_INSTALLMENTS, MAX_RATE, TEXT_LENGTHS, check_text, rounded


class QueryStatus(StrEnum):
    """Per-bank status of a query, as the contract spells it."""

    OK = "ok"
    NO_OFFERS = "no_offers"
    REQUIRES_ACTION = "requires_action"
    PENDING = "pending"
    ERROR = "error"


class ActionType(StrEnum):
    """What the holder still has to do, as the contract spells it."""

    SIGNATURE = "signature"
    BIOMETRICS = "biometria"
    PAYROLL_DATA = "dataprev"
    CHAT_LINK = "whatsapp_link"
    FORMALIZATION = "formalization"


class StepOutcome(StrEnum):
    """How an external step stands: what `check` found."""

    OPEN = "open"
    APPROVED = "approved"
    REFUSED = "refused"
    EXPIRED = "expired"


@dataclass(frozen=True)
class Geolocation:
    """WGS 84 degrees; `accuracy` in metres where the device told it."""

    lat: Decimal
    lng: Decimal
    accuracy: Decimal | None = None


@dataclass(frozen=True)
class AppEvidence:
    """Evidence of an acceptance in the partner's app: only what was collected. None means "not collected"."""

    user_agent: str | None = None
    operational_system: str | None = None
    device_model: str | None = None
    device_name: str | None = None
    device_type: str | None = None
    geolocation: Geolocation | None = None


@dataclass(frozen=True)
class AppAuthorization:
    """`app_authorization` of a query: raises the evidence strength at banks that accept it."""

    authorization_id: str | None = None
    signature_date: str | None = None
    evidence: AppEvidence | None = None

    @property
    def collected(self) -> AppEvidence:
        """The evidence, empty where none was collected."""
        return self.evidence or AppEvidence()


@dataclass(frozen=True)
class BankQuery:
    """A holder's query, the same for every bank.

    `sex`: 0 not told, 1 male, 2 female. `installments` is the desired term in months; where an amount or an
    installment is asked for it is always set. `portfolio` is the origination identifier of the contract or of
    the call (`originador`), else None.

    The rest is evidence of the holder's acceptance; None means "not known" and is never filled in. `client_ip` and
    `accepted_at` are always there: `accepted_at` is the time that the authorization session recorded, else that of the
    partner's call.
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


@dataclass(frozen=True)
class Employment:
    """An employment (vínculo) as a bank reports it. `margin` is None where the bank does not report it.

    Raises ValueError for a margin beyond `providers.limits`."""

    registration: str
    employer_cnpj: str
    employer_name: str
    job_title: str | None = None
    admission_date: date | None = None
    margin: Decimal | None = None

    def __post_init__(self) -> None:
        if self.margin is not None:
            object.__setattr__(self, "margin", rounded(self.margin, 2, MAX_AMOUNT))


@dataclass(frozen=True)
class BankOffer:
    """One offer, normalized: amounts in whole cents, the rate with at most 6 decimals. `registration` names the
    employment; `BankResult.answer` fills the employer in from there. `native` holds what else the bank names it by.

    An adapter gives what its bank says of the price: `cet_monthly` and `cet_annual` in percent, `iof` and
    `insurance_value` in reais, `valid_until`; None where the bank does not say. `price.settled` fills in what of the
    CET is missing, and `cet_source`. `quoted_at` is when the bank's answer was read.
    Raises ValueError beyond `providers.limits`."""

    native_offer_id: str
    loan_value: Decimal
    installment_value: Decimal
    installments: int
    interest_rate: Decimal
    total_amount: Decimal
    table_code: str
    with_insurance: bool
    first_due_date: date | None
    registration: str
    employer_cnpj: str = ""
    employer_name: str = ""
    native: dict[str, Any] = field(default_factory=dict)
    cet_monthly: Decimal | None = None
    cet_annual: Decimal | None = None
    cet_source: price.CetSource | None = None
    iof: Decimal | None = None
    insurance_value: Decimal | None = None
    valid_until: datetime | None = None
    quoted_at: datetime | None = field(default_factory=lambda: datetime.now(UTC), compare=False)

    def __post_init__(self) -> None:
        for name in ("loan_value", "installment_value", "total_amount"):
            object.__setattr__(self, name, rounded(getattr(self, name), 2, MAX_AMOUNT))
        object.__setattr__(self, "interest_rate", rounded(self.interest_rate, 6, MAX_RATE))
        if not 0 < self.installments <= MAX_INSTALLMENTS:
            raise ValueError("a bank's term beyond the limits")
        for name, length in TEXT_LENGTHS.items():
            check_text(getattr(self, name), length)
        for value in self.native.values():
            if isinstance(value, str):
                check_text(value)
        for name in ("iof", "insurance_value"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, rounded(value, 2, MAX_AMOUNT))
        if self.cet_source is None:
            for name, value in zip(("cet_monthly", "cet_annual", "cet_source"), price.settled(self), strict=True):
                object.__setattr__(self, name, value)


@dataclass(frozen=True)
class BankAction:
    """An external step that the holder still owes. `reference` is the bank's own name of the step, by which
    `check` asks for it again; `expires_at` is when the bank gives the step up, where it says so."""

    type: ActionType
    url: str | None
    detail: str
    reference: str
    expires_at: datetime | None = None


@dataclass(frozen=True)
class BankResult:
    """A bank's answer to a query or to a check of a pending step.

    `status` is never ERROR: a failure or a refusal is raised (see `providers.errors`). `reasons` are the bank's own
    words, cleaned by `formats.sentence`; empty ones are left out. `step` tells how the external step stands, None where
    the answer involved none.
    """

    status: QueryStatus
    offers: tuple[BankOffer, ...] = ()
    employments: tuple[Employment, ...] = ()
    action: BankAction | None = None
    step: StepOutcome | None = None
    reasons: tuple[str, ...] = ()
    term_auto_authorized: bool = False
    data: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        told = (sentence(reason) for reason in self.reasons)
        object.__setattr__(self, "reasons", tuple(reason for reason in told if reason))

    @classmethod
    def answer(
        cls,
        offers: Iterable[BankOffer],
        employments: Iterable[Employment],
        reasons: Iterable[str | None] = (),
        *,
        step: StepOutcome | None = None,
        term_auto_authorized: bool = False,
    ) -> BankResult:
        """The answer of a bank that looked for offers: OK with some, NO_OFFERS without.

        Every offer gets the employer of the employment with its registration. Reasons are left out where there are
        offers, since they are then no reasons for having none. An offer without an amount, an installment or a total
        above zero is left out: a bank may compute one for a few cents asked, and nobody can take it. Raises KeyError
        for an offer whose registration is not among `employments`.
        """
        by_registration = {each.registration: each for each in employments}
        found = tuple(
            replace(offer, employer_cnpj=work.employer_cnpj, employer_name=work.employer_name)
            for offer in offers
            if (work := by_registration[offer.registration])
            and min(offer.loan_value, offer.installment_value, offer.total_amount) > 0
        )
        return cls(
            QueryStatus.OK if found else QueryStatus.NO_OFFERS,
            offers=found,
            employments=tuple(by_registration.values()),
            step=step,
            reasons=() if found else tuple(reason for reason in reasons if reason),
            term_auto_authorized=term_auto_authorized,
        )

    @classmethod
    def ended(cls, step: StepOutcome, reason: str | None) -> BankResult:
        """The external step ended, and not with an approval."""
        return cls(QueryStatus.NO_OFFERS, step=step, reasons=(reason,) if reason else ())
