"""The simulated bank `cedro`: a password grant, queries that are answered later, percents and terms as text.

The manual is `docs/banks/cedro.md`.
"""

from __future__ import annotations

import secrets
import uuid
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NoReturn

from aiohttp import web

from simulator.bank import Bank, Refusal
from simulator.catalogue import Employment
from simulator.fields import CPF, EMAIL, RANDOM_KEY, Fields, Problem
from simulator.ledger import Contract, Offer
from simulator.messages import Request, answer
from simulator.numbers import Ask
from simulator.routes import Route, route
from simulator.world import Step

CREDENTIALS = {
    "client_id": "sandbox-app",
    "username": "originator@sandbox.example",
    "password": "cedro-sandbox-secret-not-a-secret",
}
TOKEN_TTL_S = 15 * 60
REFRESH_TTL_S = 8 * 3600
TIME = "%Y-%m-%dT%H:%M:%SZ"
CONSULTS_KEPT = 100_000

STATUS_WORDS = {
    "created": "generating_ccb",
    "in_analysis": "manual_analysis",
    "awaiting_signature": "formalization",
    "signed": "processing",
    "disbursed": "paid",
    "rejected": "rejected",
    "cancelled": "canceled",
    "expired": "formalization_expired",
}
STEP_WORDS = {"open": "WAITING_CONFIRMATION", "refused": "CONSENT_REFUSED", "expired": "CONSENT_EXPIRED"}
GENDERS = ("male", "female")
MARITAL_STATUSES = ("single", "married", "divorced", "widowed", "legally_separated", "civil_union")
ACCOUNT_TYPES = ("checking", "savings", "salary")
RELATIONSHIPS = ("spouse", "relative", "friend")
CHANNELS = ("sms", "whatsapp")
PIX_KEYS = {
    "cpf": CPF,
    "phone": r"55\d{10,11}",
    "email": EMAIL,
    "random": RANDOM_KEY,
}
CONSULTS = "/v1/private-consignment/consults"
OPERATIONS = "/v1/private-consignment/operations"


@dataclass
class Consult:
    """A running query. `step` is the confirmation that its holder owes, if any. `early_looks` is how many more polls
    are answered with the consent only."""

    id: str
    cpf: str
    step: Step | None
    early_looks: int = 1


def error(status: int, detail: str) -> web.Response:
    """An error in this bank's format."""
    return answer({"detail": detail}, status)


class Cedro(Bank):
    name = "cedro"
    rate = Decimal("2.25")
    tables = ("CDR-CLT-36", "CDR-CLT-36S")
    ceiling = (8200, 36)
    due_day = 12
    refusals = {
        "age_limit": "idade do tomador fora do limite",
        "credit_policy": "score abaixo do minimo",
        "data_mismatch": "dados do tomador divergentes",
        "employer_not_eligible": "empregador fora da politica",
        "existing_contract": "ja existe contrato em andamento para este cliente",
        "invalid_account": "dados bancarios invalidos",
        "no_employment_link": "tomador sem vinculo na base",
        "no_margin": "margem consignavel insuficiente",
        "worker_not_eligible": "vinculo do tomador nao elegivel",
    }

    def reset(self, keep_tokens: bool = False) -> None:
        super().reset(keep_tokens)
        self.consults: OrderedDict[str, Consult] = OrderedDict()

    def authenticate(self, request: Request) -> None:
        if not self.tokens.valid(request.bearer()):
            raise Refusal(self.token_refused())

    def token_refused(self) -> web.Response:
        return error(401, "token invalido ou expirado")

    def bad_field(self, field: str | None, problem: Problem) -> web.Response:
        return _bad_field("body", field, problem)

    def no_contract(self) -> web.Response:
        return error(404, "operacao nao encontrada")

    def wrong_state(self, contract: Contract) -> web.Response:
        return error(409, f"operacao em {self.status_word(contract, STATUS_WORDS)} nao pode ser formalizada")

    def new_offer_key(self) -> str:
        return f"sim_{secrets.token_hex(10)}"

    def identify(self, matched: Route, request: Request) -> tuple[str | None, str | None]:
        consult = self.consults.get(request.params.get("consult_id", ""))
        return (None, consult.cpf) if consult else super().identify(matched, request)

    @route("POST", "/oauth/token", "token", public=True)
    def issue_token(self, request: Request) -> web.Response:
        form = self.form_fields(request)
        grant = form.text("grant_type", one_of=("password", "refresh_token"))
        if grant == "password":
            good = form.has_secrets(**CREDENTIALS)
        else:
            good = form.text("client_id") == CREDENTIALS["client_id"] and self.tokens.valid(
                form.text("refresh_token"), "refresh"
            )
        if not good:
            raise Refusal(error(400, "credenciais invalidas"))
        return answer(
            {
                "access_token": self.tokens.issue(TOKEN_TTL_S),
                "refresh_token": self.tokens.issue(REFRESH_TTL_S, "refresh"),
                "token_type": "Bearer",
                "expires_in": TOKEN_TTL_S,
                "refresh_expires_in": REFRESH_TTL_S,
            }
        )

    # --- consult

    @route("POST", CONSULTS, "query", cpf="borrowerDocumentNumber")
    def begin_consult(self, request: Request) -> web.Response:
        body = self._body(request)
        cpf = body.text("borrowerDocumentNumber", CPF)
        body.text("signerName", longest=120)
        body.text("signerEmail", EMAIL)
        body.date("birthDate")
        body.optional_text("gender", one_of=GENDERS)
        _phone(body.object("signerPhone"), "countryCode", "areaCode", "phoneNumber")
        _consent(body.object("consent"))
        body.optional_text("originatorCode", longest=120)
        consultation = self.consult(cpf, Ask())
        consult = Consult(str(uuid.uuid4()), cpf, consultation.step)
        self.consults[consult.id] = consult
        while len(self.consults) > CONSULTS_KEPT:
            self.consults.popitem(last=False)
        return answer({"id": consult.id, "status": "WAITING_CONSENT", "termAutoAuthorized": True}, 202)

    @route("GET", CONSULTS + "/{consult_id}", "poll")
    def look(self, request: Request) -> web.Response:
        ask = _ask(Fields(request.query, self._refuse_parameter))
        consult = self.consults.get(request.params["consult_id"])
        if consult is None:
            raise Refusal(error(404, "consulta nao encontrada"))
        step = consult.step
        if step is not None and step.status != "approved":
            return answer(_consulted(consult, STEP_WORDS[step.status]))
        if consult.early_looks:
            consult.early_looks -= 1
            return answer(_consulted(consult, "CONSENT_APPROVED"))
        consultation = self.consult(consult.cpf, ask, opens=False)
        return answer(
            _consulted(consult, "SUCCESS")
            | {
                "description": consultation.reason,
                "employmentLinks": [_link(employment) for employment in consultation.employments],
                "simulations": [_simulation(offer) for offer in consultation.offers],
            }
        )

    # --- operation

    @route("POST", OPERATIONS, "submit", cpf="borrower.individual_document_number", reference="external_id")
    def submit(self, request: Request) -> web.Response:
        body = self._body(request)
        reference = body.text("external_id", longest=64)
        simulation = body.text("simulation_id")
        cpf = _borrower(body.object("borrower"))
        _bank(body.object("bank"), cpf)
        _references(body)
        body.object("acceptance").ip("ip_address")
        body.optional_text("originator_code", longest=120)
        channel = body.optional_text("formalization_channel", one_of=CHANNELS)
        if known := self.ledger.find(reference):
            return answer(self._operation(known[0]), 201)
        if not self.authorized(cpf):
            raise Refusal(error(403, "consulta nao autorizada pelo tomador"))
        offer = self.offers.get(simulation)
        if offer is None:
            raise Refusal(error(404, "simulacao nao encontrada"))
        if offer.cpf != cpf:
            body.refuse("borrower.individual_document_number", Problem.VALUE)
        scenario = self.scenario_of_submission(cpf)
        if scenario.submit == "rejected":
            raise Refusal(error(400, scenario.message))
        return answer(self._operation(self.ledger.create(reference, offer, scenario, channel=channel)), 201)

    @route("GET", OPERATIONS + "/by-external-id/{external_id}", "find", reference="external_id")
    def find(self, request: Request) -> web.Response:
        contracts = self.ledger.find(request.params["external_id"])
        if not contracts:
            raise Refusal(self.no_contract())
        return answer(self._operation(contracts[0]))

    @route("POST", OPERATIONS + "/{operation_id}/formalization", "formalize", contract="operation_id")
    def formalize(self, request: Request) -> web.Response:
        contract = self.contract(request.params["operation_id"])
        body = self._body(request)
        channel = body.optional_text("channel", one_of=CHANNELS)
        return answer(self._operation(self.formalized(contract, channel)))

    @route("GET", OPERATIONS + "/{operation_id}", "status", contract="operation_id")
    def status(self, request: Request) -> web.Response:
        return answer(self._operation(self.contract(request.params["operation_id"])))

    def _body(self, request: Request) -> Fields:
        """The body. This bank refuses fields without a value."""
        body = self.json_fields(request)
        _refuse_nulls(body)
        return body

    def _refuse_parameter(self, field: str, problem: Problem) -> NoReturn:
        raise Refusal(_bad_field("query", field, problem))

    def _operation(self, contract: Contract) -> dict[str, Any]:
        url, step = contract.signature_url, contract.signature
        return {
            "id": contract.id,
            "external_id": contract.reference,
            "status": self.status_word(contract, STATUS_WORDS),
            **self.why_refused(contract, "denial_reason"),
            "created_at": contract.created_at.strftime(TIME),
            "formalization_url": url,
            "formalization_expires_at": _time(step.expires_at) if url and step else None,
        }


def _bad_field(place: str, field: str | None, problem: Problem) -> web.Response:
    """The answer to an invalid field, with the path to it."""
    way = [place, *(field.split(".") if field else ())]
    return answer({"detail": [{"loc": way, "msg": str(problem)}]}, 422)


def _refuse_nulls(body: Fields) -> None:
    pending: list[tuple[str, Any]] = [("", body.data)]
    while pending:
        name, value = pending.pop()
        if value is None:
            body.refuse(name, Problem.TYPE)
        items: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            items = value.items()
        elif isinstance(value, list):
            items = enumerate(value)
        pending += [(f"{name}.{key}".lstrip("."), item) for key, item in items]


def _phone(phone: Fields, country: str, area: str, number: str) -> None:
    phone.text(country, "55")
    phone.text(area, r"\d{2}")
    phone.text(number, r"\d{8,9}")


def _place(fields: Fields) -> None:
    fields.position("latitude", "longitude")
    fields.optional_accuracy("accuracy")


def _consent(consent: Fields) -> None:
    """The holder's acceptance and its evidence. Evidence that was not collected must be missing."""
    consent.moment("acceptedAt", TIME)
    consent.ip("ipAddress")
    consent.optional_texts("sessionReference")
    if consent.has("device"):
        consent.object("device").optional_texts("userAgent", "model", "platform")
    if consent.has("location"):
        _place(consent.object("location"))
    if consent.has("appConsent"):
        app = consent.object("appConsent")
        app.optional_texts("consentId", "signedAt", "userAgent", "operatingSystem")
        app.optional_texts("deviceModel", "deviceName", "deviceType")
        if app.has("latitude") or app.has("longitude"):
            _place(app)


def _ask(parameters: Fields) -> Ask:
    amount = parameters.optional_money_text("operationAmount")
    installment = parameters.optional_money_text("installmentAmount")
    if amount is not None and installment is not None:
        parameters.refuse("installmentAmount", Problem.VALUE)
    term = None
    if parameters.has("numberOfInstallments"):
        term = int(parameters.text("numberOfInstallments", r"[1-9]\d{0,2}"))
    insured = parameters.text("withInsurance", one_of=("true", "false")) if parameters.has("withInsurance") else "true"
    return Ask(amount, installment, term, with_insurance=insured == "true")


def _borrower(borrower: Fields) -> str:
    """The borrower; returns the CPF."""
    borrower.text("name", longest=120)
    borrower.date("birth_date")
    borrower.text("gender", one_of=GENDERS)
    borrower.text("mother_name", longest=120)
    borrower.father("father_name")
    borrower.text("marital_status", one_of=MARITAL_STATUSES)
    borrower.boolean("political_exposition")
    borrower.text("email", EMAIL)
    _phone(borrower.object("phone"), "country_code", "area_code", "number")
    lines = ("street", "number", "neighborhood", "city")
    borrower.object("address").address("postal_code", lines, "complement", "state")
    return borrower.text("individual_document_number", CPF)


def _bank(bank: Fields, cpf: str) -> None:
    if bank.text("transfer_method", one_of=("ted", "pix")) == "pix":
        bank.pix_key("pix_key_type", "pix_key", PIX_KEYS, cpf)
        return
    bank.account("bank_code", "branch_number", "branch_digit", "account_number", "account_digit")
    bank.text("account_type", one_of=ACCOUNT_TYPES)


def _references(body: Fields) -> None:
    people = body.objects("references")
    if len(people) != 2:
        body.refuse("references", Problem.VALUE)
    for person in people:
        person.text("name", longest=120)
        person.text("phone", r"\d{10,11}")
        person.text("relationship", one_of=RELATIONSHIPS)


def _consulted(consult: Consult, status: str) -> dict[str, Any]:
    """A consult without results."""
    step = consult.step if consult.step and consult.step.status == "open" else None
    return {
        "id": consult.id,
        "status": status,
        "termAutoAuthorized": True,
        "description": None,
        "confirmation": {"url": step.url, "channel": "CHAT", "expiresAt": _time(step.expires_at)} if step else None,
        "employmentLinks": [],
        "simulations": [],
    }


def _link(employment: Employment) -> dict[str, Any]:
    return {
        "registrationNumber": employment.registration,
        "employerDocumentNumber": employment.cnpj,
        "employerName": employment.name,
        "jobTitle": employment.job_title,
        "admissionDate": employment.admitted_on.isoformat(),
    }


def _simulation(offer: Offer) -> dict[str, Any]:
    quote = offer.quote
    return {
        "simulationId": offer.key,
        "registrationNumber": offer.employment.registration,
        "tableCode": offer.table,
        "withInsurance": quote.insured,
        "operationAmount": quote.amount,
        "installmentAmount": quote.installment,
        "numberOfInstallments": str(quote.term),
        "totalAmount": quote.total,
        "monthlyInterestRate": str(quote.rate),
        "monthlyTotalCost": str(quote.monthly_cost),
        "firstDueDate": offer.first_due_date.isoformat(),
    }


def _time(moment: datetime | None) -> str | None:
    return moment.strftime(TIME) if moment else None
