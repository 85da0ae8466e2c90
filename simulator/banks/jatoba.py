"""The simulated bank `jatoba`: Portuguese camelCase, whole cents, HTTP 200 for its errors, a term signed by the caller.

The manual is `docs/banks/jatoba.md`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from aiohttp import web

from simulator.bank import Bank, Consultation, Refusal
from simulator.fields import BR_DATE, CPF, EMAIL, LARGEST_AMOUNT, Fields, Problem
from simulator.ledger import Contract, Offer
from simulator.messages import Request, answer
from simulator.numbers import Ask
from simulator.routes import route

CREDENTIALS = {
    "user": "originador.sandbox",
    "password": "jatoba-sandbox-senha-nao-secreta",
    "api_key": "jatoba-sandbox-apikey-nao-secreta",
    "term_key": "jatoba-sandbox-chave-do-termo-nao-secreta",
}
TOKEN_TTL_S = 30 * 60

BRASILIA = timezone(timedelta(hours=-3))
BR_MOMENT = "%d/%m/%Y %H:%M:%S"

STATUS_WORDS = {
    "created": "DIGITADA",
    "in_analysis": "EM_ANALISE",
    "awaiting_signature": "PENDENTE_ASSINATURA",
    "signed": "ASSINADA",
    "disbursed": "LIQUIDADA",
    "rejected": "RECUSADA",
    "cancelled": "CANCELADA",
    "expired": "EXPIRADA",
}
SEXES = ("1", "2")
MARITAL_STATUSES = ("10", "20", "30", "40", "50", "60")
ACCOUNT_TYPES = ("CC", "CP", "CS")
PIX_KEYS = {"CPF": CPF, "EMAIL": EMAIL, "EVP": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"}
PHONE_PIX_KEYS = ("TELEFONE", "CELULAR")
DELIVERIES = {"SMS": "sms", "WHATSAPP": "whatsapp"}
DEGREES = r"-?\d{1,3}(\.\d+)?"

PROBLEM_CODES = {Problem.MISSING: "10", Problem.TYPE: "11", Problem.FORMAT: "12", Problem.VALUE: "13"}


def success(data: Any) -> web.Response:
    """The envelope of a successful answer."""
    return answer({"sucesso": True, "codigo": "0", "mensagem": "", "dados": data})


def failure(code: str, message: str, status: int = 200) -> web.Response:
    """The envelope of an error. HTTP 200, except for logins and tokens."""
    return answer({"sucesso": False, "codigo": code, "mensagem": message, "dados": None}, status)


class Jatoba(Bank):
    name = "jatoba"
    title = "Jatobá"
    rate = Decimal("2.15")
    tables = ("JTB0101", "JTB0102")
    ceiling = (10500, 48)
    due_day = 5
    issues_after_s = 1.5
    refusals = {
        "age_limit": "cliente fora da faixa etaria",
        "credit_policy": "cliente recusado por politica interna",
        "data_mismatch": "dados do cliente divergem da base",
        "employer_not_eligible": "empresa sem convenio",
        "existing_contract": "ja existe contrato em andamento para este cliente",
        "invalid_account": "conta para credito invalida",
        "no_employment_link": "cliente sem vinculo ativo",
        "no_margin": "margem consignavel insuficiente",
        "worker_not_eligible": "cliente em periodo de experiencia",
    }

    def authenticate(self, request: Request) -> None:
        if not (self.tokens.valid(request.bearer()) and _has_api_key(request)):
            raise Refusal(self.token_refused())

    def token_refused(self) -> web.Response:
        return failure("1", "Token invalido ou expirado", 401)

    def bad_field(self, field: str | None, problem: Problem) -> web.Response:
        return failure(PROBLEM_CODES[problem], f"{field or 'corpo'}: {problem}")

    def no_contract(self) -> web.Response:
        return failure("40", "Proposta nao encontrada")

    def wrong_state(self, contract: Contract) -> web.Response:
        return failure("41", f"Operacao nao permitida na situacao {self.status_word(contract, STATUS_WORDS)}")

    def new_contract_id(self) -> str:
        return str(8_000_000_000 + secrets.randbelow(1_000_000_000))

    @route("POST", "/v1/tokens", "token", public=True)
    def issue_token(self, request: Request) -> web.Response:
        if not (request.has_basic_auth(CREDENTIALS["user"], CREDENTIALS["password"]) and _has_api_key(request)):
            raise Refusal(failure("2", "Credenciais invalidas", 401))
        return success({"token": self.tokens.issue(TOKEN_TTL_S), "expiraEmSegundos": TOKEN_TTL_S})

    @route("POST", "/v1/consignado-privado/simulacoes", "query", cpf="cliente.cpf")
    def simulate(self, request: Request) -> web.Response:
        body = self.json_fields(request)
        client = body.object("cliente")
        cpf = _person(client)
        client.optional_text("sexo", one_of=SEXES)
        _origin(body)
        ask = _ask(body.object("simulacao"))
        _term(body.object("termo"), cpf)
        consultation = self.consult(cpf, ask)
        if consultation.reason is not None:
            raise Refusal(failure("20", consultation.reason))
        return success(_simulation(consultation))

    @route(
        "POST",
        "/v1/consignado-privado/propostas",
        "submit",
        cpf="proponente.cpf",
        reference="identificadorParceiro",
    )
    def submit(self, request: Request) -> web.Response:
        body = self.json_fields(request)
        reference = body.text("identificadorParceiro", longest=64)
        offer = self.offers.get(body.text("idOferta"))
        _origin(body)
        holder = body.object("proponente")
        cpf = _person(holder)
        _holder_details(holder)
        _employment(body.object("vinculo"))
        _credit(body.object("credito"), cpf)
        body.object("aceite").ip("enderecoIp")
        channel = _delivery(body)
        if known := self.ledger.find(reference):
            return success(self._proposal(known[0]))
        if offer is None:
            raise Refusal(failure("42", "Oferta inexistente ou vencida"))
        if offer.cpf != cpf:
            holder.refuse("cpf", Problem.VALUE)
        scenario = self.scenario_of_submission(cpf)
        if scenario.submit == "rejected":
            raise Refusal(failure("30", scenario.message))
        return success(self._proposal(self.ledger.create(reference, offer, scenario, channel=channel)))

    @route("GET", "/v1/consignado-privado/propostas", "find", reference="identificadorParceiro")
    def find(self, request: Request) -> web.Response:
        reference = self.query_fields(request).text("identificadorParceiro", longest=64)
        contracts = self.ledger.find(reference)
        if not contracts:
            raise Refusal(self.no_contract())
        return success(self._proposal(contracts[0]))

    @route("GET", "/v1/consignado-privado/propostas/{numeroProposta}", "status", contract="numeroProposta")
    def status(self, request: Request) -> web.Response:
        return success(self._proposal(self.contract(request.params["numeroProposta"])))

    @route("POST", "/v1/consignado-privado/propostas/{numeroProposta}/emissao", "formalize", contract="numeroProposta")
    def formalize(self, request: Request) -> web.Response:
        contract = self.contract(request.params["numeroProposta"])
        channel = _delivery(self.json_fields(request))
        return success(self._proposal(self.formalized(contract, channel)))

    def _proposal(self, contract: Contract) -> dict[str, Any]:
        step, url = contract.signature, contract.signature_url
        return {
            "numeroProposta": contract.id,
            "identificadorParceiro": contract.reference,
            "situacao": self.status_word(contract, STATUS_WORDS),
            **self.why_refused(contract, "motivoRecusa"),
            "linkAssinatura": url,
            "validadeLink": _local(step.expires_at) if url and step and step.expires_at else None,
            "numeroContrato": contract.number,
            "dataLiquidacao": _local(contract.disbursed_at) if contract.disbursed_at else None,
            "valorLiquidado": int(contract.offer.quote.amount * 100) if contract.disbursed_at else None,
        }


def _has_api_key(request: Request) -> bool:
    return secrets.compare_digest(request.headers.get("ApiKey", "").encode(), CREDENTIALS["api_key"].encode())


def _person(person: Fields) -> str:
    """The client's data in every request; returns the CPF."""
    person.text("nome", longest=120)
    person.date("dataNascimento", BR_DATE)
    person.text("email", EMAIL)
    phone = person.object("telefone")
    phone.text("ddd", r"\d{2}")
    phone.text("numero", r"\d{8,9}")
    return person.text("cpf", CPF)


def _term(term: Fields, cpf: str) -> None:
    """The authorization term. It must be complete, signed with the originator's key, and include the client's
    geolocation."""
    term.require_keys(
        "latitude",
        "longitude",
        "precisaoMetros",
        "agenteUsuario",
        "modeloAparelho",
        "plataforma",
        "idSessao",
        "autorizacaoApp",
    )
    term.moment("aceitoEm", BR_MOMENT)
    term.ip("enderecoIp")
    term.position("latitude", "longitude", DEGREES, optional=True)
    term.optional_text("precisaoMetros", r"\d+(\.\d+)?")
    term.optional_texts("agenteUsuario", "modeloAparelho", "plataforma", "idSessao")
    if term.has("autorizacaoApp"):
        _app_authorization(term.object("autorizacaoApp"))
    data = term.data
    signed = (cpf, data["aceitoEm"], data["enderecoIp"], data["latitude"] or "", data["longitude"] or "")
    expected = hmac.new(CREDENTIALS["term_key"].encode(), ";".join(signed).encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(term.text("assinatura", r"[0-9a-f]{64}"), expected):
        raise Refusal(failure("22", "Assinatura do termo nao confere"))
    if not (term.has("latitude") and term.has("longitude")):
        raise Refusal(failure("21", "Termo assinado sem geolocalizacao do cliente"))


def _app_authorization(app: Fields) -> None:
    names = (
        "id",
        "assinadaEm",
        "agenteUsuario",
        "sistemaOperacional",
        "modeloAparelho",
        "nomeAparelho",
        "tipoAparelho",
    )
    app.require_keys(*names, "latitude", "longitude")
    app.optional_texts(*names)
    app.position("latitude", "longitude", DEGREES, optional=True)


def _origin(body: Fields) -> None:
    body.optional_texts("codigoOrigem", longest=120)


def _delivery(body: Fields) -> str | None:
    return body.optional_word("envioLink", DELIVERIES)


def _ask(simulation: Fields) -> Ask:
    simulation.require_keys("valor", "prazo")
    mode = simulation.text("modalidade", one_of=("MARGEM_TOTAL", "VALOR_SOLICITADO", "VALOR_PARCELA"))
    amount = None if mode == "MARGEM_TOTAL" else _reais(simulation, "valor")
    return Ask(
        amount=amount if mode == "VALOR_SOLICITADO" else None,
        installment=amount if mode == "VALOR_PARCELA" else None,
        term=simulation.optional_term("prazo"),
        with_insurance=simulation.boolean("comSeguro"),
    )


def _reais(fields: Fields, name: str) -> Decimal:
    cents = fields.integer(name, least=1)
    if cents >= LARGEST_AMOUNT:
        fields.refuse(name, Problem.VALUE)
    return Decimal(cents) / 100


def _holder_details(holder: Fields) -> None:
    holder.text("sexo", one_of=SEXES)
    holder.text("estadoCivil", one_of=MARITAL_STATUSES)
    holder.text("nomeMae", longest=120)
    holder.father("nomePai")
    lines = ("logradouro", "numero", "bairro", "cidade")
    holder.object("endereco").address("cep", lines, "complemento", "uf")


def _employment(employment: Fields) -> None:
    employment.text("matricula")
    employment.optional_text("cargo", longest=120)
    if employment.has("salario"):
        _reais(employment, "salario")
    if employment.has("dataAdmissao"):
        employment.date("dataAdmissao", BR_DATE)


def _credit(credit: Fields, cpf: str) -> None:
    if credit.text("forma", one_of=("CONTA", "PIX")) == "PIX":
        if credit.text("tipoChave") in PHONE_PIX_KEYS:
            raise Refusal(failure("31", "Chave PIX do tipo telefone nao aceita"))
        credit.pix_key("tipoChave", "chave", PIX_KEYS, cpf)
        return
    credit.account("banco", "agencia", "digitoAgencia", "conta", "digitoConta")
    credit.text("tipoConta", one_of=ACCOUNT_TYPES)


def _simulation(consultation: Consultation) -> dict[str, Any]:
    return {
        "vinculos": [
            {
                "matricula": each.registration,
                "cnpjEmpregador": each.cnpj,
                "nomeEmpregador": each.name,
                "cargo": each.job_title,
                "dataAdmissao": _day(each.admitted_on),
                "margemDisponivel": _hundredths(each.margin),
            }
            for each in consultation.employments
        ],
        "ofertas": [_offer(each) for each in consultation.offers],
    }


def _offer(offer: Offer) -> dict[str, Any]:
    quote = offer.quote
    return {
        "idOferta": offer.key,
        "matricula": offer.employment.registration,
        "codigoTabela": offer.table,
        "valorLiberado": _hundredths(quote.amount),
        "valorParcela": _hundredths(quote.installment),
        "quantidadeParcelas": quote.term,
        "valorTotal": _hundredths(quote.total),
        "taxaMensal": _hundredths(quote.rate),
        "custoEfetivoMensal": _hundredths(quote.monthly_cost),
        "valorIof": _hundredths(quote.iof),
        "valorSeguro": _hundredths(quote.insurance),
        "comSeguro": quote.insured,
        "primeiroVencimento": _day(offer.first_due_date),
    }


def _hundredths(value: Decimal) -> int:
    """Reais as cents, or percent as hundredths of a percent. Exact, because all values have two decimals."""
    return int(value * 100)


def _day(day: date) -> str:
    return day.strftime(BR_DATE)


def _local(moment: datetime) -> str:
    return moment.astimezone(BRASILIA).strftime(BR_MOMENT)
