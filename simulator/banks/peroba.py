"""The simulated bank `peroba`: two authentication headers, PascalCase, decimals as text, the outcome in the HTTP
status.

The manual is `docs/banks/peroba.md`.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from decimal import Decimal
from typing import Any

from aiohttp import web

from simulator.bank import Bank, Consultation, Refusal
from simulator.fields import CPF, EMAIL, Fields, Problem
from simulator.ledger import Contract, Offer
from simulator.messages import Request, answer
from simulator.numbers import Ask
from simulator.routes import Route, route
from simulator.world import Step

CREDENTIALS = {
    "gateway_key": "peroba-sandbox-gateway-key-not-a-secret",
    "user": "sandbox-originator",
    "password": "peroba-sandbox-password-not-a-secret",
}
TOKEN_TTL_MIN = 480
MOMENT = "%Y-%m-%dT%H:%M:%SZ"

ANSWER, AUTHORIZE_FIRST = 201, 202

STATUS_WORDS = {
    "created": "Cadastrada",
    "in_analysis": "EmMesa",
    "awaiting_signature": "AguardandoAssinatura",
    "signed": "Averbando",
    "disbursed": "Paga",
    "rejected": "Reprovada",
    "cancelled": "Desistida",
    "expired": "AssinaturaVencida",
}
ENDED_STEPS = {
    "refused": ("Negada", "O cliente recusou a autorizacao."),
    "expired": ("Vencida", "O prazo da autorizacao terminou."),
}
GENDERS = ("H", "M")  # homem, mulher
MARITAL_STATUSES = ("S", "C", "D", "V", "Q", "U")
ACCOUNT_TYPES = ("ContaCorrente", "ContaPoupanca", "ContaSalario")
DELIVERIES = {"Sms": "sms", "WhatsApp": "whatsapp"}
DEGREES = r"-?\d{1,3}(\.\d{1,15})?"


def say(status: int, sentence: str | None) -> web.Response:
    """An answer that consists of a sentence; with status 202, of a URL."""
    return answer({"Mensagem": sentence}, status)


class Peroba(Bank):
    name = "peroba"
    rate = Decimal("2.35")
    tables = ("PRB01", "PRB02")
    ceiling = (7400, 24)
    due_day = 15
    refusals = {
        "age_limit": "a idade do cliente nao permite a operacao",
        "credit_policy": "o cliente nao atende a politica de credito",
        "data_mismatch": "os dados do cliente nao conferem",
        "employer_not_eligible": "o empregador nao esta habilitado",
        "existing_contract": "ja existe contrato em andamento para este cliente",
        "invalid_account": "a conta informada nao pode receber o credito",
        "no_employment_link": "nao ha vinculo para o cpf informado",
        "no_margin": "margem consignavel insuficiente",
        "worker_not_eligible": "o cliente nao se enquadra no produto",
    }

    def reset(self, keep_tokens: bool = False) -> None:
        super().reset(keep_tokens)
        self._consultations: dict[str, Step] = {}

    def authenticate(self, request: Request) -> None:
        self._pass_gateway(request)
        if not self.tokens.valid(request.bearer()):
            raise Refusal(self.token_refused())

    def token_refused(self) -> web.Response:
        return say(401, "Token invalido ou expirado.")

    def bad_field(self, field: str | None, problem: Problem) -> web.Response:
        return say(400, f"{field or 'Corpo'}: {problem}.")

    def no_contract(self) -> web.Response:
        return say(404, "Proposta nao encontrada.")

    def wrong_state(self, contract: Contract) -> web.Response:
        return say(409, f"Operacao nao permitida: proposta {self.status_word(contract, STATUS_WORDS)}.")

    def new_contract_id(self) -> str:
        return f"PRB{secrets.randbelow(10**12):012d}"

    def identify(self, matched: Route, request: Request) -> tuple[str | None, str | None]:
        step = self._consultations.get(request.params.get("protocolo", ""))
        return (None, step.cpf) if step is not None else super().identify(matched, request)

    @route("POST", "/Acesso/Token", "token", public=True)
    def issue_token(self, request: Request) -> web.Response:
        self._pass_gateway(request)
        body = self.json_fields(request)
        if not body.has_secrets(Usuario=CREDENTIALS["user"], Senha=CREDENTIALS["password"]):
            raise Refusal(say(401, "Usuario ou senha invalidos."))
        token = self.tokens.issue(TOKEN_TTL_MIN * 60)
        return answer({"Mensagem": None, "Token": token, "ValidadeMinutos": TOKEN_TTL_MIN}, ANSWER)

    @route("POST", "/ConsignadoPrivado/Consultas", "query", cpf="Cliente.Cpf")
    def consult_offers(self, request: Request) -> web.Response:
        body = self.json_fields(request)
        client = body.object("Cliente")
        cpf = _person(client)
        client.optional_text("Genero", one_of=GENDERS)
        _evidence(body.object("Aceite"))
        return self._consultation(self.consult(cpf, _wish(body)))

    @route("POST", "/ConsignadoPrivado/Consultas/{protocolo}", "poll")
    def look_again(self, request: Request) -> web.Response:
        ask = _wish(self.json_fields(request))
        step = self._consultations.get(request.params["protocolo"])
        if step is None:
            raise Refusal(say(404, "Consulta nao encontrada."))
        if step.status == "open":
            return self._waiting(step)
        if step.status in ENDED_STEPS:
            word, sentence = ENDED_STEPS[step.status]
            return answer({"Mensagem": sentence, "Autorizacao": word, "Vinculos": [], "Simulacoes": []}, ANSWER)
        return self._consultation(self.consult(step.cpf, ask, opens=False))

    @route("POST", "/ConsignadoPrivado/Propostas", "submit", cpf="Cliente.Cpf", reference="IdentificadorExterno")
    def submit(self, request: Request) -> web.Response:
        body = self.json_fields(request)
        reference = body.text("IdentificadorExterno", longest=64)
        key = body.text("CodigoSimulacao")
        client = body.object("Cliente")
        cpf = _person(client)
        _client_details(client)
        _payment(body.object("Pagamento"))
        body.object("Aceite").ip("EnderecoIp")
        channel = _channel(body)
        if known := self.ledger.find(reference):
            return self._proposal(known[0])
        if not self.authorized(cpf):
            step = self.world.newest_step(self.name, cpf, "chat", only_open=True)
            raise Refusal(say(AUTHORIZE_FIRST, step.url if step else None))
        offer = self.offers.get(key)
        if offer is None:
            raise Refusal(say(404, "Simulacao nao encontrada."))
        if offer.cpf != cpf:
            body.refuse("Cliente.Cpf", Problem.VALUE)
        scenario = self.scenario_of_submission(cpf)
        if scenario.submit == "rejected":
            raise Refusal(say(400, scenario.message))
        return self._proposal(self.ledger.create(reference, offer, scenario, channel=channel))

    @route("GET", "/ConsignadoPrivado/Propostas", "find", reference="IdentificadorExterno")
    def find(self, request: Request) -> web.Response:
        contracts = self.ledger.find(self.query_fields(request).text("IdentificadorExterno"))
        if not contracts:
            raise Refusal(self.no_contract())
        return self._proposal(contracts[0])

    @route("GET", "/ConsignadoPrivado/Propostas/{codigo}", "status", contract="codigo")
    def status(self, request: Request) -> web.Response:
        return self._proposal(self.contract(request.params["codigo"]))

    @route("POST", "/ConsignadoPrivado/Propostas/{codigo}/Formalizacao", "formalize", contract="codigo")
    def formalize(self, request: Request) -> web.Response:
        contract = self.contract(request.params["codigo"])
        return self._proposal(self.formalized(contract, _channel(self.json_fields(request))))

    def _pass_gateway(self, request: Request) -> None:
        key = request.headers.get("X-Gateway-Key", "")
        if not secrets.compare_digest(key.encode("utf-8", "replace"), CREDENTIALS["gateway_key"].encode()):
            raise Refusal(say(403, "Chave do gateway invalida."))

    def _waiting(self, step: Step) -> web.Response:
        self._consultations[step.id] = step
        return answer(
            {
                "Mensagem": step.url,
                "Protocolo": step.id,
                "Autorizacao": "Aguardando",
                "ValidoAte": _moment(step.expires_at),
            },
            AUTHORIZE_FIRST,
        )

    def _consultation(self, consultation: Consultation) -> web.Response:
        if consultation.step is not None and consultation.step.status != "approved":
            return self._waiting(consultation.step)
        payload = {
            "Mensagem": consultation.reason,
            "Autorizacao": "Concedida" if consultation.step else "Dispensada",
            "Vinculos": [
                {
                    "Matricula": employment.registration,
                    "CnpjEmpregador": employment.cnpj,
                    "NomeEmpregador": employment.name,
                    "Cargo": employment.job_title,
                    "DataAdmissao": employment.admitted_on.isoformat(),
                }
                for employment in consultation.employments
            ],
            "Simulacoes": [_simulation(offer) for offer in consultation.offers],
        }
        return answer(payload, ANSWER)

    def _proposal(self, contract: Contract) -> web.Response:
        url, step, averbation = contract.signature_url, contract.signature, contract.averbation
        payload = {
            "Codigo": contract.id,
            "IdentificadorExterno": contract.reference,
            "CodigoSimulacao": contract.offer.key,
            "Situacao": self.status_word(contract, STATUS_WORDS),
            **self.why_refused(contract, "MotivoReprovacao"),
            "CriadaEm": _moment(contract.created_at),
            "LinkAssinatura": url,
            "LinkValidoAte": _moment(step.expires_at) if url and step else None,
            "Averbacao": {"Desde": _moment(averbation.since)} if averbation else None,
        }
        return answer({"Mensagem": None, "Proposta": payload}, ANSWER)


def _person(client: Fields) -> str:
    """The holder's data in both requests; returns the CPF."""
    client.text("Nome", longest=120)
    client.date("DataNascimento")
    client.text("Email", EMAIL)
    phone = client.object("Celular")
    phone.text("Ddd", r"\d{2}")
    phone.text("Numero", r"\d{8,9}")
    return client.text("Cpf", CPF)


def _evidence(acceptance: Fields) -> None:
    """The evidence of the holder's acceptance. Evidence that was not collected is null, but the fields are required."""
    devices = ("Protocolo", "Navegador", "Aparelho", "Plataforma")
    acceptance.require_keys(*devices, "Latitude", "Longitude", "PrecisaoMetros")
    acceptance.ip("EnderecoIp")
    acceptance.moment("DataHora", MOMENT)
    acceptance.optional_texts(*devices)
    acceptance.position("Latitude", "Longitude", DEGREES, optional=True)
    acceptance.optional_text("PrecisaoMetros", r"\d+(\.\d+)?")


def _wish(body: Fields) -> Ask:
    body.require_keys("Carteira")
    body.optional_texts("Carteira", longest=120)
    wish = body.object("Simulacao")
    wish.require_keys("ValorLiberado", "ValorParcela", "QuantidadeParcelas")
    return Ask(
        amount=wish.optional_money_text("ValorLiberado"),
        installment=wish.optional_money_text("ValorParcela"),
        term=wish.optional_term("QuantidadeParcelas"),
        with_insurance=wish.boolean("ComSeguro"),
    )


def _client_details(client: Fields) -> None:
    client.text("Genero", one_of=GENDERS)
    client.text("NomeMae", longest=120)
    client.father("NomePai")
    client.optional_text("EstadoCivil", one_of=MARITAL_STATUSES)
    client.optional_texts("Nacionalidade", longest=60)
    lines = ("Logradouro", "Numero", "Bairro", "Cidade")
    client.object("Endereco").address("Cep", lines, "Complemento", "Uf")


def _payment(payment: Fields) -> None:
    payment.account("Banco", "Agencia", "DigitoAgencia", "Conta", "DigitoConta")
    payment.text("TipoConta", one_of=ACCOUNT_TYPES)


def _channel(body: Fields) -> str | None:
    if not body.has("EnvioAssinatura"):
        return None
    return DELIVERIES[body.text("EnvioAssinatura", one_of=DELIVERIES)]


def _simulation(offer: Offer) -> dict[str, Any]:
    quote = offer.quote
    return {
        "CodigoSimulacao": offer.key,
        "Matricula": offer.employment.registration,
        "CodigoTabela": offer.table,
        "ValorLiberado": str(quote.amount),
        "ValorParcela": str(quote.installment),
        "QuantidadeParcelas": quote.term,
        "ValorTotal": str(quote.total),
        "TaxaMes": str(quote.rate),
        "CetMes": str(quote.monthly_cost),
        "ComSeguro": quote.insured,
        "PrimeiroVencimento": offer.first_due_date.isoformat(),
    }


def _moment(at: datetime | None) -> str | None:
    return at.strftime(MOMENT) if at else None
