"""The simulated bank `imbuia`: a liveness proof at a URL, versioned media types, a token without "Bearer", callbacks.

The manual is `docs/banks/imbuia.md`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import uuid
from datetime import datetime
from decimal import Decimal
from typing import Any

from aiohttp import web

from simulator.bank import Bank, Consultation, Refusal
from simulator.fields import CPF, EMAIL, RANDOM_KEY, STATE, Fields, Problem
from simulator.ledger import Contract, Offer
from simulator.messages import Request, answer
from simulator.numbers import Ask
from simulator.routes import Route, route
from simulator.world import Step

CREDENTIALS = {
    "username": "parceiro-sandbox",
    "password": "imbuia-sandbox-secret-not-a-secret",
    "callback_secret": "imbuia-callback-secret-not-a-secret",
}
TOKEN_TTL_S = 1199
TIME = "%Y-%m-%dT%H:%M:%SZ"

QUERY_TYPE = "application/vnd.imbuia.consulta_v3+json"
LIVENESS_TYPE = "application/vnd.imbuia.biometria_v1+json"
SIMULATION_TYPE = "application/vnd.imbuia.simulacao_v2+json"
PROPOSAL_TYPE = "application/vnd.imbuia.proposta_v2+json"
FORMALIZATION_TYPE = "application/vnd.imbuia.formalizacao_v1+json"
ERROR_TYPE = "application/json"

STATUS_WORDS = {
    "created": "INCLUIDA",
    "in_analysis": "EM_ANALISE",
    "awaiting_signature": "AGUARDANDO_FORMALIZACAO",
    "signed": "FORMALIZADA",
    "disbursed": "PAGA",
    "rejected": "REPROVADA",
    "cancelled": "CANCELADA",
    "expired": "FORMALIZACAO_EXPIRADA",
}
STEP_WORDS = {"open": "PENDENTE", "approved": "APROVADA", "refused": "REPROVADA", "expired": "EXPIRADA"}
SEXES = ("MASC", "FEM")
MARITAL_STATUSES = ("SOL", "CAS", "DIV", "VIU", "SEP", "UNE")
ACCOUNT_TYPES = ("ContaCorrenteIndividual", "ContaPoupancaIndividual", "ContaSalario")
PIX_KEYS = {
    "CPF": CPF,
    "CELULAR": r"\d{10,11}",
    "EMAIL": EMAIL,
    "EVP": RANDOM_KEY,
}
ADDRESS_LINES = ("logradouro", "numero", "bairro", "cidade")
DELIVERIES = {"SMS": "sms", "WHATSAPP": "whatsapp"}

PROBLEMS = {
    Problem.MISSING: "REQ-001",
    Problem.TYPE: "REQ-002",
    Problem.FORMAT: "REQ-003",
    Problem.VALUE: "REQ-004",
}


def error(status: int, message: str, code: str, detail: str) -> web.Response:
    """An error in this bank's format."""
    return answer({"message": message, "details": [{"code": code, "message": detail}]}, status, ERROR_TYPE)


def not_found(code: str, what: str) -> web.Response:
    return error(404, "Recurso nao encontrado", code, f"{what} nao encontrada")


class Imbuia(Bank):
    name = "imbuia"
    rate = Decimal("1.79")
    tables = ("IMB-0117", "IMB-0118")
    ceiling = (15000, 60)
    due_day = 8
    issues_after_s = 1.5
    refusals = {
        "age_limit": "idade nao aceita",
        "credit_policy": "politica de credito nao atendida",
        "data_mismatch": "biometria nao confere com o titular",
        "employer_not_eligible": "empregador nao aceito",
        "existing_contract": "ja existe contrato em andamento para este cliente",
        "invalid_account": "dados de pagamento invalidos",
        "no_employment_link": "trabalhador sem vinculo ativo",
        "no_margin": "margem consignavel insuficiente",
        "worker_not_eligible": "trabalhador nao aceito",
    }

    def reset(self, keep_tokens: bool = False) -> None:
        super().reset(keep_tokens)
        self.proofs: dict[str, Step] = {}

    def authenticate(self, request: Request) -> None:
        if not self.tokens.valid(request.headers.get("Authorization", "")):
            raise Refusal(self.token_refused())

    def token_refused(self) -> web.Response:
        return error(401, "Nao autorizado", "AUT-002", "token invalido ou expirado")

    def bad_field(self, field: str | None, problem: Problem) -> web.Response:
        return error(400, "Requisicao invalida", PROBLEMS[problem], f"{field or 'corpo'}: {problem}")

    def no_contract(self) -> web.Response:
        return not_found("PRO-004", "proposta")

    def wrong_state(self, contract: Contract) -> web.Response:
        word = self.status_word(contract, STATUS_WORDS)
        return error(409, "Operacao nao permitida", "PRO-009", f"proposta {word}")

    def new_contract_id(self) -> str:
        return f"7{secrets.randbelow(10**11):011d}"

    def new_offer_key(self) -> str:
        return uuid.uuid4().hex

    def identify(self, matched: Route, request: Request) -> tuple[str | None, str | None]:
        proof = self.proofs.get(request.params.get("id_biometria", ""))
        return (None, proof.cpf) if proof else super().identify(matched, request)

    def step_ended(self, step: Step) -> None:
        now = self.world.clock.now()
        event = f"evt_{secrets.token_hex(12)}"
        body = json.dumps(
            {
                "tipo": "biometria.encerrada",
                "data_hora": now.strftime(TIME),
                "biometria": {"id_biometria": step.id, "situacao": STEP_WORDS[step.status]},
            }
        ).encode()
        moment = str(int(now.timestamp()))
        signed = b".".join((moment.encode(), event.encode(), body))
        key = CREDENTIALS["callback_secret"].encode()
        headers = {
            "Content-Type": "application/json",
            "X-Imbuia-Evento": event,
            "X-Imbuia-Momento": moment,
            "X-Imbuia-Assinatura": hmac.new(key, signed, hashlib.sha256).hexdigest(),
        }
        self.world.call_back(self.name, step.cpf, body, headers)

    @route("POST", "/auth/token", "token", public=True)
    def issue_token(self, request: Request) -> web.Response:
        form = self.form_fields(request)
        if not form.has_secrets(username=CREDENTIALS["username"], password=CREDENTIALS["password"]):
            raise Refusal(error(401, "Nao autorizado", "AUT-001", "usuario ou senha invalidos"))
        return answer({"access_token": self.tokens.issue(TOKEN_TTL_S), "expires_in_seconds": TOKEN_TTL_S})

    # --- query and liveness proof

    @route("POST", "/marketplace/consultas", "query", cpf="trabalhador.cpf")
    def query(self, request: Request) -> web.Response:
        _check_version(request, QUERY_TYPE)
        body = self.json_fields(request)
        worker = body.object("trabalhador")
        cpf = worker.text("cpf", CPF)
        _person(worker)
        worker.optional_text("sexo", one_of=SEXES)
        _acceptance(body.object("aceite"))
        body.optional_texts("codigo_origem")
        return answer(self._consulted(self.consult(cpf, _ask(body.object("simulacao")))), media_type=QUERY_TYPE)

    @route("GET", "/marketplace/biometrias/{id_biometria}", "poll")
    def proof(self, request: Request) -> web.Response:
        _check_version(request, LIVENESS_TYPE)
        step = self._proof(request)
        return answer(_proof(step) | {"situacao": STEP_WORDS[step.status]}, media_type=LIVENESS_TYPE)

    @route("POST", "/marketplace/biometrias/{id_biometria}/simulacoes", "poll")
    def simulate(self, request: Request) -> web.Response:
        _check_version(request, SIMULATION_TYPE)
        ask = _ask(self.json_fields(request).object("simulacao"))
        step = self._proof(request)
        if step.status != "approved":
            raise Refusal(_proof_missing())
        return answer(self._consulted(self.consult(step.cpf, ask, opens=False)), media_type=SIMULATION_TYPE)

    # --- proposal

    @route("POST", "/marketplace/propostas", "submit", cpf="titular.cpf", reference="identificador_parceiro")
    def submit(self, request: Request) -> web.Response:
        _check_version(request, PROPOSAL_TYPE)
        body = self.json_fields(request)
        reference = body.text("identificador_parceiro", longest=64)
        simulation = body.text("id_simulacao")
        cpf = _holder(body.object("titular"))
        body.object("endereco").address("cep", ADDRESS_LINES, "complemento", "uf")
        _payment(body, cpf)
        body.object("aceite").ip("ip")
        body.optional_texts("codigo_origem")
        channel = _delivery(body)
        if known := self.ledger.find(reference):
            return answer(self._proposal(known[0]), 201, PROPOSAL_TYPE)
        if not self.authorized(cpf):
            raise Refusal(_proof_missing())
        offer = self.offers.get(simulation)
        if offer is None:
            raise Refusal(not_found("SIM-004", "simulacao"))
        if offer.cpf != cpf:
            body.refuse("titular.cpf", Problem.VALUE)
        scenario = self.scenario_of_submission(cpf)
        if scenario.submit == "rejected":
            raise Refusal(error(422, "Cliente nao aceito", "POL-001", scenario.message))
        contract = self.ledger.create(reference, offer, scenario, channel=channel)
        return answer(self._proposal(contract), 201, PROPOSAL_TYPE)

    @route("GET", "/marketplace/propostas", "find", reference="identificador_parceiro")
    def find(self, request: Request) -> web.Response:
        _check_version(request, PROPOSAL_TYPE)
        reference = self.query_fields(request).text("identificador_parceiro")
        proposals = [self._proposal(contract) for contract in self.ledger.find(reference)]
        return answer(proposals, media_type=PROPOSAL_TYPE)

    @route("GET", "/marketplace/propostas/{numero_proposta}", "status", contract="numero_proposta")
    def status(self, request: Request) -> web.Response:
        _check_version(request, PROPOSAL_TYPE)
        return answer(self._proposal(self.contract(request.params["numero_proposta"])), media_type=PROPOSAL_TYPE)

    @route("POST", "/marketplace/propostas/{numero_proposta}/formalizacao", "formalize", contract="numero_proposta")
    def formalize(self, request: Request) -> web.Response:
        _check_version(request, FORMALIZATION_TYPE)
        contract = self.contract(request.params["numero_proposta"])
        channel = _delivery(self.json_fields(request))
        return answer(self._proposal(self.formalized(contract, channel)), media_type=FORMALIZATION_TYPE)

    def _proof(self, request: Request) -> Step:
        step = self.proofs.get(request.params["id_biometria"])
        if step is None:
            raise Refusal(not_found("BIO-004", "biometria"))
        return step

    def _consulted(self, consultation: Consultation) -> dict[str, Any]:
        waits = consultation.step is not None and consultation.step.status != "approved"
        if consultation.step is not None:
            self.proofs[consultation.step.id] = consultation.step
        return {
            "situacao": "AGUARDANDO_BIOMETRIA" if waits else "AUTORIZADO" if consultation.offers else "SEM_OFERTA",
            "observacao": consultation.reason,
            "biometria": _proof(consultation.step) if consultation.step and waits else None,
            "vinculos": [
                {
                    "matricula": employment.registration,
                    "cnpj_empregador": employment.cnpj,
                    "nome_empregador": employment.name,
                    "cargo": employment.job_title,
                    "data_admissao": employment.admitted_on.isoformat(),
                }
                for employment in consultation.employments
            ],
            "condicoes_credito": [_offer(offer) for offer in consultation.offers],
        }

    def _proposal(self, contract: Contract) -> dict[str, Any]:
        url, step = contract.signature_url, contract.signature
        return {
            "numero_proposta": contract.id,
            "identificador_parceiro": contract.reference,
            "situacao": self.status_word(contract, STATUS_WORDS),
            **self.why_refused(contract, "motivo_reprovacao"),
            "data_inclusao": contract.created_at.strftime(TIME),
            "formalizacao": {"url": url, "situacao": "ATIVA", "data_expiracao": _time(step.expires_at)}
            if url and step
            else None,
        }


def _check_version(request: Request, media_type: str) -> None:
    if request.headers.get("Accept") != media_type:
        raise Refusal(error(406, "Versao nao suportada", "VER-001", f"Accept: use {media_type}"))


def _proof_missing() -> web.Response:
    return error(403, "Nao autorizado", "BIO-003", "prova de vida pendente")


def _person(person: Fields) -> None:
    person.text("nome", longest=120)
    person.date("data_nascimento")
    person.text("email", EMAIL)
    phone = person.object("telefone")
    phone.text("codigo_area", r"\d{2}")
    phone.text("numero", r"\d{8,9}")


def _place(fields: Fields) -> None:
    fields.position("latitude", "longitude")
    fields.optional_accuracy("precisao_metros")


def _acceptance(acceptance: Fields) -> None:
    """The holder's acceptance and its evidence."""
    acceptance.moment("data_hora", TIME)
    acceptance.ip("ip")
    acceptance.optional_texts("identificador")
    if acceptance.has("dispositivo"):
        acceptance.object("dispositivo").optional_texts("agente_usuario", "modelo", "plataforma")
    place = acceptance.object("localizacao")
    if place.text("situacao", one_of=("COLETADA", "NAO_COLETADA")) == "COLETADA":
        _place(place)
    if acceptance.has("aplicativo"):
        app = acceptance.object("aplicativo")
        app.optional_texts("identificador", "data_assinatura", "agente_usuario", "sistema_operacional")
        app.optional_texts("modelo", "nome", "tipo")
        if app.has("latitude") or app.has("longitude"):
            _place(app)


def _ask(simulation: Fields) -> Ask:
    kind = simulation.text("tipo", one_of=("POR_VALOR_MAXIMO", "POR_VALOR_SOLICITADO", "POR_VALOR_PARCELA"))
    if kind == "POR_VALOR_MAXIMO" and simulation.has("valor"):
        simulation.refuse("valor", Problem.VALUE)
    return Ask(
        amount=simulation.money("valor") if kind == "POR_VALOR_SOLICITADO" else None,
        installment=simulation.money("valor") if kind == "POR_VALOR_PARCELA" else None,
        term=simulation.optional_term("prazo"),
        with_insurance=simulation.boolean("com_seguro"),
    )


def _holder(holder: Fields) -> str:
    """The borrower; returns the CPF."""
    _person(holder)
    holder.text("sexo", one_of=SEXES)
    holder.text("nome_mae", longest=120)
    holder.father("nome_pai")
    holder.optional_text("estado_civil", one_of=MARITAL_STATUSES)
    birthplace = holder.object("naturalidade")
    birthplace.text("cidade", longest=120)
    birthplace.text("uf", STATE)
    return holder.text("cpf", CPF)


def _payment(body: Fields, cpf: str) -> None:
    """The payment to a bank account or a PIX key, never both."""
    if body.has("chave_pix"):
        if body.has("dados_bancarios"):
            body.refuse("dados_bancarios", Problem.VALUE)
        body.object("chave_pix").pix_key("tipo", "chave", PIX_KEYS, cpf)
        return
    account = body.object("dados_bancarios")
    account.text("tipo_conta", one_of=ACCOUNT_TYPES)
    account.account("numero_banco", "numero_agencia", "digito_agencia", "numero_conta", "digito_conta")


def _delivery(body: Fields) -> str | None:
    return body.optional_word("envio_link", DELIVERIES)


def _proof(step: Step) -> dict[str, Any]:
    return {
        "id_biometria": step.id,
        "link": step.url if step.status == "open" else None,
        "data_expiracao": _time(step.expires_at),
    }


def _offer(offer: Offer) -> dict[str, Any]:
    quote = offer.quote
    return {
        "id_simulacao": offer.key,
        "matricula": offer.employment.registration,
        "convenio": {"codigo": offer.table, "descricao": "CREDITO PRIVADO"},
        "seguro": quote.insured,
        "valor_cliente": quote.amount,
        "quantidade_parcelas": quote.term,
        "valor_parcela": quote.installment,
        "valor_bruto": quote.total,
        "taxa_cliente_mensal": quote.rate,
        "custo_total_efetivo_mensal": quote.monthly_cost,
        "data_primeiro_vencimento": offer.first_due_date.isoformat(),
    }


def _time(moment: datetime | None) -> str | None:
    return moment.strftime(TIME) if moment else None
