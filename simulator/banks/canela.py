"""The simulated bank `canela`: an SMS without a URL, 30 requests a minute per token, an analysis desk, callbacks.

The manual is `docs/banks/canela.md`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import uuid
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from aiohttp import web

from simulator.bank import Bank, Consultation, Refusal
from simulator.fields import CPF, EMAIL, RANDOM_KEY, Fields, Problem
from simulator.ledger import Averbation, Contract, Offer
from simulator.messages import Request, answer
from simulator.numbers import Ask
from simulator.routes import Route, route
from simulator.world import Step

CREDENTIALS = {
    "login": "integracao.sandbox",
    "password": "canela-sandbox-senha-nao-secreta",
    "callback_secret": "canela-callback-segredo-nao-secreto",
}
TOKEN_TTL_S = 7200
REQUESTS_A_MINUTE = 30
ZONE = timezone(timedelta(hours=-3))
MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d"
LAYOUT = "%Y-%m-%dT%H:%M:%S%z"

STATUS_WORDS = {
    "created": "Digitada",
    "in_analysis": "Em mesa de crédito",
    "awaiting_signature": "Pendente de assinatura",
    "signed": "Em averbação",
    "disbursed": "Creditada",
    "rejected": "Negada",
    "cancelled": "Cancelada",
    "expired": "Assinatura vencida",
}
STEP_WORDS = {"open": "ENVIADA", "approved": "AUTORIZADA", "refused": "NEGADA", "expired": "VENCIDA"}
SEXES_IN_SIMULATION = ("M", "F")
SEXES = ("Masculino", "Feminino")
MARITAL_STATUSES = (
    "Solteiro(a)",
    "Casado(a)",
    "Divorciado(a)",
    "Viúvo(a)",
    "Separado(a)",
    "União estável",
)
SAVINGS, CURRENT, PIX = 1, 2, 3
CPF_KEY = 1
PIX_KEYS = {
    CPF_KEY: CPF,
    3: EMAIL,
    4: r"\+55\d{10,11}",
    5: RANDOM_KEY,
}
PIX_FIELDS = ("tipoChavePixId", "chavePix")
ACCOUNT_FIELDS = ("codigoBanco", "agencia", "digitoAgencia", "conta", "digitoConta")
DELIVERIES = {"SMS": "sms", "WHATSAPP": "whatsapp"}
EMPLOYMENT_FIELDS = ("cargo", "nomeEmpregador")


def error(status: int, message: str, **more: Any) -> web.Response:
    """An error in this bank's format."""
    return answer({"mensagem": message, **more}, status)


class Canela(Bank):
    name = "canela"
    rate = Decimal("2.09")
    tables = ("CNL-4810", "CNL-4811")
    ceiling = (11200, 48)
    due_day = 7
    desk_s = 3.0
    takes_withdrawals = True
    refusals = {
        "age_limit": "idade fora da regra",
        "averbation_refused": "averbacao nao processada pela dataprev",
        "credit_policy": "reprovado na mesa",
        "data_mismatch": "cadastro divergente",
        "employer_not_eligible": "empregador impedido",
        "existing_contract": "ja existe contrato em andamento para este cliente",
        "invalid_account": "forma de credito invalida",
        "no_employment_link": "sem vinculo na dataprev",
        "no_margin": "margem consignavel insuficiente",
        "worker_not_eligible": "tomador inelegivel",
    }

    def reset(self, keep_tokens: bool = False) -> None:
        super().reset(keep_tokens)
        self.authorizations: dict[str, Step] = {}

    def authenticate(self, request: Request) -> None:
        token = request.bearer()
        if not self.tokens.valid(token):
            raise Refusal(self.token_refused())
        if self.tokens.uses_in_last_minute(token) > REQUESTS_A_MINUTE:
            refused = error(429, f"limite de {REQUESTS_A_MINUTE} requisicoes por minuto excedido")
            refused.headers["Retry-After"] = "60"
            raise Refusal(refused)

    def token_refused(self) -> web.Response:
        return error(500, "token invalido")

    def bad_field(self, field: str | None, problem: Problem) -> web.Response:
        return error(422, "dados invalidos", pendencias=[{"campo": field or "corpo", "mensagem": problem}])

    def no_contract(self) -> web.Response:
        return error(404, "operacao nao encontrada")

    def wrong_state(self, contract: Contract) -> web.Response:
        return error(409, f"operacao nao permitida: {self.status_word(contract, STATUS_WORDS)}")

    def new_contract_id(self) -> str:
        return f"CN26-{secrets.randbelow(10**10):010d}"

    def new_offer_key(self) -> str:
        return str(uuid.uuid4())

    def identify(self, matched: Route, request: Request) -> tuple[str | None, str | None]:
        step = self.authorizations.get(request.params.get("autorizacaoId", ""))
        return (None, step.cpf) if step else super().identify(matched, request)

    def step_ended(self, step: Step) -> None:
        if step.status == "expired":
            return  # the query was never answered, so there is nothing to call back about
        self._call_back(step.cpf, aviso="SMS_RESPONDIDO", autorizacaoId=step.id, situacao=STEP_WORDS[step.status])

    def contract_changed(self, contract: Contract) -> None:
        word = STATUS_WORDS[contract.status]
        self._call_back(contract.cpf, aviso="OPERACAO_ALTERADA", operacaoId=contract.id, situacao=word)

    def _call_back(self, cpf: str, **news: str) -> None:
        moment = _moment(self.world.clock.now())
        body = json.dumps({"dataHora": moment, **news}).encode()
        digest = hmac.digest(CREDENTIALS["callback_secret"].encode(), f"{moment}\n".encode() + body, hashlib.sha512)
        headers = {
            "Content-Type": "application/json",
            "Canela-Assinatura": f"t={moment}, v={base64.b64encode(digest).decode()}",
        }
        self.world.call_back(self.name, cpf, body, headers)

    @route("POST", "/login", "token", public=True)
    def login(self, request: Request) -> web.Response:
        body = self.json_fields(request)
        if not body.has_secrets(login=CREDENTIALS["login"], senha=CREDENTIALS["password"]):
            raise Refusal(error(500, "usuario ou senha invalidos"))
        return answer({"token": self.tokens.issue(TOKEN_TTL_S), "expiraEm": TOKEN_TTL_S})

    # --- simulation and authorization

    @route("POST", "/v5/simulacoes/disponiveis", "query", cpf="tomador.cpf")
    def simulate(self, request: Request) -> web.Response:
        body = self.json_fields(request)
        holder = body.object("tomador")
        cpf = _person(holder)
        holder.optional_text("sexo", one_of=SEXES_IN_SIMULATION)
        _consent(body.object("consentimento"))
        return self._simulated(self.consult(cpf, _wish(body)))

    @route("GET", "/v5/autorizacoes/{autorizacaoId}", "poll")
    def authorization(self, request: Request) -> web.Response:
        return answer(_authorization(self._step_named(request)))

    @route("PUT", "/v5/autorizacoes/{autorizacaoId}/simulacoes", "poll")
    def simulate_again(self, request: Request) -> web.Response:
        ask = _wish(self.json_fields(request))
        step = self._step_named(request)
        if step.status != "approved":
            raise Refusal(_unauthorized(step))
        return self._simulated(self.consult(step.cpf, ask, opens=False))

    # --- operation

    @route("POST", "/v3/operacoes", "submit", cpf="tomador.cpf", reference="identificadorExterno")
    def submit(self, request: Request) -> web.Response:
        body = self.json_fields(request)
        reference = body.text("identificadorExterno", longest=64)
        simulation = body.text("simulacaoId")
        body.optional_texts("carteiraId")
        holder = body.object("tomador")
        cpf = _borrower(holder)
        _credit(holder.object("dadosBancarios"), cpf)
        body.ip("ip")
        channel = _delivery(body)
        if known := self.ledger.find(reference):
            return answer(self._operation(known[0]), 201)
        if not self.authorized(cpf):
            raise Refusal(_unauthorized(self.world.newest_step(self.name, cpf, "sms", only_open=True)))
        offer = self.offers.get(simulation)
        if offer is None:
            raise Refusal(error(404, "simulacao nao encontrada"))
        if offer.cpf != cpf:
            body.refuse("tomador.cpf", Problem.VALUE)
        scenario = self.scenario_of_submission(cpf)
        if scenario.submit == "rejected":
            raise Refusal(error(400, scenario.message, motivo="POLITICA"))
        return answer(self._operation(self.ledger.create(reference, offer, scenario, channel=channel)), 201)

    @route("GET", "/v3/operacoes", "find", reference="identificadorExterno")
    def find(self, request: Request) -> web.Response:
        reference = self.query_fields(request).text("identificadorExterno")
        return answer({"id": [self._operation(contract) for contract in self.ledger.find(reference)]})

    @route("GET", "/v3/operacoes/{operacaoId}/detalhe", "status", contract="operacaoId")
    def status(self, request: Request) -> web.Response:
        return answer(self._operation(self.contract(request.params["operacaoId"])))

    @route("POST", "/v3/operacoes/{operacaoId}/link-formalizacao", "formalize", contract="operacaoId")
    def formalize(self, request: Request) -> web.Response:
        contract = self.contract(request.params["operacaoId"])
        channel = _delivery(self.json_fields(request))
        return answer(self._operation(self.formalized(contract, channel)))

    def _step_named(self, request: Request) -> Step:
        step = self.authorizations.get(request.params["autorizacaoId"])
        if step is None:
            raise Refusal(error(404, "autorizacao nao encontrada"))
        return step

    def _simulated(self, consultation: Consultation) -> web.Response:
        # The errors are ordinary answers and not `Refusal`s, because the request had effects: an SMS may have been
        # sent.
        if consultation.reason is not None:
            return error(400, consultation.reason, motivo="SEM_OFERTA")
        if consultation.step is not None:
            self.authorizations[consultation.step.id] = consultation.step
        if not consultation.offers:
            return _unauthorized(consultation.step)
        return answer({"id": [_offer(offer) for offer in consultation.offers]})

    def _operation(self, contract: Contract) -> dict[str, Any]:
        url, step = contract.signature_url, contract.signature
        return {
            "operacaoId": contract.id,
            "identificadorExterno": contract.reference,
            "situacao": self.status_word(contract, STATUS_WORDS),
            **self.why_refused(contract, "motivoRecusa"),
            "dataCriacao": _moment(contract.created_at),
            "formalizacao": {"link": url, "validade": _until(step)} if url and step else None,
            "averbacao": _averbation(contract.averbation) if contract.status == "signed" else None,
            "prazoDesistencia": _day(contract.withdrawal_until) if contract.withdrawal_until else None,
            "desistenciaEm": _moment(contract.withdrawn_at) if contract.withdrawn_at else None,
        }


def _unauthorized(step: Step | None) -> web.Response:
    return error(
        403, "consulta nao autorizada pelo titular", autorizacao=_authorization(step) if step is not None else None
    )


def _authorization(step: Step) -> dict[str, Any]:
    return {"autorizacaoId": step.id, "situacao": STEP_WORDS[step.status], "validade": _until(step)}


def _offer(offer: Offer) -> dict[str, Any]:
    quote, employment = offer.quote, offer.employment
    return {
        "simulacaoId": offer.key,
        "tabelaId": offer.table,
        "seguro": quote.insured,
        "valorLiquido": quote.amount,
        "quantidadeParcelas": quote.term,
        "valorParcela": quote.installment,
        "valorTotal": quote.total,
        "taxa": quote.rate,
        "cet": quote.monthly_cost,
        "primeiroVencimento": _day(offer.first_due_date),
        "vinculo": {
            "registroEmpregaticio": employment.registration,
            "cnpjEmpregador": employment.cnpj,
            "nomeEmpregador": employment.name,
            "cargo": employment.job_title,
            "dataAdmissao": _day(employment.admitted_on),
        },
    }


def _averbation(averbation: Averbation | None) -> dict[str, Any] | None:
    if averbation is None:
        return None
    return {
        "desde": _moment(averbation.since),
        "averbadaEm": _moment(averbation.done_at) if averbation.done_at else None,
        "pendencia": averbation.failure,
        "proximaTentativa": _moment(averbation.next_try_at) if averbation.next_try_at else None,
    }


def _wish(body: Fields) -> Ask:
    body.optional_texts("carteiraId")
    wish = body.object("proposta")
    amount = wish.optional_money("valorSolicitado")
    installment = wish.optional_money("valorParcela")
    return Ask(
        amount=amount,
        installment=installment,
        term=wish.optional_term("quantidadeParcelas"),
        with_insurance=wish.boolean("comSeguro"),
    )


def _person(holder: Fields) -> str:
    """The holder of a query; returns the CPF."""
    holder.text("nome", longest=120)
    _read_day(holder, "dataNascimento")
    holder.text("email", EMAIL)
    phone = holder.object("telefone")
    phone.text("ddd", r"\d{2}")
    phone.text("numero", r"\d{8,9}")
    return holder.text("cpf", CPF)


def _consent(consent: Fields) -> None:
    """The holder's acceptance and its evidence."""
    _read_moment(consent, "dataHora")
    consent.ip("ip")
    consent.optional_texts("protocolo", "userAgent", "deviceModel", "plataforma")
    _place(consent)
    if consent.has("aplicativo"):
        app = consent.object("aplicativo")
        app.optional_texts("protocolo", "dataAssinatura", "userAgent", "sistemaOperacional")
        app.optional_texts("deviceModel", "deviceName", "deviceType")
        _place(app)


def _place(fields: Fields) -> None:
    if not fields.has("geoLocalizacao"):
        return
    place = fields.object("geoLocalizacao")
    place.position("latitude", "longitude")
    place.optional_accuracy("precisao")


def _borrower(holder: Fields) -> str:
    """The borrower; returns the CPF."""
    cpf = _person(holder)
    holder.text("sexo", one_of=SEXES)
    holder.text("nomeMae", longest=120)
    holder.father("nomePai")
    holder.optional_text("estadoCivil", one_of=MARITAL_STATUSES)
    work = holder.object("vinculoEmpregaticio")
    for name in EMPLOYMENT_FIELDS:
        work.text(name, longest=120)
    for name in work.data:
        if name not in EMPLOYMENT_FIELDS:
            work.refuse(name, Problem.VALUE)
    holder.object("endereco").address("cep", ("rua", "numero", "bairro", "cidade"), "complemento", "estado")
    return cpf


def _credit(bank: Fields, cpf: str) -> None:
    """The payment to an account or a PIX key; fields of both are refused."""
    way = bank.integer("formaCredito")
    if way not in (SAVINGS, CURRENT, PIX):
        bank.refuse("formaCredito", Problem.VALUE)
    for name in ACCOUNT_FIELDS if way == PIX else PIX_FIELDS:
        if bank.has(name):
            bank.refuse(name, Problem.VALUE)
    if way == PIX:
        kind = bank.integer("tipoChavePixId")
        if kind not in PIX_KEYS:
            bank.refuse("tipoChavePixId", Problem.VALUE)
        if bank.text("chavePix", PIX_KEYS[kind]) != cpf and kind == CPF_KEY:
            bank.refuse("chavePix", Problem.VALUE)
        return
    bank.account(*ACCOUNT_FIELDS)


def _delivery(body: Fields) -> str | None:
    return body.optional_word("envioLink", DELIVERIES)


def _read_moment(fields: Fields, name: str) -> datetime:
    fields.text(name, MOMENT)
    return fields.moment(name, LAYOUT)


def _read_day(fields: Fields, name: str) -> date:
    """A date, written as midnight in its own UTC offset."""
    moment = _read_moment(fields, name)
    if (moment.hour, moment.minute, moment.second) != (0, 0, 0):
        fields.refuse(name, Problem.FORMAT)
    return moment.date()


def _moment(moment: datetime) -> str:
    return moment.astimezone(ZONE).isoformat(timespec="seconds")


def _day(day: date) -> str:
    return datetime(day.year, day.month, day.day, tzinfo=ZONE).isoformat()


def _until(step: Step) -> str | None:
    return _moment(step.expires_at) if step.expires_at is not None else None
