"""The simulated bank `ipe`: OAuth2, English snake_case, rates as fractions but costs in percent, times with
microseconds.

The manual is `docs/banks/ipe.md`.
"""

from __future__ import annotations

import uuid
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from aiohttp import web

from simulator import catalogue, numbers
from simulator.bank import Bank, Consultation, Refusal
from simulator.fields import CPF, EMAIL, RANDOM_KEY, STATE, Fields, Problem
from simulator.ledger import Contract, Offer
from simulator.messages import Request, answer
from simulator.numbers import Ask
from simulator.routes import route

CREDENTIALS = {
    "client_id": "sandbox-originator",
    "client_secret": "ipe-sandbox-secret-not-a-secret",
}
TOKEN_TTL_S = 20 * 60
SIMULATION_TTL_S = 24 * 3600

# All dates are timestamps, even birth dates.
TIMESTAMP = "%Y-%m-%dT%H:%M:%S.%fZ"

STATUS_WORDS = {
    "created": "pending_formalization",
    "in_analysis": "pending_analysis",
    "awaiting_signature": "waiting_signature",
    "signed": "pending_reservation",
    "disbursed": "disbursed",
    "rejected": "refused",
    "cancelled": "canceled",
    "expired": "signature_expired",
}
GENDERS = ("male", "female")
MARITAL_STATUSES = ("single", "married", "divorced", "widowed", "separated", "stable_union")
ACCOUNT_TYPES = ("checking_account", "savings_account", "salary_account")
PIX_KEYS = {
    "document_number": CPF,
    "phone_number": r"\+55\d{10,11}",
    "email": EMAIL,
    "random_key": RANDOM_KEY,
}
DELIVERIES = ("sms", "whatsapp")

PROBLEMS = {
    Problem.MISSING: ("IPE000010", "Required field missing"),
    Problem.TYPE: ("IPE000011", "Wrong type"),
    Problem.FORMAT: ("IPE000012", "Wrong format"),
    Problem.VALUE: ("IPE000013", "Value not allowed"),
}


def error(status: int, code: str, title: str, translation: str) -> web.Response:
    """An error in this bank's format: English title, Portuguese translation."""
    return answer({"code": code, "title": title, "translation": translation}, status)


NOT_FOUND = (404, "IPE000404", "Resource not found", "Recurso não encontrado.")


class Ipe(Bank):
    name = "ipe"
    title = "Ipê"
    rate = Decimal("1.99")
    tables = ("IPE-CLT-STD", "IPE-CLT-INS")
    ceiling = (12000, 48)
    due_day = 10
    takes_withdrawals = True
    cost_fields = ("cet", "annual_cet")
    refusals = {
        "age_limit": "idade fora da politica",
        "credit_policy": "operacao negada pela politica de credito",
        "data_mismatch": "dados cadastrais divergentes",
        "employer_not_eligible": "empregador nao elegivel",
        "existing_contract": "ja existe contrato em andamento para este cliente",
        "invalid_account": "conta de credito invalida",
        "no_employment_link": "vinculo nao localizado",
        "no_margin": "margem consignavel insuficiente",
        "worker_not_eligible": "trabalhador nao elegivel",
    }

    def authenticate(self, request: Request) -> None:
        if not self.tokens.valid(request.bearer()):
            raise Refusal(self.token_refused())

    def token_refused(self) -> web.Response:
        return error(401, "IPE000401", "Invalid or expired token", "Token inválido ou expirado.")

    def bad_field(self, field: str | None, problem: Problem) -> web.Response:
        code, title = PROBLEMS[problem]
        return error(400, code, f"{title}: {field or 'request body'}", f"{field or 'corpo'}: {problem}")

    def no_contract(self) -> web.Response:
        return error(*NOT_FOUND)

    def wrong_state(self, contract: Contract) -> web.Response:
        word = self.status_word(contract, STATUS_WORDS)
        return error(409, "IPE000409", f"Debt is {word}", "A operação não é permitida no estado atual.")

    def new_contract_id(self) -> str:
        return str(uuid.uuid4())

    def new_offer_key(self) -> str:
        return str(uuid.uuid4())

    @route("POST", "/oauth2/token", "token", public=True)
    def issue_token(self, request: Request) -> web.Response:
        form = self.form_fields(request)
        form.text("grant_type", one_of=("client_credentials",))
        if not request.has_basic_auth(CREDENTIALS["client_id"], CREDENTIALS["client_secret"]):
            raise Refusal(error(401, "IPE000400", "Invalid client credentials", "Credenciais do cliente inválidas."))
        token = self.tokens.issue(TOKEN_TTL_S)
        return answer({"access_token": token, "token_type": "Bearer", "expires_in": TOKEN_TTL_S})

    @route("POST", "/v1/private_payroll/simulations", "query", cpf="borrower.document_number")
    def simulate(self, request: Request) -> web.Response:
        body = self.json_fields(request)
        borrower = body.object("borrower")
        cpf = _person(borrower)
        borrower.optional_text("gender", one_of=GENDERS)
        _evidence(body.object("authorization_term"))
        return answer(_simulations(self.consult(cpf, _ask(body.object("simulation")))))

    @route(
        "POST",
        "/v1/private_payroll/debts",
        "submit",
        cpf="borrower.document_number",
        reference="requester_identifier_key",
    )
    def submit(self, request: Request) -> web.Response:
        body = self.json_fields(request)
        reference = body.text("requester_identifier_key", longest=64)
        offer = self.offers.get(body.text("simulation_key"))
        borrower = body.object("borrower")
        cpf = _person(borrower)
        _borrower_details(borrower)
        _disbursement(body.object("disbursement"), cpf)
        body.object("acceptance").ip("ip_address")
        channel = body.optional_text("signature_delivery", one_of=DELIVERIES)
        if known := self.ledger.find(reference):
            return answer(self._debt(known[0]), 201)
        if offer is None or _valid_until(offer) <= self.world.clock.now():
            raise Refusal(error(*NOT_FOUND))
        if offer.cpf != cpf:
            body.refuse("borrower.document_number", Problem.VALUE)
        scenario = self.scenario_of_submission(cpf)
        if scenario.submit == "rejected":
            raise Refusal(error(422, "IPE000422", "Borrower not accepted", scenario.message))
        return answer(self._debt(self.ledger.create(reference, offer, scenario, channel=channel)), 201)

    @route("GET", "/v1/private_payroll/debts", "find", reference="requester_identifier_key")
    def find(self, request: Request) -> web.Response:
        reference = self.query_fields(request).text("requester_identifier_key")
        return answer({"debts": [self._debt(contract) for contract in self.ledger.find(reference)]})

    @route("POST", "/v1/private_payroll/debts/{debt_key}/issue", "formalize", contract="debt_key")
    def formalize(self, request: Request) -> web.Response:
        contract = self.contract(request.params["debt_key"])
        body = self.json_fields(request)
        channel = body.optional_text("signature_delivery", one_of=DELIVERIES)
        return answer(self._debt(self.formalized(contract, channel)))

    @route("GET", "/v1/private_payroll/debts/{debt_key}", "status", contract="debt_key")
    def status(self, request: Request) -> web.Response:
        return answer(self._debt(self.contract(request.params["debt_key"])))

    @route("POST", "/v1/private_payroll/debts/{debt_key}/cancel", "cancel", contract="debt_key")
    def cancel(self, request: Request) -> web.Response:
        contract = self.contract(request.params["debt_key"])
        self.json_fields(request).text("reason", longest=200)
        return answer(self._debt(self.cancelled(contract)))

    @route("GET", "/v1/private_payroll/auction_proposals/{proposal_key:[^/]+}", "auction")
    def auction_proposal(self, request: Request) -> web.Response:
        key = request.params["proposal_key"]
        if key == catalogue.AUCTION_KEYS["bank_fails"]:
            raise Refusal(error(503, "IPE000007", "External API error", "Falha na API externa."))
        if key != catalogue.AUCTION_KEYS["found"]:
            raise Refusal(error(*NOT_FOUND))
        return answer(_auction_record(key, self.world.clock.now()))

    def _debt(self, contract: Contract) -> dict[str, Any]:
        step = contract.signature
        url = contract.signature_url
        return {
            "debt_key": contract.id,
            "requester_identifier_key": contract.reference,
            "status": self.status_word(contract, STATUS_WORDS),
            **self.why_refused(contract, "refusal_reason"),
            "created_at": contract.created_at.strftime(TIMESTAMP),
            "simulation_key": contract.offer.key,
            "contract_number": contract.number,
            "payment": {
                "paid_at": contract.disbursed_at.strftime(TIMESTAMP),
                "amount": float(contract.offer.quote.amount),
            }
            if contract.disbursed_at
            else None,
            "withdrawal": {
                "allowed_until": _midnight(contract.withdrawal_until),
                "withdrawn_at": contract.withdrawn_at.strftime(TIMESTAMP) if contract.withdrawn_at else None,
            }
            if contract.withdrawal_until
            else None,
            "signature": {
                "url": url,
                "expires_at": step.expires_at.strftime(TIMESTAMP) if step and step.expires_at else None,
                "delivery": contract.channel,
            }
            if url
            else None,
        }


def _person(borrower: Fields) -> str:
    """The holder's data in every request; returns the CPF."""
    borrower.text("name", longest=120)
    borrower.moment("birth_date", TIMESTAMP)
    borrower.text("email", EMAIL)
    phone = borrower.object("phone")
    phone.text("country_code", "055")
    phone.text("area_code", r"\d{2}")
    phone.text("number", r"\d{8,9}")
    return borrower.text("document_number", CPF)


def _evidence(term: Fields) -> None:
    """The holder's electronic signature of the authorization term, with its evidence."""
    signature = term.object("signature")
    signature.text("authentication_type", one_of=("opt_in",))
    evidence = signature.object("authenticity")
    # Evidence that was not collected is null, but the fields are required.
    evidence.require_keys("session_id", "user_agent", "device_model", "geolocation")
    evidence.ip("ip_address")
    evidence.moment("timestamp", TIMESTAMP)
    evidence.optional_texts("session_id", "user_agent", "device_model")
    if evidence.has("geolocation"):
        evidence.object("geolocation").position("latitude", "longitude")


def _ask(simulation: Fields) -> Ask:
    simulation.require_keys("disbursed_amount", "installment_face_value", "number_of_installments")
    return Ask(
        amount=simulation.optional_money("disbursed_amount"),
        installment=simulation.optional_money("installment_face_value"),
        term=simulation.optional_term("number_of_installments"),
        with_insurance=simulation.boolean("with_insurance"),
    )


def _borrower_details(borrower: Fields) -> None:
    borrower.text("gender", one_of=GENDERS)
    borrower.text("mother_name", longest=120)
    borrower.father("father_name")
    borrower.text("marital_status", one_of=MARITAL_STATUSES)
    borrower.boolean("is_pep")
    document = borrower.object("document_identification")
    document.text("number", longest=20)
    document.text("issuer", longest=20)
    document.text("issuer_state", STATE)
    document.moment("issue_date", TIMESTAMP)
    lines = ("street", "number", "neighborhood", "city")
    borrower.object("address").address("postal_code", lines, "complement", "state")


def _disbursement(disbursement: Fields, cpf: str) -> None:
    if disbursement.text("method", one_of=("bank_account", "pix")) == "pix":
        disbursement.object("pix").pix_key("key_type", "key", PIX_KEYS, cpf)
        return
    account = disbursement.object("bank_account")
    account.account("bank_code", "branch_number", "branch_digit", "account_number", "account_digit")
    account.text("account_type", one_of=ACCOUNT_TYPES)


def _simulations(consultation: Consultation) -> dict[str, Any]:
    return {
        "employment_relationships": [
            {
                "registration_number": employment.registration,
                "employer_document_number": employment.cnpj,
                "employer_name": employment.name,
                "job_title": employment.job_title,
                "admission_date": _midnight(employment.admitted_on),
                "consigned_credit_balance": employment.margin,
                "eligible": True,
            }
            for employment in consultation.employments
        ],
        "simulations": [_simulation(offer) for offer in consultation.offers],
        "reasons": [{"enumerator": "not_eligible", "description": consultation.reason}] if consultation.reason else [],
    }


def _simulation(offer: Offer) -> dict[str, Any]:
    quote = offer.quote
    return {
        "simulation_key": offer.key,
        "registration_number": offer.employment.registration,
        "table_code": offer.table,
        "disbursed_amount": quote.amount,
        "installment_face_value": quote.installment,
        "number_of_installments": quote.term,
        "total_amount": quote.total,
        "prefixed_interest_rate": {"monthly_rate": quote.rate / 100},  # a fraction
        "cet": quote.monthly_cost,  # percent a month
        "annual_cet": quote.monthly_cost * 12,
        "iof_amount": quote.iof,  # part of the total, like the insurance
        "insurance_amount": quote.insurance,
        "with_insurance": quote.insured,
        "first_due_date": _midnight(offer.first_due_date),
        "valid_until": _valid_until(offer).strftime(TIMESTAMP),
    }


def _valid_until(offer: Offer) -> datetime:
    return offer.made_at + timedelta(seconds=SIMULATION_TTL_S)


def _midnight(day: date) -> str:
    return f"{day.isoformat()}T00:00:00.000000Z"


def _auction_record(key: str, now: datetime) -> dict[str, Any]:
    """The auction proposal as the institution passes it on, with null for missing values."""
    employment = catalogue.EMPLOYMENTS[0]
    quote = numbers.price(Decimal(9000), 36, Ipe.rate, insured=False)
    return {
        "webhook_type": "private_payroll_auction.new_issuer_proposal_request",
        "proposal_key": key,
        "issuer_proposal_request_key": "7f1c2f0a-6a38-4a8f-9d43-3f1d1a3c5b10",
        "auction_key": "b0b1a3e2-52de-4d4e-8a2e-0c9b6c7a9f21",
        "status": "ongoing",
        "event_datetime": now.strftime(TIMESTAMP),
        "expiration_datetime": (now + timedelta(hours=21)).strftime(TIMESTAMP),
        "inclusion_limit_datetime": (now + timedelta(hours=20)).strftime(TIMESTAMP),
        "external_proposal_url": None,
        "rank_position": None,
        "alerts": [],
        "disbursed_issue_amount": Decimal("10000.00"),
        "number_of_installments": 36,
        "consigned_credit_balance": employment.margin,
        "eligible": True,
        "political_exposition": "not_exposed",
        "name": "Helena Duarte Fictícia",
        "document_number": catalogue.AUCTION_CUSTOMER_CPF,
        "birth_date": _midnight(date(1988, 4, 17)),
        "admission_date": _midnight(employment.admitted_on),
        "issuer_registration_number": employment.registration,
        "employer_document_type": "cnpj",
        "employer_document_number": employment.cnpj,
        "employer_name": employment.name,
        "proposal": {
            "status": "sent",
            "issuer_proposal_key": "2a6f4a55-8e0b-4f5e-9c8e-9f0f1c7e2d34",
            "proposal_data": {
                "disbursed_issue_amount": quote.amount,
                "number_of_installments": quote.term,
                "simulation": {
                    "installment_face_value": quote.installment,
                    "total_amount": quote.total,
                    "prefixed_interest_rate": {"monthly_rate": quote.rate / 100},
                    "cet": quote.monthly_cost,
                    "annual_cet": quote.monthly_cost * 12,
                    "first_due_date": _midnight(numbers.first_due_date(now.date(), Ipe.due_day)),
                },
            },
        },
    }
