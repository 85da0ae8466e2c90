"""The simulated bank `sucupira`: signed requests, kebab-case, cents as text, milliseconds since the epoch.

The manual is `docs/banks/sucupira.md`.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import jwt
from aiohttp import web

from simulator.bank import Bank, Consultation, Refusal
from simulator.fields import CPF, EMAIL, RANDOM_KEY, STATE, Fields, Problem
from simulator.ledger import Contract, Offer
from simulator.messages import Request, answer
from simulator.numbers import Ask
from simulator.routes import Route, route

CREDENTIALS = {
    "client_id": "sandbox-originator",
    "key_id": "sandbox-1",
    "signing_key": "sucupira-sandbox-signing-key-not-a-secret",
}
SIGNATURE_AGE_MS = range(-60_000, 300_001)

STATUS_WORDS = {
    "created": "registrada",
    "in_analysis": "em-esteira",
    "awaiting_signature": "aguardando-aceite",
    "signed": "aceita",
    "disbursed": "liquidada",
    "rejected": "indeferida",
    "cancelled": "desfeita",
    "expired": "prazo-esgotado",
}
DEFAULT_PORTFOLIO = "CLT-PADRAO"
WITHOUT_PIX = "CLT-ESPECIAL"
DUE_DATE = "data-vencimento-inicial"
GENDERS = (0, 1, 2)  # ISO/IEC 5218
MARITAL_STATUSES = ("solteiro-a", "casado-a", "divorciado-a", "viuvo-a", "separado-a", "uniao-estavel")
ACCOUNT_TYPES = ("CACC", "SVGS", "SLRY")
PHONE = r"\+55\d{10,11}"
PIX_KEYS = {
    "CPF": CPF,
    "PHONE": PHONE,
    "EMAIL": EMAIL,
    "EVP": RANDOM_KEY,
}
DELIVERIES = ("sms", "whatsapp")
CENTS = r"[1-9]\d{0,13}"
DEGREES = r"-?\d{1,3}(\.\d{1,15})?"
APP_TEXTS = ("autorizacao", "assinado-em", "navegador", "sistema", "modelo", "nome-aparelho", "tipo-aparelho")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000


def errors(status: int, field: str, sentence: str) -> web.Response:
    """An error in this bank's format."""
    return answer({"errors": {field: [sentence]}}, status)


class Sucupira(Bank):
    name = "sucupira"
    rate = Decimal("1.95")
    tables = ("SUC-CLT-N", "SUC-CLT-S")
    ceiling = (9100, 48)
    due_day = 5
    refusals = {
        "age_limit": "idade maxima excedida",
        "credit_policy": "operacao indeferida por politica",
        "data_mismatch": "dados divergentes",
        "employer_not_eligible": "empregador sem limite",
        "existing_contract": "ja existe contrato em andamento para este cliente",
        "invalid_account": "conta de liquidacao invalida",
        "no_employment_link": "vinculo inexistente",
        "no_margin": "margem consignavel insuficiente",
        "worker_not_eligible": "vinculo nao permitido",
    }

    def reset(self, keep_tokens: bool = False) -> None:
        super().reset(keep_tokens)
        self._saved: set[str] = set()
        self._portfolios: dict[str, str] = {}  # of the offers for which the caller chose one

    def authenticate(self, request: Request) -> None:
        if not _is_signed(request, f"/{self.name}"):
            raise Refusal(self.token_refused())

    def token_refused(self) -> web.Response:
        return errors(401, "x-assinatura", "assinatura ausente, invalida ou vencida")

    def bad_field(self, field: str | None, problem: Problem) -> web.Response:
        return errors(422, field or "corpo", problem)

    def no_contract(self) -> web.Response:
        return errors(404, "id-operacao", "operacao nao encontrada")

    def wrong_state(self, contract: Contract) -> web.Response:
        return errors(409, "situacao", f"operacao {self.status_word(contract, STATUS_WORDS)}")

    def new_contract_id(self) -> str:
        return f"{secrets.randbelow(10**14):014d}"

    def identify(self, matched: Route, request: Request) -> tuple[str | None, str | None]:
        offer = self.offers.get(request.params.get("simulacao", ""))
        return (None, offer.cpf) if offer is not None else super().identify(matched, request)

    @route("POST", "/credito/simulacoes", "query", cpf="cliente.cpf")
    def simulate(self, request: Request) -> web.Response:
        body = self.json_fields(request)
        client = body.object("cliente")
        cpf = _person(client)
        _gender(client)
        _evidence(body.object("evidencia"))
        body.require_keys("carteira")
        chosen = body.optional_text("carteira", longest=120)
        consultation = self.consult(cpf, _ask(body.object("pedido")))
        if chosen and consultation.scenario.portfolio is None:
            self._portfolios.update((offer.key, chosen) for offer in consultation.offers)
        return answer(self._simulations(consultation))

    @route("PUT", "/credito/simulacoes/{simulacao}/gravacao", "save_simulation")
    def save_simulation(self, request: Request) -> web.Response:
        body = self.json_fields(request)
        offer = self._offer(request.params["simulacao"])
        if _cents(body, "valor-centavos") != offer.quote.amount:
            body.refuse("valor-centavos", Problem.VALUE)
        if body.integer("parcelas") != offer.quote.term:
            body.refuse("parcelas", Problem.VALUE)
        if _day(body, DUE_DATE) != offer.first_due_date:
            body.refuse(DUE_DATE, Problem.VALUE)
        self._saved.add(offer.key)
        return answer({"id-simulacao": offer.key, "gravada-em": _ms(self.world.clock.now())})

    @route("POST", "/credito/operacoes", "submit", cpf="cliente.cpf", reference="referencia-externa")
    def submit(self, request: Request) -> web.Response:
        body = self.json_fields(request)
        reference = body.text("referencia-externa", longest=64)
        key = body.text("id-simulacao")
        client = body.object("cliente")
        cpf = _person(client)
        _client_details(client)
        settlement = body.object("liquidacao")
        by_pix = _settlement(settlement, cpf)
        body.object("aceite").ip("ip")
        channel = _channel(body)
        if DUE_DATE in body.data:
            body.refuse(DUE_DATE, Problem.VALUE)
        offer = self._offer(key)
        if offer.cpf != cpf:
            body.refuse("cliente.cpf", Problem.VALUE)
        if by_pix and self._portfolio(offer) == WITHOUT_PIX:
            raise Refusal(errors(422, "liquidacao.forma", f"pix nao permitido para a carteira {WITHOUT_PIX}"))
        scenario = self.scenario_of_submission(cpf)
        if scenario.submit == "rejected":
            raise Refusal(errors(422, "politica", scenario.message))
        if scenario.submit == "missing_due_date" and offer.key not in self._saved:
            raise Refusal(errors(422, DUE_DATE, "data de vencimento inicial ausente"))
        # This bank does not deduplicate, so a known reference creates a second contract.
        contract = self.ledger.create(reference, offer, scenario, channel=channel)
        return answer(self._operation(contract), 201)

    @route("GET", "/credito/operacoes", "find", reference="referencia-externa")
    def find(self, request: Request) -> web.Response:
        reference = self.query_fields(request).text("referencia-externa")
        return answer({"operacoes": [self._operation(contract) for contract in self.ledger.find(reference)]})

    @route("GET", "/credito/operacoes/{operacao}", "status", contract="operacao")
    def status(self, request: Request) -> web.Response:
        return answer(self._operation(self.contract(request.params["operacao"])))

    @route("POST", "/credito/operacoes/{operacao}/formalizacao", "formalize", contract="operacao")
    def formalize(self, request: Request) -> web.Response:
        contract = self.contract(request.params["operacao"])
        return answer(self._operation(self.formalized(contract, _channel(self.json_fields(request)))))

    def _offer(self, key: str) -> Offer:
        offer = self.offers.get(key)
        if offer is None:
            raise Refusal(errors(404, "id-simulacao", "simulacao nao encontrada"))
        return offer

    def _portfolio(self, offer: Offer) -> str:
        return self.scenario(offer.cpf).portfolio or self._portfolios.get(offer.key, DEFAULT_PORTFOLIO)

    def _simulations(self, consultation: Consultation) -> dict[str, Any]:
        return {
            "vinculos": [
                {
                    "matricula": employment.registration,
                    "cnpj": employment.cnpj,
                    "empregador": employment.name,
                    "cargo": employment.job_title,
                    "admissao": _midnight(employment.admitted_on),
                }
                for employment in consultation.employments
            ],
            "simulacoes": [self._simulation(offer) for offer in consultation.offers],
            "motivos": [consultation.reason] if consultation.reason else [],
        }

    def _simulation(self, offer: Offer) -> dict[str, Any]:
        quote = offer.quote
        return {
            "id-simulacao": offer.key,
            "matricula": offer.employment.registration,
            "carteira": self._portfolio(offer),
            "tabela": offer.table,
            "valor-centavos": _hundredths(quote.amount),
            "parcela-centavos": _hundredths(quote.installment),
            "parcelas": quote.term,
            "total-centavos": _hundredths(quote.total),
            "taxa-mes": _hundredths(quote.rate),
            "cet-mes": _hundredths(quote.monthly_cost),
            "com-seguro": quote.insured,
            "vencimento-inicial": _midnight(offer.first_due_date),
        }

    def _operation(self, contract: Contract) -> dict[str, Any]:
        url, step = contract.signature_url, contract.signature
        expires_at = step.expires_at if step else None
        return {
            "id-operacao": contract.id,
            "referencia-externa": contract.reference,
            "id-simulacao": contract.offer.key,
            "carteira": self._portfolio(contract.offer),
            "situacao": self.status_word(contract, STATUS_WORDS),
            **self.why_refused(contract, "motivo-indeferimento"),
            "criada-em": _ms(contract.created_at),
            "assinatura": {"link": url, "valida-ate": _ms(expires_at) if expires_at else None} if url else None,
            "numero-contrato": contract.number,
            "liquidacao": {
                "em": _ms(contract.disbursed_at),
                "valor-centavos": str(int(contract.offer.quote.amount * 100)),
            }
            if contract.disbursed_at
            else None,
        }


def _is_signed(request: Request, base: str) -> bool:
    """True if the request has a recent signature of exactly this method, target and body."""
    try:
        signature = jwt.decode_complete(
            request.headers.get("X-Assinatura", "").encode("utf-8", "replace"),
            CREDENTIALS["signing_key"],
            algorithms=["HS256"],
            issuer=CREDENTIALS["client_id"],
        )
    except jwt.InvalidTokenError:
        return False
    claims, signed_at = signature["payload"], signature["payload"].get("emitido-em")
    # The machine's clock, because the signer's clock does not follow the simulator's.
    now_ms = time.time_ns() // 1_000_000
    return (
        signature["header"].get("kid") == CREDENTIALS["key_id"]
        and claims.get("metodo") == request.method
        and claims.get("caminho") == request.target.removeprefix(base)
        and claims.get("resumo-corpo") == hashlib.sha256(request.raw).hexdigest()
        and type(signed_at) is int
        and now_ms - signed_at in SIGNATURE_AGE_MS
    )


def _person(client: Fields) -> str:
    """The holder's data in both requests; returns the CPF."""
    client.text("nome", longest=120)
    _day(client, "data-nascimento")
    client.text("e-mail", EMAIL)
    client.text("telefone", PHONE)
    return client.text("cpf", CPF)


def _gender(client: Fields) -> int:
    gender = client.integer("genero")
    if gender not in GENDERS:
        client.refuse("genero", Problem.VALUE)
    return gender


def _evidence(evidence: Fields) -> None:
    """The evidence of the holder's signature. Evidence that was not collected is null, but the fields are required."""
    texts = ("sessao", "navegador", "aparelho", "plataforma")
    evidence.require_keys(*texts, "localizacao", "aplicativo")
    evidence.ip("ip")
    evidence.integer("aceito-em", least=0)
    evidence.optional_texts(*texts)
    _place(evidence)
    if evidence.has("aplicativo"):
        app = evidence.object("aplicativo")
        app.require_keys(*APP_TEXTS, "localizacao")
        app.optional_texts(*APP_TEXTS)
        _place(app)


def _place(fields: Fields) -> None:
    if not fields.has("localizacao"):
        return
    place = fields.object("localizacao")
    place.require_keys("precisao-metros")
    place.position("latitude", "longitude", DEGREES)
    place.optional_text("precisao-metros", r"\d+(\.\d+)?")


def _ask(wish: Fields) -> Ask:
    wish.require_keys("valor-centavos", "parcela-centavos", "parcelas")
    return Ask(
        amount=_cents(wish, "valor-centavos") if wish.has("valor-centavos") else None,
        installment=_cents(wish, "parcela-centavos") if wish.has("parcela-centavos") else None,
        term=wish.optional_term("parcelas"),
        with_insurance=wish.boolean("com-seguro"),
    )


def _client_details(client: Fields) -> None:
    if _gender(client) == 0:
        client.refuse("genero", Problem.VALUE)
    client.text("nome-mae", longest=120)
    client.father("nome-pai")
    client.text("nacionalidade", longest=60)
    client.optional_text("estado-civil", one_of=MARITAL_STATUSES)
    document = client.object("documento")
    document.text("numero", longest=20)
    document.optional_texts("orgao-emissor", longest=20)
    document.optional_text("uf-emissor", STATE)
    if document.has("data-emissao"):
        _day(document, "data-emissao")
    lines = ("logradouro", "numero", "bairro", "cidade")
    client.object("endereco").address("cep", lines, "complemento", "uf")


def _settlement(settlement: Fields, cpf: str) -> bool:
    """True if the payment is by PIX."""
    if settlement.text("forma", one_of=("conta", "pix")) == "pix":
        settlement.object("pix").pix_key("tipo-chave", "chave", PIX_KEYS, cpf)
        return True
    account = settlement.object("conta")
    account.account("compe", "agencia", "digito-agencia", "numero", "digito")
    account.text("tipo", one_of=ACCOUNT_TYPES)
    return False


def _channel(body: Fields) -> str | None:
    return body.optional_text("aviso-assinatura", one_of=DELIVERIES)


def _cents(fields: Fields, name: str) -> Decimal:
    """Whole cents as text, returned in reais."""
    return Decimal(fields.text(name, CENTS)) / 100


def _hundredths(value: Decimal) -> str:
    return str(int(value * 100))


def _day(fields: Fields, name: str) -> date:
    """A date: the milliseconds of a midnight in UTC."""
    value = fields.integer(name)
    if value % DAY_MS:
        fields.refuse(name, Problem.FORMAT)
    try:
        return (EPOCH + timedelta(milliseconds=value)).date()
    except OverflowError:
        fields.refuse(name, Problem.VALUE)


def _midnight(day: date) -> int:
    return (day - EPOCH.date()).days * DAY_MS


def _ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)
