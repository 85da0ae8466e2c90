"""ipe, the service's own bank: OAuth2, JSON in English, monthly rates as fractions, dates with microseconds.

The manual is docs/banks/ipe.md.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from msgspec import Struct

from foundation.errors import ApiError
from foundation.formats import path_to, split_phone
from providers.bank import WHOLE_DOCUMENT, Bank, Limits, basic_auth
from providers.errors import refusal_by_status
from providers.http import Reply
from providers.tokens import Token
from providers.types import given
from providers.types.answer import BankOffer, BankResult, Employment
from providers.types.proposal import BankProposal
from providers.types.query import BankQuery, Person
from providers.types.submission import BankSubmission

DEBTS = "/v1/private_payroll/debts"
TIMESTAMP = "%Y-%m-%dT%H:%M:%S.%fZ"


class AccessToken(Struct):
    access_token: str
    expires_in: int


class Relationship(Struct):
    registration_number: str
    employer_document_number: str
    employer_name: str
    job_title: str | None
    admission_date: str
    consigned_credit_balance: Decimal


class Rate(Struct):
    monthly_rate: Decimal


class Simulation(Struct):
    simulation_key: str
    registration_number: str
    table_code: str
    disbursed_amount: Decimal
    installment_face_value: Decimal
    number_of_installments: int
    total_amount: Decimal
    prefixed_interest_rate: Rate
    with_insurance: bool
    first_due_date: str
    cet: Decimal | None = None
    annual_cet: Decimal | None = None
    iof_amount: Decimal | None = None
    insurance_amount: Decimal | None = None
    valid_until: str | None = None


class Reason(Struct):
    description: str


class Simulations(Struct):
    employment_relationships: list[Relationship]
    simulations: list[Simulation]
    reasons: list[Reason]


class Signature(Struct):
    url: str
    expires_at: str | None


class Payment(Struct):
    paid_at: str
    amount: Decimal


class Withdrawal(Struct):
    allowed_until: str
    withdrawn_at: str | None


class Debt(Struct):
    debt_key: str
    status: str
    signature: Signature | None
    contract_number: str | None = None
    payment: Payment | None = None
    refusal_reason: str | None = None
    withdrawal: Withdrawal | None = None


class Debts(Struct):
    debts: list[Debt]


class Fault(Struct):
    code: str
    translation: str


class Ipe(Bank):
    name = "ipe"
    label = "Ipê"
    credentials = {"client_id": "Identificador de cliente", "client_secret": "Segredo de cliente"}
    runs_auctions = True
    tells_withdrawals = True
    required = (
        *WHOLE_DOCUMENT,
        "titular.estado_civil",
        "titular.exposicao_politica",
    )
    deduplicates = True
    limits = Limits(texts={"documento.numero": 20, "documento.orgao_emissor": 20})
    evidence_without_place = frozenset({"platform", "app_authorization"})

    # --- authentication and errors

    def login(self, old: Token | None) -> Token:
        user = self.connection.credentials
        reply = self.exchange(
            "POST",
            "/oauth2/token",
            form={"grant_type": "client_credentials"},
            headers=basic_auth(user["client_id"], user["client_secret"]),
        )
        token = reply.read(AccessToken)
        return Token.lasting(token.access_token, token.expires_in)

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if not 400 <= reply.status < 500:
            return None
        return refusal_by_status(reply.status, reply.read(Fault).translation)

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        # A query has no side effect at this bank, so it may be sent again after a broken connection.
        reply = self.call("POST", "/v1/private_payroll/simulations", json=_query_body(query), safe=True)
        answer = reply.read(Simulations)
        employments = map(_employment, answer.employment_relationships)
        reasons = (reason.description for reason in answer.reasons)
        return BankResult.answer(map(_offer, answer.simulations), employments, reasons)

    def auction_proposal(self, key: str) -> dict[str, Any]:
        path = path_to("/v1/private_payroll/auction_proposals", key)
        return self.call("GET", path, safe=True).read(dict[str, Any])

    # --- proposal

    def submit(self, submission: BankSubmission) -> BankProposal:
        reply = self.call("POST", DEBTS, json=_submission_body(submission))
        return self._proposal(reply.read(Debt))

    def find(self, reference: str) -> BankProposal | None:
        path = path_to(DEBTS, requester_identifier_key=reference)
        return self.first_of(map(self._proposal, self.call("GET", path, safe=True).read(Debts).debts), reference)

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        body = {"signature_delivery": channel} if channel else {}
        return self._proposal(self.call("POST", path_to(DEBTS, native_id, "issue"), json=body, safe=True).read(Debt))

    def status(self, native_id: str) -> BankProposal:
        return self._proposal(self.call("GET", path_to(DEBTS, native_id), safe=True).read(Debt))

    def cancel(self, native_id: str, reason: str | None) -> BankProposal:
        body = {"reason": reason or "Cancelamento a pedido do titular."}
        return self._proposal(self.call("POST", path_to(DEBTS, native_id, "cancel"), json=body, safe=True).read(Debt))

    def _proposal(self, debt: Debt) -> BankProposal:
        signature, payment, withdrawal = debt.signature, debt.payment, debt.withdrawal
        expires_at = signature.expires_at if signature else None
        withdrawn_at = withdrawal.withdrawn_at if withdrawal else None
        return self.proposal(
            debt.debt_key,
            debt.status,
            link=signature.url if signature else None,
            link_ends_at=_moment(expires_at) if expires_at else None,
            contract_number=debt.contract_number,
            disbursed_at=_moment(payment.paid_at) if payment else None,
            disbursed_amount=payment.amount if payment else None,
            reason=debt.refusal_reason,
            withdrawal_until=_moment(withdrawal.allowed_until).date() if withdrawal else None,
            withdrawn_at=_moment(withdrawn_at) if withdrawn_at else None,
        )


def _query_body(query: BankQuery) -> dict[str, Any]:
    gender = Ipe.words.sex(query.sex)
    place = query.geolocation
    return {
        "borrower": {
            **_person(query.person),
            **({"gender": gender} if gender else {}),
        },
        "authorization_term": {
            "signature": {
                "authentication_type": "opt_in",
                "authenticity": {
                    "ip_address": query.client_ip,
                    "timestamp": given(query.accepted_at).astimezone(UTC).strftime(TIMESTAMP),
                    # The bank requires these fields, with null for evidence that was not collected.
                    "session_id": query.authorization_reference,
                    "user_agent": query.user_agent,
                    "device_model": query.device_model,
                    "geolocation": {"latitude": place.lat, "longitude": place.lng} if place else None,
                },
            }
        },
        "simulation": {
            "disbursed_amount": query.loan_value,
            "installment_face_value": query.installment_value,
            "number_of_installments": query.installments,
            "with_insurance": query.with_insurance,
        },
    }


def _person(person: Person) -> dict[str, Any]:
    area_code, number = split_phone(person.phone)
    return {
        "name": person.name,
        "document_number": person.cpf,
        "birth_date": _timestamp(person.birth_date),
        "email": person.email,
        "phone": {"country_code": "055", "area_code": area_code, "number": number},
    }


def _submission_body(submission: BankSubmission) -> dict[str, Any]:
    holder, document, address = submission.holder, submission.document, submission.address
    return {
        "requester_identifier_key": submission.reference,
        "simulation_key": submission.offer.native_offer_id,
        "borrower": {
            **_person(submission.person),
            "gender": Ipe.words.sex(holder.sex),
            "mother_name": holder.mother_name,
            **({"father_name": holder.father_name} if holder.father_name else {}),
            "marital_status": Ipe.words.marital_statuses[given(holder.marital_status)],
            "is_pep": holder.politically_exposed,
            "document_identification": {
                "number": document.number,
                "issuer": document.issuer,
                "issuer_state": document.issuer_state,
                "issue_date": _timestamp(given(document.issued_on)),
            },
            "address": {
                "postal_code": address.postal_code,
                "street": address.street,
                "number": address.number,
                **({"complement": address.complement} if address.complement else {}),
                "neighborhood": address.district,
                "city": address.city,
                "state": address.state,
            },
        },
        "disbursement": _disbursement(submission),
        "acceptance": {"ip_address": submission.ip},
        **({"signature_delivery": submission.channel} if submission.channel else {}),
    }


def _disbursement(submission: BankSubmission) -> dict[str, Any]:
    pix = submission.pix
    if pix is not None:
        return {"method": "pix", "pix": {"key_type": Ipe.words.pix_keys[pix.kind], "key": pix.international}}
    account = given(submission.account)
    return {
        "method": "bank_account",
        "bank_account": {
            "bank_code": account.bank,
            "branch_number": account.branch,
            **({"branch_digit": account.branch_digit} if account.branch_digit else {}),
            "account_number": account.number,
            "account_digit": account.digit,
            "account_type": Ipe.words.account_types[account.kind],
        },
    }


def _employment(each: Relationship) -> Employment:
    return Employment(
        registration=each.registration_number,
        employer_cnpj=each.employer_document_number,
        employer_name=each.employer_name,
        job_title=each.job_title,
        admission_date=_moment(each.admission_date).date(),
        margin=each.consigned_credit_balance,
    )


def _offer(each: Simulation) -> BankOffer:
    return BankOffer(
        native_offer_id=each.simulation_key,
        loan_value=each.disbursed_amount,
        installment_value=each.installment_face_value,
        installments=each.number_of_installments,
        # The rate is a fraction, while the CET in the same answer is a percentage.
        interest_rate=each.prefixed_interest_rate.monthly_rate * 100,
        total_amount=each.total_amount,
        table_code=each.table_code,
        with_insurance=each.with_insurance,
        first_due_date=_moment(each.first_due_date).date(),
        registration=each.registration_number,
        cet_monthly=each.cet,
        cet_annual=each.annual_cet,
        iof=each.iof_amount,
        insurance_value=each.insurance_amount,
        valid_until=_moment(each.valid_until) if each.valid_until else None,
    )


def _timestamp(day: date) -> str:
    return f"{day.isoformat()}T00:00:00.000000Z"


def _moment(text: str) -> datetime:
    return datetime.strptime(text, TIMESTAMP).replace(tzinfo=UTC)
