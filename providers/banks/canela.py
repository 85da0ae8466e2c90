"""canela, the SMS bank: no link, a 500 for a bad token, 30 requests a minute per token, a desk, callbacks.

Its manual is docs/banks/canela.md.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import structlog
from msgspec import Meta, Struct

from foundation.errors import ApiError, NotFound, Unauthorized
from foundation.formats import BRASILIA, split_phone
from providers.bank import CALLBACK_MAX_AGE_S, Bank
from providers.errors import Conflict, ProviderError, ProviderRejected, ProviderUnavailable, StepOwed
from providers.http import Reply
from providers.tokens import Token
from providers.types import (
    ActionType,
    AppAuthorization,
    AppEvidence,
    BankAction,
    BankOffer,
    BankProposal,
    BankQuery,
    BankResult,
    BankSubmission,
    Disbursement,
    Geolocation,
    Link,
    ProposalStatus,
    QueryStatus,
    StepOutcome,
    given,
)

log = structlog.get_logger(__name__)

TOKEN_REFUSED = "token invalido"  # noqa: S105  (the bank's words)
LOGIN_REFUSED = "usuario ou senha invalidos"
NOTHING_TO_OFFER = "SEM_OFERTA"
QUERY_SEXES = {1: "M", 2: "F"}
SEXES = {"M": "Masculino", "F": "Feminino"}
MARITAL_STATUSES = {
    "solteiro": "Solteiro(a)",
    "casado": "Casado(a)",
    "divorciado": "Divorciado(a)",
    "viuvo": "Viúvo(a)",
    "separado": "Separado(a)",
    "uniao_estavel": "União estável",
}
CREDIT_FORMS = {"poupanca": 1, "corrente": 2}
CURRENT_INSTEAD = "Este banco não tem conta salário: o valor é creditado como em conta corrente."
PIX_FORM = 3
PIX_KEYS = {"cpf": 1, "email": 3, "telefone": 4, "aleatoria": 5}
DELIVERIES = {"sms": "SMS", "whatsapp": "WHATSAPP"}
AUTHORIZATIONS = {
    "ENVIADA": StepOutcome.OPEN,
    "AUTORIZADA": StepOutcome.APPROVED,
    "NEGADA": StepOutcome.REFUSED,
    "VENCIDA": StepOutcome.EXPIRED,
}
REASONS = {
    StepOutcome.REFUSED: "O titular não autorizou a consulta aos seus dados de folha.",
    StepOutcome.EXPIRED: "O prazo para o titular responder o SMS do banco terminou.",
}
SMS_DETAIL = "O banco enviou um SMS ao titular, que precisa respondê-lo para autorizar a consulta. Não há link."
NOT_AUTHORIZED = "O titular ainda não autorizou a consulta neste banco. Aguarde a resposta ao SMS e consulte de novo."


Moment = Annotated[datetime, Meta(tz=True)]


class AccessToken(Struct, rename="camel"):
    token: str
    expira_em: int


class Authorization(Struct, rename="camel"):
    autorizacao_id: str
    situacao: str
    validade: Moment


class FieldFault(Struct):
    campo: str
    mensagem: str


class Fault(Struct):
    mensagem: str
    motivo: str | None = None
    autorizacao: Authorization | None = None
    pendencias: list[FieldFault] = []


class Job(Struct, rename="camel"):
    registro_empregaticio: str
    cnpj_empregador: str
    nome_empregador: str
    cargo: str | None
    data_admissao: Moment


class Simulation(Struct, rename="camel"):
    simulacao_id: str
    tabela_id: str
    seguro: bool
    valor_liquido: Decimal
    quantidade_parcelas: int
    valor_parcela: Decimal
    valor_total: Decimal
    taxa: Decimal
    cet: Decimal
    primeiro_vencimento: Moment
    vinculo: Job


class Simulations(Struct):
    id: list[Simulation]  # a list stands under this key at this bank


class Formalization(Struct):
    link: str
    validade: Moment


class Operation(Struct, rename="camel"):
    operacao_id: str
    situacao: str
    formalizacao: Formalization | None


class Operations(Struct):
    id: list[Operation]


class Callback(Struct, rename="camel"):
    autorizacao_id: str


class NotEligible(ProviderRejected):
    """The bank has nothing to offer to this holder."""


class NotAuthorized(StepOwed):
    """The holder has to answer the SMS first; `authorization` is the open one, where the bank tells it."""

    def __init__(self, authorization: Authorization | None) -> None:
        super().__init__(NOT_AUTHORIZED)
        self.authorization = authorization


class Canela(Bank):
    name = "canela"
    label = "Canela"
    authorization = "sms"
    notifies_holder = True
    calls_back = True
    required = ("vinculo.cargo", "vinculo.nome_empregador")
    token_budget = (30, 60.0)
    deduplicates = True
    statuses = {
        "Digitada": ProposalStatus.CREATED,
        "Em mesa de crédito": ProposalStatus.IN_ANALYSIS,
        "Pendente de assinatura": ProposalStatus.AWAITING_SIGNATURE,
        "Em averbação": ProposalStatus.SIGNED,
        "Creditada": ProposalStatus.DISBURSED,
        "Negada": ProposalStatus.REJECTED,
        "Cancelada": ProposalStatus.CANCELLED,
        "Assinatura vencida": ProposalStatus.EXPIRED,
    }

    # --- authentication and errors

    def login(self, old: Token | None) -> Token:
        account = self.connection.credentials
        body = {"login": account["login"], "senha": account["password"]}
        token = self.exchange("POST", "/login", json=body).read(AccessToken)
        return Token.lasting(token.token, token.expira_em)

    def login_refused(self, reply: Reply) -> bool:
        return _says(reply, 500, LOGIN_REFUSED) or super().login_refused(reply)

    def token_refused(self, reply: Reply) -> bool:
        # Exactly these words mean that nothing was done; after any other 500 the outcome is unknown.
        return _says(reply, 500, TOKEN_REFUSED)

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if reply.status == 429:
            return ProviderUnavailable(sent=False)  # the token's limit: nothing was done
        if reply.status not in (400, 403, 404, 409, 422):
            return None
        fault = reply.read(Fault)  # an error page of something in between is not of this shape
        match reply.status:
            case 403:
                return NotAuthorized(fault.autorizacao)
            case 404:
                return NotFound()
            case 409:
                return Conflict(fault.mensagem)
            case 422:
                return ProviderRejected("; ".join(f"{each.campo}: {each.mensagem}" for each in fault.pendencias))
        return (NotEligible if fault.motivo == NOTHING_TO_OFFER else ProviderRejected)(fault.mensagem)

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        # It may send an SMS, so it is never repeated.
        return self._simulate("POST", "/v5/simulacoes/disponiveis", {**_holder(query), **self._wish(query)}, safe=False)

    def check(self, query: BankQuery, reference: str) -> BankResult:
        path = f"/v5/autorizacoes/{quote(reference, safe='')}"
        try:
            authorization = self.call("GET", path, safe=True).read(Authorization)
        except NotFound:
            return _ended(StepOutcome.EXPIRED)
        outcome = AUTHORIZATIONS.get(authorization.situacao)
        match outcome:
            case StepOutcome.APPROVED:
                found = self._simulate("PUT", f"{path}/simulacoes", self._wish(query), safe=True)
                return found if found.step else replace(found, step=outcome)
            case StepOutcome.REFUSED | StepOutcome.EXPIRED:
                return _ended(outcome)
            case None:
                log.warning("bank_step_unknown", bank=self.name, word=authorization.situacao[:60])
        return _waiting(authorization)

    @classmethod
    def verify_callback(cls, secret: str, headers: Mapping[str, str], body: bytes) -> str:
        refused = Unauthorized("Assinatura do aviso do banco inválida.")
        parts = dict(part.strip().partition("=")[::2] for part in headers.get("Canela-Assinatura", "").split(","))
        moment, signature = parts.get("t", ""), parts.get("v", "")
        digest = hmac.digest(secret.encode(), f"{moment}\n".encode() + body, hashlib.sha512)
        if not secret or not hmac.compare_digest(base64.b64encode(digest), signature.encode()):
            raise refused
        # Here the bank itself wrote it; a moment ahead of our clock says only that the clocks differ.
        try:
            age = datetime.now(UTC) - datetime.fromisoformat(moment)
            reference = msgspec.json.decode(body, type=Callback).autorizacao_id
        except (ValueError, TypeError):  # msgspec's errors are ValueErrors; TypeError: a moment without an offset
            raise refused from None
        if age > timedelta(seconds=CALLBACK_MAX_AGE_S):
            raise refused
        return reference

    def _simulate(self, method: str, path: str, body: dict[str, Any], *, safe: bool) -> BankResult:
        try:
            found = self.call(method, path, json=body, safe=safe).read(Simulations)
        except NotEligible as refused:
            return BankResult(QueryStatus.NO_OFFERS, reasons=(refused.message,))
        except NotAuthorized as refused:
            if refused.authorization is None:
                raise ProviderError from None
            return _waiting(refused.authorization)
        links = {each.vinculo.registro_empregaticio: _link(each.vinculo) for each in found.id}
        return BankResult.answer((_offer(each) for each in found.id), links.values())

    def _wish(self, query: BankQuery) -> dict[str, Any]:
        return {
            "proposta": {
                "valorSolicitado": query.loan_value,
                "valorParcela": query.installment_value,
                "quantidadeParcelas": query.installments,
                "comSeguro": query.with_insurance,
            },
            "carteiraId": query.portfolio or self.connection.portfolio,
        }

    # --- proposal

    @classmethod
    def disbursement(cls, submission: BankSubmission) -> Disbursement:
        account = submission.account
        if account is None or account.kind != "salario":
            return super().disbursement(submission)
        return Disbursement(replace(account, kind="corrente"), remark=CURRENT_INSTEAD)

    def submit(self, submission: BankSubmission) -> BankProposal:
        body = {
            **_submission_body(submission),
            "carteiraId": submission.portfolio or self.connection.portfolio,
        }
        return self._proposal(self.call("POST", "/v3/operacoes", json=body).read(Operation))

    def find(self, reference: str) -> BankProposal | None:
        path = f"/v3/operacoes?identificadorExterno={quote(reference, safe='')}"
        found = self.call("GET", path, safe=True).read(Operations).id
        return self._proposal(found[0]) if found else None

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        body = {"envioLink": DELIVERIES[channel]} if channel else {}
        reply = self.call("POST", f"{_operation_path(native_id)}/link-formalizacao", json=body, safe=True)
        return self._proposal(reply.read(Operation))

    def status(self, native_id: str) -> BankProposal:
        reply = self.call("GET", f"{_operation_path(native_id)}/detalhe", safe=True)
        return self._proposal(reply.read(Operation))

    def _proposal(self, operation: Operation) -> BankProposal:
        link = operation.formalizacao
        return BankProposal(
            native_id=operation.operacao_id,
            native_status=operation.situacao,
            status=self.proposal_status(operation.situacao),
            signature_url=link.link if link else None,
            signature_expires_at=link.validade.astimezone(UTC) if link else None,
        )


def _says(reply: Reply, status: int, sentence: str) -> bool:
    fault = reply.peek(Fault) if reply.status == status else None
    return fault is not None and fault.mensagem == sentence


def _operation_path(native_id: str) -> str:
    return f"/v3/operacoes/{quote(native_id, safe='')}"


def _person(name: str, cpf: str, birth_date: date, phone: str, email: str) -> dict[str, Any]:
    area_code, number = split_phone(phone)
    return {
        "cpf": cpf,
        "nome": name,
        "dataNascimento": datetime(birth_date.year, birth_date.month, birth_date.day, tzinfo=BRASILIA).isoformat(),
        "email": email,
        "telefone": {"ddd": area_code, "numero": number},
    }


def _holder(query: BankQuery) -> dict[str, Any]:
    """The holder and the evidence of the acceptance; null is the bank's "not collected"."""
    return {
        "tomador": {
            **_person(query.name, query.cpf, query.birth_date, query.phone, query.email),
            "sexo": QUERY_SEXES.get(query.sex),
        },
        "consentimento": {
            "dataHora": _moment(query.accepted_at) if query.accepted_at else None,
            "ip": query.client_ip,
            "protocolo": query.authorization_reference,
            "userAgent": query.user_agent,
            "deviceModel": query.device_model,
            "plataforma": query.platform,
            "geoLocalizacao": _place(query.geolocation),
            "aplicativo": _app(query.app_authorization) if query.app_authorization else None,
        },
    }


def _app(app: AppAuthorization) -> dict[str, Any]:
    evidence = app.evidence or AppEvidence()
    return {
        "protocolo": app.authorization_id,
        "dataAssinatura": app.signature_date,
        "userAgent": evidence.user_agent,
        "sistemaOperacional": evidence.operational_system,
        "deviceModel": evidence.device_model,
        "deviceName": evidence.device_name,
        "deviceType": evidence.device_type,
        "geoLocalizacao": _place(evidence.geolocation),
    }


def _place(place: Geolocation | None) -> dict[str, Any] | None:
    return {"latitude": place.lat, "longitude": place.lng, "precisao": place.accuracy} if place else None


def _submission_body(submission: BankSubmission) -> dict[str, Any]:
    holder, address = submission.holder, submission.address
    work = submission.employment
    return {
        "identificadorExterno": submission.reference,
        "simulacaoId": submission.offer.native_offer_id,
        "tomador": {
            **_person(holder.name, holder.cpf, holder.birth_date, submission.phone, submission.email),
            "sexo": SEXES[holder.sex],
            "nomeMae": holder.mother_name,
            "nomePai": holder.father_name,
            "estadoCivil": MARITAL_STATUSES[holder.marital_status] if holder.marital_status else None,
            # Anything more of the job, the income above all, is refused here.
            "vinculoEmpregaticio": {"cargo": work.job_title, "nomeEmpregador": work.employer_name},
            "endereco": {
                "cep": address.postal_code,
                "rua": address.street,
                "numero": address.number,
                "complemento": address.complement,
                "bairro": address.district,
                "cidade": address.city,
                "estado": address.state,
            },
            "dadosBancarios": _credit(Canela.disbursement(submission)),
        },
        "ip": submission.ip,
        "envioLink": DELIVERIES[submission.channel] if submission.channel else None,
    }


def _credit(disbursement: Disbursement) -> dict[str, Any]:
    pix = disbursement.pix
    if pix is not None:
        key = f"+55{pix.key}" if pix.kind == "telefone" else pix.key
        return {"formaCredito": PIX_FORM, "tipoChavePixId": PIX_KEYS[pix.kind], "chavePix": key}
    account = given(disbursement.account)
    return {
        "formaCredito": CREDIT_FORMS[account.kind],
        "codigoBanco": account.bank,
        "agencia": account.branch,
        "digitoAgencia": account.branch_digit,
        "conta": account.number,
        "digitoConta": account.digit,
    }


def _waiting(authorization: Authorization) -> BankResult:
    action = BankAction(
        ActionType.PAYROLL_DATA,
        url=None,
        detail=SMS_DETAIL,
        reference=authorization.autorizacao_id,
        expires_at=authorization.validade.astimezone(UTC),
    )
    return BankResult(QueryStatus.PENDING, action=action, step=StepOutcome.OPEN)


def _ended(outcome: StepOutcome) -> BankResult:
    return BankResult.ended(outcome, REASONS[outcome])


def _link(job: Job) -> Link:
    return Link(
        registration=job.registro_empregaticio,
        employer_cnpj=job.cnpj_empregador,
        employer_name=job.nome_empregador,
        job_title=job.cargo,
        admission_date=job.data_admissao.date(),
    )


def _offer(each: Simulation) -> BankOffer:
    return BankOffer(
        native_offer_id=each.simulacao_id,
        loan_value=each.valor_liquido,
        installment_value=each.valor_parcela,
        installments=each.quantidade_parcelas,
        interest_rate=each.taxa,
        total_amount=each.valor_total,
        table_code=each.tabela_id,
        with_insurance=each.seguro,
        first_due_date=each.primeiro_vencimento.date(),  # in the bank's own offset, as its manual says
        employer_cnpj=each.vinculo.cnpj_empregador,
        employer_name=each.vinculo.nome_empregador,
        registration=each.vinculo.registro_empregaticio,
        native={"cetMonthlyPercent": str(each.cet)},
    )


def _moment(moment: datetime) -> str:
    return moment.astimezone(BRASILIA).isoformat(timespec="seconds")
