"""The simulated bank `aroeira`: forms in, JSON with numbers as text out, its own code tables.

The manual is `docs/banks/aroeira.md`.
"""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from aiohttp import web

from simulator.bank import OFFERS_KEPT, Bank, Refusal
from simulator.catalogue import Employment
from simulator.fields import BR_DATE, CPF, EMAIL, STATE, Fields, Problem
from simulator.ledger import Contract, Offer
from simulator.messages import Request, answer
from simulator.numbers import Ask
from simulator.routes import route

CREDENTIALS = {
    "user": "sandbox.parceiro",
    "password": "aroeira-sandbox-senha-nao-secreta",
}
TOKEN_TTL_S = 60 * 60
SIMULATION_TTL_S = 10 * 60
APP_CEILING_FACTOR = Decimal("1.1")

BRASILIA = timezone(timedelta(hours=-3))
CITIES: list[tuple[str, str, str]] = json.loads(Path(__file__).with_name("aroeira_cities.json").read_text("utf-8"))
STATE_OF_CITY = {code: state for code, _, state in CITIES}

STATUS_WORDS = {
    "created": "DIGITADA",
    "in_analysis": "EM ANALISE",
    "awaiting_signature": "AGUARDANDO FORMALIZACAO",
    "signed": "FORMALIZADA",
    "disbursed": "CONTRATO PAGO",
    "rejected": "REPROVADA",
    "cancelled": "CANCELADA",
    "expired": "PRAZO EXPIRADO",
}
SEXES = ("M", "F")
MARITAL_STATUSES = ("1", "2", "3", "4", "5", "6")
NATIONALITIES = ("1", "2")
ACCOUNT_TYPES = ("1", "2", "3")
DELIVERIES = {"S": "sms", "W": "whatsapp", "N": None}
PHONE = r"\(\d{2}\) \d{4,5}-\d{4}"
PIX_KEYS = {"1": CPF, "2": PHONE, "3": EMAIL, "4": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"}
AMOUNT = r"\d{1,3}(\.\d{3}){0,3},\d{2}"
DEGREES = r"-?\d{1,3}(,\d+)?"
APP_FIELDS = (
    "app_protocolo",
    "app_data_assinatura",
    "app_navegador",
    "app_sistema",
    "app_modelo",
    "app_aparelho",
    "app_tipo",
    "app_latitude",
    "app_longitude",
)


def success(message: str = "", **data: Any) -> web.Response:
    """A successful answer."""
    return answer({"erro": False, "mensagem": message, **data})


def failure(message: str, status: int = 200) -> web.Response:
    """An error. HTTP 200, except for logins and tokens."""
    return answer({"erro": True, "mensagem": message}, status)


class Aroeira(Bank):
    name = "aroeira"
    rate = Decimal("1.89")
    tables = ("60215", "60216")
    ceiling = (9800, 36)
    due_day = 15
    refusals = {
        "age_limit": "idade nao permitida",
        "credit_policy": "proposta reprovada na politica de credito",
        "data_mismatch": "data de nascimento nao confere",
        "employer_not_eligible": "empresa bloqueada",
        "existing_contract": "ja existe contrato em andamento para este cliente",
        "invalid_account": "conta corrente invalida",
        "no_employment_link": "cpf sem vinculo empregaticio",
        "no_margin": "margem consignavel insuficiente",
        "worker_not_eligible": "categoria de trabalhador nao permitida",
    }

    def reset(self, keep_tokens: bool = False) -> None:
        super().reset(keep_tokens)
        #: Simulations of one table, and until when each can be submitted.
        self.submittable: OrderedDict[str, datetime] = OrderedDict()
        #: For holders whose offers expired: the terms that the bank has offered since, in queries without a table. Only
        #: these can be simulated with a table.
        self.offered_since: dict[str, set[tuple[object, ...]]] = {}

    def expire_offers(self, cpf: str) -> None:
        super().expire_offers(cpf)
        self.offered_since[cpf] = set()

    def authenticate(self, request: Request) -> None:
        if not self.tokens.valid(request.bearer()):
            raise Refusal(self.token_refused())

    def token_refused(self) -> web.Response:
        return failure("Token invalido ou expirado", 401)

    def bad_field(self, field: str | None, problem: Problem) -> web.Response:
        return failure(f"Campo {field or 'corpo'}: {problem}")

    def no_contract(self) -> web.Response:
        return failure("Proposta nao localizada")

    def wrong_state(self, contract: Contract) -> web.Response:
        return failure("Situacao da proposta nao permite a operacao")

    def new_contract_id(self) -> str:
        return str(7_000_000 + secrets.randbelow(1_000_000))

    @route("GET", "/token/gerar", "token", public=True)
    def issue_token(self, request: Request) -> web.Response:
        if not request.has_basic_auth(CREDENTIALS["user"], CREDENTIALS["password"]):
            raise Refusal(failure("Usuario ou senha invalidos", 401))
        token = self.tokens.issue(TOKEN_TTL_S)
        return success("Token gerado com sucesso", token=token, validade_segundos=str(TOKEN_TTL_S))

    @route("POST", "/clt/simulacao", "query", cpf="cpf")
    def simulate(self, request: Request) -> web.Response:
        form = self.form_fields(request)
        cpf = _person(form)
        form.optional_text("sexo", one_of=SEXES)
        _origin(form)
        ask = _ask(form)
        _acceptance(form)
        factor = APP_CEILING_FACTOR if _has_app_evidence(form) else Decimal(1)
        table = form.optional_text("codigo_tabela")
        registration = form.text("matricula") if table else None
        consultation = self.consult(cpf, ask, ceiling_factor=factor, for_submission=table is not None)
        if consultation.reason is not None:
            return success(consultation.reason, vinculos=[], operacoes=[])
        offers = consultation.offers
        since = self.offered_since.get(cpf)
        if table is None:
            if since is not None:
                since.update(each.terms for each in offers)
        else:
            offers = tuple(
                each
                for each in offers
                if (each.table, each.employment.registration) == (table, registration)
                and (since is None or each.terms in since)
            )
            if not offers or consultation.scenario.submit == "table_not_eligible":
                raise Refusal(failure("Tabela nao elegivel para o cliente"))
            self._let_submit(offers)
        return success(
            vinculos=[_link(each) for each in consultation.employments], operacoes=[_operation(each) for each in offers]
        )

    @route("POST", "/clt/proposta", "submit", cpf="cpf", reference="codigo_externo")
    def submit(self, request: Request) -> web.Response:
        form = self.form_fields(request)
        reference = form.text("codigo_externo", longest=64)
        simulation = form.text("id_simulacao")
        _origin(form)
        cpf = _person(form)
        _holder_details(form)
        form.address("cep", ("logradouro", "numero", "bairro", "cidade"), "complemento", "uf")
        _credit(form, cpf)
        form.ip("aceite_ip")
        channel = DELIVERIES[form.text("envio", one_of=DELIVERIES)]
        offer = self.offers.get(simulation)
        ends_at = self.submittable.get(simulation)
        if offer is None or ends_at is None or ends_at <= self.world.clock.now():
            raise Refusal(failure("Simulacao vencida"))
        if offer.cpf != cpf:
            form.refuse("cpf", Problem.VALUE)
        scenario = self.scenario_of_submission(cpf)
        if scenario.submit == "rejected":
            raise Refusal(failure(scenario.message))
        # This bank ignores a repeated reference and creates a second contract.
        contract = self.ledger.create(reference, offer, scenario, channel=channel)
        return success("Proposta digitada com sucesso", proposta=self._proposal(contract))

    @route("GET", "/clt/proposta/localizar", "find", reference="codigo_externo")
    def find(self, request: Request) -> web.Response:
        reference = self.query_fields(request).text("codigo_externo", longest=64)
        contracts = self.ledger.find(reference)
        if not contracts:
            raise Refusal(failure("Nenhuma proposta localizada"))
        return success(propostas=[self._proposal(contract) for contract in contracts])

    @route("GET", "/clt/proposta/andamento", "status", contract="ade")
    def status(self, request: Request) -> web.Response:
        number = self.query_fields(request).text("ade")
        return success(proposta=self._proposal(self.contract(number)))

    @route("POST", "/clt/proposta/formalizacao", "formalize", contract="ade")
    def formalize(self, request: Request) -> web.Response:
        form = self.form_fields(request)
        contract = self.contract(form.text("ade"))
        channel = DELIVERIES[form.text("envio", one_of=DELIVERIES)]
        return success(proposta=self._proposal(self.formalized(contract, channel)))

    @route("GET", "/combos/cidades", "cities")
    def cities(self, _: Request) -> web.Response:
        return success(cidades=CITIES)

    def _let_submit(self, offers: tuple[Offer, ...]) -> None:
        ends_at = self.world.clock.now() + timedelta(seconds=SIMULATION_TTL_S)
        self.submittable.update((offer.key, ends_at) for offer in offers)
        while len(self.submittable) > OFFERS_KEPT:
            self.submittable.popitem(last=False)

    def _proposal(self, contract: Contract) -> dict[str, Any]:
        step, url = contract.signature, contract.signature_url
        ends_at = step.expires_at.astimezone(BRASILIA) if url and step and step.expires_at else None
        return {
            "ade": contract.id,
            "codigo_externo": contract.reference,
            "situacao": self.status_word(contract, STATUS_WORDS),
            **self.why_refused(contract, "motivo_reprovacao"),
            "url_formalizacao": url,
            "validade_url": f"{ends_at:%d/%m/%Y %H:%M:%S}" if ends_at else None,
        }


def _person(form: Fields) -> str:
    """What every request says of the client; returns the CPF."""
    form.text("nome", longest=120)
    form.date("data_nascimento", BR_DATE)
    form.text("celular", PHONE)
    form.text("email", EMAIL)
    return form.text("cpf", CPF)


def _origin(form: Fields) -> None:
    form.optional_texts("codigo_origem", longest=120)


def _ask(form: Fields) -> Ask:
    mode = form.text("tipo_simulacao", one_of=("1", "2", "3"))
    amount = None if mode == "1" else _amount(form, "valor")
    term = int(form.text("prazo", r"[1-9]\d{0,2}")) if form.has("prazo") else None
    return Ask(
        amount=amount if mode == "2" else None,
        installment=amount if mode == "3" else None,
        term=term,
        with_insurance=form.text("seguro", one_of=("S", "N")) == "S",
    )


def _amount(form: Fields, name: str) -> Decimal:
    amount = Decimal(form.text(name, AMOUNT).replace(".", "").replace(",", "."))
    if amount <= 0:
        form.refuse(name, Problem.VALUE)
    return amount


def _acceptance(form: Fields) -> None:
    form.ip("aceite_ip")
    form.date("aceite_data", BR_DATE)
    form.moment("aceite_hora", "%H:%M:%S")
    form.position("aceite_latitude", "aceite_longitude", DEGREES, optional=True)
    form.optional_text("aceite_precisao", r"\d+(,\d+)?")
    form.optional_texts("aceite_navegador", "aceite_aparelho", "aceite_plataforma", "aceite_protocolo")


def _has_app_evidence(form: Fields) -> bool:
    """True if an app collected the evidence. Its fields are then checked, too."""
    if form.text("tipo_evidencia", one_of=("1", "2")) == "1":
        return False
    names = [name for name in APP_FIELDS if form.has(name)]
    if not names:
        form.refuse("app_protocolo", Problem.MISSING)
    for name in names:
        form.text(name, longest=512)
    form.position("app_latitude", "app_longitude", DEGREES, optional=True)
    return True


def _holder_details(form: Fields) -> None:
    form.text("sexo", one_of=SEXES)
    form.text("nome_mae", longest=120)
    form.father("nome_pai")
    form.text("estado_civil", one_of=MARITAL_STATUSES)
    form.text("nacionalidade", one_of=NATIONALITIES)
    state = form.text("naturalidade_uf", STATE)
    if STATE_OF_CITY.get(form.text("naturalidade_cidade", r"\d+")) != state:
        form.refuse("naturalidade_cidade", Problem.VALUE)
    form.text("rg_numero", longest=20)
    form.text("rg_orgao", longest=20)
    form.text("rg_uf", STATE)
    form.date("rg_emissao", BR_DATE)


def _credit(form: Fields, cpf: str) -> None:
    if form.text("forma_credito", one_of=("C", "X")) == "X":
        form.pix_key("tipo_chave_pix", "chave_pix", PIX_KEYS, cpf)
        return
    form.account("banco", "agencia", "agencia_dv", "conta", "conta_dv")
    form.text("tipo_conta", one_of=ACCOUNT_TYPES)


def _link(employment: Employment) -> dict[str, Any]:
    return {
        "matricula": employment.registration,
        "cnpj": employment.cnpj,
        "empresa": employment.name,
        "cargo": employment.job_title,
        "data_admissao": _day(employment.admitted_on),
    }


def _operation(offer: Offer) -> dict[str, Any]:
    quote = offer.quote
    return {
        "id_simulacao": offer.key,
        "matricula": offer.employment.registration,
        "codigo_tabela": offer.table,
        "prazo": str(quote.term),
        "valor_liquido": _text(quote.amount),
        "valor_parcela": _text(quote.installment),
        "valor_total": _text(quote.total),
        "taxa_mensal": _text(quote.rate),
        "cet_mensal": _text(quote.monthly_cost),
        "seguro": "S" if quote.insured else "N",
        "primeiro_vencimento": _day(offer.first_due_date),
    }


def _text(value: Decimal) -> str:
    """`1234.5` as `1.234,50`."""
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def _day(day: date) -> str:
    return day.strftime(BR_DATE)
