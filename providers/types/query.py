"""A holder's query to a bank, and the bank's answer: offers, employments, or a step of the holder. Units as in
`providers.types`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Self

import msgspec
from django.db.models import TextChoices

from foundation.formats import BRASILIA, sentence
from providers import price
from providers.limits import MAX_AMOUNT, MAX_INSTALLMENTS, MAX_NATIVE_ID, MAX_RATE, TEXT_LENGTHS, check_text, rounded

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
        return self.phone[2:]


@dataclass(frozen=True)
class BankQuery:
    """A holder's query, the same for every bank.

    `sex` is 0 (not given), 1 (male) or 2 (female). `installments` is the desired term in months; it is always set if an
    amount or an installment is requested. `portfolio` is the `originador` of the contract or the call, or None.

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


class QueryStatus(TextChoices):
    """The status of a query at one bank, as the contract spells it, and in words for operators."""

    OK = "ok", "com ofertas"
    NO_OFFERS = "no_offers", "sem ofertas"
    REQUIRES_ACTION = "requires_action", "falta um passo do titular"
    PENDING = "pending", "aguardando o titular"
    ERROR = "error", "erro ou recusa"


class ActionType(TextChoices):
    """The step that the holder still owes, as the contract spells it, and in words for operators."""

    SIGNATURE = "signature", "assinatura"
    BIOMETRICS = "biometria", "prova de vida"
    PAYROLL_DATA = "dataprev", "autorização por SMS (Dataprev)"
    CHAT_LINK = "whatsapp_link", "confirmação no WhatsApp"
    FORMALIZATION = "formalization", "formalização"


class StepOutcome(TextChoices):
    """The state of an external step, as `check` found it, and in words for operators."""

    OPEN = "open", "aguardando o titular"
    APPROVED = "approved", "concluído"
    REFUSED = "refused", "recusado"
    EXPIRED = "expired", "expirado"


@dataclass(frozen=True)
class BankAction:
    """An external step that the holder owes. `reference` is the bank's id of the step, which `check` takes.
    `expires_at` is when the bank abandons the step, if the bank says so. Raises ValueError for a reference beyond
    `providers.limits`."""

    type: ActionType
    url: str | None
    detail: str
    reference: str
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        check_text(self.reference, MAX_NATIVE_ID)


@dataclass(frozen=True)
class Employment:
    """An employment (vínculo) as a bank reports it. `margin` is None if the bank does not report it.

    Raises ValueError for a margin beyond `providers.limits`.
    """

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
    """One normalized offer: amounts with two decimals, the rate with at most 6. `registration` names the employment.
    `native` holds the bank's other identifiers of the offer, and the monthly cost that the bank itself gives.

    An adapter sets the price facts that its bank gives, and None for the others: `cet_monthly` and `cet_annual` in
    percent, `iof` and `insurance_value` in reais, `valid_until`. `price.complete_cet` computes missing CET values and
    `cet_source`. `quoted_at` is when the bank's answer was read. Raises ValueError for values beyond
    `providers.limits`.
    """

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
    quoted_at: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False)

    def __post_init__(self) -> None:
        values = vars(self)  # a frozen dataclass has no faster way: a query makes dozens of offers
        for name in ("loan_value", "installment_value", "total_amount"):
            values[name] = rounded(values[name], 2, MAX_AMOUNT)
        values["interest_rate"] = rounded(self.interest_rate, 6, MAX_RATE)
        if not 0 < self.installments <= MAX_INSTALLMENTS:
            raise ValueError("a bank's term beyond the limits")
        for name, length in TEXT_LENGTHS.items():
            check_text(getattr(self, name), length)  # msgspec leaves a default where it is, at the class
        if b"\\u0000" in msgspec.json.encode(self.native):  # PostgreSQL takes it nowhere, however deep
            raise ValueError("a bank's text beyond the limits")
        for name in ("iof", "insurance_value"):
            if (value := getattr(self, name)) is not None:
                values[name] = rounded(value, 2, MAX_AMOUNT)
        if self.cet_source is None:
            values |= self._cost()

    def _cost(self) -> dict[str, Any]:
        """The CET that the bank gives, or else the computed one, and which of them it is."""
        cost: dict[str, Any] = {}
        if self.cet_monthly is not None:
            cost["native"] = {**self.native, "cetMonthlyPercent": str(self.cet_monthly)}
        told = price.complete_cet(self.cet_monthly, self.cet_annual)
        monthly, annual = told or self._computed_cet() or (None, None)
        if monthly is not None:
            cost["cet_source"] = price.CetSource.BANK if told else price.CetSource.COMPUTED
        return cost | {"cet_monthly": monthly, "cet_annual": annual}

    def comparable_cet(self) -> tuple[Decimal | None, Decimal | None]:
        """The CET in percent a month and percent a year by the law's formula, whatever the bank reports, so that offers
        of two banks can be compared. None if that is impossible."""
        if self.cet_source is price.CetSource.COMPUTED:
            return self.cet_monthly, self.cet_annual
        return self._computed_cet() or (None, None)

    def _computed_cet(self) -> tuple[Decimal, Decimal] | None:
        if self.first_due_date is None:
            return None
        quoted_on = self.quoted_at.astimezone(BRASILIA).date()
        return price.cet(self.loan_value, self.installment_value, self.installments, quoted_on, self.first_due_date)


@dataclass(frozen=True)
class BankResult:
    """A bank's answer to a query or to a check of an open step.

    `status` is never ERROR, because failures and refusals are raised (see `providers.errors`). `reasons` are the bank's
    own sentences, cleaned by `formats.sentence`; empty ones are dropped. `codes` has the bank's own code of a sentence.
    `step` is the state of the external step, or None if the answer names none.
    """

    status: QueryStatus
    offers: tuple[BankOffer, ...] = ()
    employments: tuple[Employment, ...] = ()
    action: BankAction | None = None
    step: StepOutcome | None = None
    reasons: tuple[str, ...] = ()
    codes: Mapping[str, str] = field(default_factory=dict)
    term_auto_authorized: bool = False

    def __post_init__(self) -> None:
        sentences = (sentence(reason) for reason in self.reasons)
        object.__setattr__(self, "reasons", tuple(reason for reason in sentences if reason))

    @classmethod
    def answer(
        cls,
        offers: Iterable[BankOffer],
        employments: Iterable[Employment],
        reasons: Iterable[str | tuple[str, str] | None] = (),
        *,
        term_auto_authorized: bool = False,
    ) -> Self:
        """The answer of a bank that looked for offers: OK with offers, NO_OFFERS without.

        Reasons are dropped if there are offers, because they would not explain why there are none; one is a sentence,
        or a pair of the bank's code and its sentence. An offer without an amount, an installment or a total above zero
        is dropped: some banks compute one for a request of a few cents, and it cannot be submitted. Of employments with
        the same employer and registration one is kept.
        """
        usable = tuple(each for each in offers if min(each.loan_value, each.installment_value, each.total_amount) > 0)
        told = [("", each) if isinstance(each, str) else each for each in reasons if each and not usable]
        return cls(
            QueryStatus.OK if usable else QueryStatus.NO_OFFERS,
            offers=usable,
            employments=tuple({(each.employer_cnpj, each.registration): each for each in employments}.values()),
            reasons=tuple(words for _, words in told),
            codes={sentence(words): code for code, words in told if code},
            term_auto_authorized=term_auto_authorized,
        )

    @classmethod
    def waiting(cls, action: BankAction, *, term_auto_authorized: bool = False) -> Self:
        """The answer of a bank that waits for the holder."""
        needs_link = action.type is not ActionType.PAYROLL_DATA
        status = QueryStatus.REQUIRES_ACTION if needs_link else QueryStatus.PENDING
        return cls(status, action=action, step=StepOutcome.OPEN, term_auto_authorized=term_auto_authorized)

    @classmethod
    def ended(cls, step: StepOutcome, reason: str | None) -> Self:
        return cls(QueryStatus.NO_OFFERS, step=step, reasons=(reason,) if reason else ())
