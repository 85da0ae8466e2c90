"""cedro: a password grant, queries whose answers are polled, percents and terms as text.

The manual is docs/banks/cedro.md.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import structlog
from msgspec import Struct

from foundation.errors import ApiError
from foundation.formats import from_iso_utc, iso_utc_seconds, money, path_to, present, split_phone, to_decimal
from providers.bank import Bank, Limits
from providers.errors import ProviderError, ProviderRejected, ProviderUnavailable, StepOwed, refusal_by_status
from providers.http import Reply
from providers.tokens import Token
from providers.types import given
from providers.types.answer import BankOffer, BankResult, Employment, QueryStatus
from providers.types.proposal import BankProposal
from providers.types.query import BankQuery, Geolocation
from providers.types.steps import ActionType, BankAction, StepOutcome
from providers.types.submission import BankSubmission

log = structlog.get_logger(__name__)

CONSULTS = "/v1/private-consignment/consults"
OPERATIONS = "/v1/private-consignment/operations"
COUNTRY = "55"
#: Seconds between polls of a consult: the first pause, its growth factor, the longest pause.
FIRST_PAUSE_S, PAUSE_FACTOR, LONGEST_PAUSE_S = 0.05, 1.5, 1.0

RELATIONSHIPS = ("spouse", "relative", "friend")

#: States of a consult without an answer yet. An approved consent is not the answer.
UNDER_WAY = ("WAITING_CONSENT", "CONSENT_APPROVED", "WAITING_CREDIT_ANALYSIS")
CONFIRMATION = "WAITING_CONFIRMATION"
REFUSED_STEPS = {
    "CONSENT_REFUSED": (StepOutcome.REFUSED, "O titular não confirmou a autorização."),
    "CONSENT_EXPIRED": (StepOutcome.EXPIRED, "O prazo para o titular confirmar a autorização terminou."),
}


class AccessToken(Struct):
    access_token: str
    refresh_token: str
    expires_in: int


class Accepted(Struct):
    id: str


class Confirmation(Struct, rename="camel"):
    url: str
    expires_at: str


class EmploymentLink(Struct, rename="camel"):
    registration_number: str
    employer_document_number: str
    employer_name: str
    job_title: str | None
    admission_date: str


class Simulation(Struct, rename="camel"):
    simulation_id: str
    registration_number: str
    table_code: str
    with_insurance: bool
    operation_amount: Decimal
    installment_amount: Decimal
    number_of_installments: str
    total_amount: Decimal
    monthly_interest_rate: str
    monthly_total_cost: str
    first_due_date: str


class Consult(Struct, rename="camel"):
    id: str
    status: str
    term_auto_authorized: bool
    description: str | None
    confirmation: Confirmation | None
    employment_links: list[EmploymentLink]
    simulations: list[Simulation]


class Operation(Struct):
    id: str
    status: str
    formalization_url: str | None
    formalization_expires_at: str | None
    denial_reason: str | None = None


class Fault(Struct):
    detail: str


class FieldFault(Struct):
    loc: list[str]
    msg: str


class FieldFaults(Struct):
    detail: list[FieldFault]


class ConsultFailed(ProviderUnavailable):
    """A system behind the bank failed. This consult will never succeed; a new one may."""


class Cedro(Bank):
    name = "cedro"
    label = "Cedro"
    credentials = {"client_id": "Identificador de cliente", "username": "Usuário", "password": "Senha"}
    notifies_holder = True
    limits = Limits(references=2)
    required = ("referencias", "titular.estado_civil", "titular.exposicao_politica")
    deduplicates = True

    # --- authentication and errors

    def login(self, old: Token | None) -> Token:
        if old is not None and old.refresh is not None:
            try:
                return self._token_for(grant_type="refresh_token", refresh_token=old.refresh)
            except ProviderError:
                log.info("bank_refresh_token_ended", bank=self.name)
        user = self.connection.credentials
        return self._token_for(grant_type="password", username=user["username"], password=user["password"])

    def _token_for(self, **grant: str) -> Token:
        form = {"client_id": self.connection.credentials["client_id"], **grant}
        token = self.exchange("POST", "/oauth/token", form=form).read(AccessToken)
        return Token.lasting(token.access_token, token.expires_in, token.refresh_token)

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if reply.status == 422:
            faults = reply.read(FieldFaults).detail
            fields = [".".join(each.loc[1:]) for each in faults]
            words = "; ".join(f"{field}: {each.msg}" for field, each in zip(fields, faults, strict=True))
            return ProviderRejected(words, field=next(iter(fields), None))
        if reply.status not in (400, 403, 404, 409):
            return None
        detail = reply.read(Fault).detail  # raises if a gateway sent an error page instead
        if reply.status == 403:
            return StepOwed("O titular ainda não confirmou a autorização neste banco.")
        return refusal_by_status(reply.status, detail)

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        body = present(**_consult_body(query), originatorCode=self.portfolio_of(query))
        # Not safe to repeat: the bank may send the holder a message.
        accepted = self.call("POST", CONSULTS, json=body).read(Accepted)
        return self._outcome(query, accepted.id)

    def check(self, query: BankQuery, reference: str) -> BankResult:
        try:
            result = self._outcome(query, reference)
        except ConsultFailed:
            reason = "O banco não conseguiu concluir a consulta. Faça uma nova consulta."
            return BankResult.ended(StepOutcome.EXPIRED, reason)
        return result if result.step else replace(result, step=StepOutcome.APPROVED)

    def _outcome(self, query: BankQuery, consult_id: str) -> BankResult:
        """Poll a consult until it has a result. Raises BankTimedOut if the deadline comes first."""
        path = path_to(CONSULTS, consult_id, **_wishes(query))
        pause = FIRST_PAUSE_S
        while True:
            consult = self.call("GET", path, safe=True).read(Consult)
            if consult.status not in UNDER_WAY:
                return self._result(consult)
            self.wait(pause)
            pause = min(pause * PAUSE_FACTOR, LONGEST_PAUSE_S)

    def _result(self, consult: Consult) -> BankResult:
        if consult.status == "SUCCESS":
            return _offers(consult)
        if consult.status in REFUSED_STEPS:
            return BankResult.ended(*REFUSED_STEPS[consult.status])
        if consult.status == "REJECTED":
            raise ProviderRejected(consult.description)
        if consult.status == "FAILED":
            raise ConsultFailed
        if consult.status == CONFIRMATION and consult.confirmation is not None:
            action = BankAction(
                ActionType.CHAT_LINK,
                consult.confirmation.url,
                "O banco pede que o titular confirme a autorização pelo link enviado por mensagem.",
                consult.id,
                from_iso_utc(consult.confirmation.expires_at),
            )
            return _waiting(QueryStatus.REQUIRES_ACTION, consult, action)
        log.warning("bank_step_unknown", bank=self.name, word=consult.status[:60])
        action = BankAction(
            ActionType.PAYROLL_DATA, None, "O banco ainda está processando a autorização do titular.", consult.id
        )
        return _waiting(QueryStatus.PENDING, consult, action)

    # --- proposal

    def submit(self, submission: BankSubmission) -> BankProposal:
        body = present(**_operation_body(submission), originator_code=self.portfolio_of(submission))
        return self._proposal(self.call("POST", OPERATIONS, json=body))

    def find(self, reference: str) -> BankProposal | None:
        return self._proposal(self.call("GET", path_to(OPERATIONS, "by-external-id", reference), safe=True))

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        body = {"channel": channel} if channel else {}
        return self._proposal(self.call("POST", path_to(OPERATIONS, native_id, "formalization"), json=body, safe=True))

    def status(self, native_id: str) -> BankProposal:
        return self._proposal(self.call("GET", path_to(OPERATIONS, native_id), safe=True))

    def _proposal(self, reply: Reply) -> BankProposal:
        operation = reply.read(Operation)
        ends_at = from_iso_utc(operation.formalization_expires_at) if operation.formalization_expires_at else None
        link, why = operation.formalization_url, operation.denial_reason
        return self.proposal(operation.id, operation.status, link=link, link_ends_at=ends_at, reason=why)


def _consult_body(query: BankQuery) -> dict[str, Any]:
    area_code, number = split_phone(query.phone)
    return present(
        borrowerDocumentNumber=query.cpf,
        birthDate=query.birth_date.isoformat(),
        gender=Cedro.words.sex(query.sex),
        signerName=query.name,
        signerEmail=query.email,
        signerPhone={"countryCode": COUNTRY, "areaCode": area_code, "phoneNumber": number},
        consent=present(
            acceptedAt=iso_utc_seconds(given(query.accepted_at)),
            ipAddress=query.client_ip,
            sessionReference=query.authorization_reference,
            device=present(userAgent=query.user_agent, model=query.device_model, platform=query.platform),
            location=_place(query.geolocation),
            appConsent=_app_consent(query),
        ),
    )


def _app_consent(query: BankQuery) -> dict[str, Any]:
    app = query.app_authorization
    if app is None:
        return {}
    fields = present(consentId=app.authorization_id, signedAt=app.signature_date)
    if app.evidence is None:
        return fields
    device = app.evidence
    return fields | present(
        userAgent=device.user_agent,
        operatingSystem=device.operational_system,
        deviceModel=device.device_model,
        deviceName=device.device_name,
        deviceType=device.device_type,
        **_place(device.geolocation),
    )


def _place(place: Geolocation | None) -> dict[str, Any]:
    return present(latitude=place.lat, longitude=place.lng, accuracy=place.accuracy) if place else {}


def _wishes(query: BankQuery) -> dict[str, str]:
    """What to simulate, as a poll's query string. The bank accepts an amount or an installment, never both."""
    wishes = {"withInsurance": "true" if query.with_insurance else "false"}
    if query.loan_value is not None:
        wishes["operationAmount"] = str(money(query.loan_value))
    elif query.installment_value is not None:
        wishes["installmentAmount"] = str(money(query.installment_value))
    if query.installments is not None:
        wishes["numberOfInstallments"] = str(query.installments)
    return wishes


def _operation_body(submission: BankSubmission) -> dict[str, Any]:
    holder, address = submission.holder, submission.address
    area_code, number = split_phone(submission.phone)
    return present(
        external_id=submission.reference,
        simulation_id=submission.offer.native_offer_id,
        borrower=present(
            individual_document_number=holder.cpf,
            name=holder.name,
            birth_date=holder.birth_date.isoformat(),
            gender=Cedro.words.sex(holder.sex),
            mother_name=holder.mother_name,
            father_name=holder.father_name,
            marital_status=Cedro.words.marital_status(holder.marital_status),
            political_exposition=holder.politically_exposed,
            email=submission.email,
            phone={"country_code": COUNTRY, "area_code": area_code, "number": number},
            address=present(
                postal_code=address.postal_code,
                street=address.street,
                number=address.number,
                complement=address.complement,
                neighborhood=address.district,
                city=address.city,
                state=address.state,
            ),
        ),
        bank=_bank(submission),
        references=[
            {"name": each.name, "phone": each.phone, "relationship": RELATIONSHIPS[each.degree]}
            for each in submission.references
        ],
        acceptance={"ip_address": submission.ip},
        formalization_channel=submission.channel,
    )


def _bank(submission: BankSubmission) -> dict[str, Any]:
    pix = submission.pix
    if pix is not None:
        key = COUNTRY + pix.key if pix.kind == "telefone" else pix.key
        return {"transfer_method": "pix", "pix_key_type": Cedro.words.pix_keys[pix.kind], "pix_key": key}
    account = given(submission.account)
    return present(
        transfer_method="ted",
        bank_code=account.bank,
        branch_number=account.branch,
        branch_digit=account.branch_digit,
        account_number=account.number,
        account_digit=account.digit,
        account_type=Cedro.words.account_types[account.kind],
    )


def _waiting(status: QueryStatus, consult: Consult, action: BankAction) -> BankResult:
    return BankResult(status, action=action, step=StepOutcome.OPEN, term_auto_authorized=consult.term_auto_authorized)


def _offers(consult: Consult) -> BankResult:
    return BankResult.answer(
        map(_offer, consult.simulations),
        map(_employment, consult.employment_links),
        (consult.description,),
        term_auto_authorized=consult.term_auto_authorized,
    )


def _employment(each: EmploymentLink) -> Employment:
    return Employment(
        registration=each.registration_number,
        employer_cnpj=each.employer_document_number,
        employer_name=each.employer_name,
        job_title=each.job_title,
        admission_date=date.fromisoformat(each.admission_date),
    )


def _offer(each: Simulation) -> BankOffer:
    return BankOffer(
        native_offer_id=each.simulation_id,
        loan_value=each.operation_amount,
        installment_value=each.installment_amount,
        installments=int(each.number_of_installments),
        interest_rate=to_decimal(each.monthly_interest_rate),
        total_amount=each.total_amount,
        table_code=each.table_code,
        with_insurance=each.with_insurance,
        first_due_date=date.fromisoformat(each.first_due_date),
        registration=each.registration_number,
        cet_monthly=to_decimal(each.monthly_total_cost),
    )
