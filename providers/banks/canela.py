"""canela, the SMS bank: an SMS without a URL, a 500 for a bad token, 30 requests a minute per token, a desk, callbacks.

The manual is docs/banks/canela.md.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, time
from decimal import Decimal
from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct

from foundation.errors import ApiError
from foundation.formats import BRASILIA, path_to, split_phone
from providers import callbacks
from providers.bank import Bank, Tokens
from providers.errors import ProviderError, ProviderRejected, StepOwed, refusal_by_status
from providers.http import Reply
from providers.tokens import Token
from providers.types import given
from providers.types.answer import BankOffer, BankResult, Employment, QueryStatus
from providers.types.proposal import BankProposal, Stage, StageReport
from providers.types.query import AppAuthorization, BankQuery, Geolocation, Person
from providers.types.steps import ActionType, BankAction, StepOutcome
from providers.types.submission import BankSubmission, Disbursement

TOKEN_REFUSED, LOGIN_REFUSED = "token invalido", "usuario ou senha invalidos"  # the bank's words
OPERATIONS = "/v3/operacoes"
QUERY_SEXES = {1: "M", 2: "F"}
CURRENT_INSTEAD = "Este banco não tem conta salário: o valor é creditado como em conta corrente."
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
    id: list[Simulation]  # the bank names its list "id"


class Formalization(Struct):
    link: str
    validade: Moment


class Averbation(Struct, rename="camel"):
    desde: Moment
    averbada_em: Moment | None
    pendencia: str | None
    proxima_tentativa: Moment | None


class Operation(Struct, rename="camel"):
    operacao_id: str
    situacao: str
    formalizacao: Formalization | None
    motivo_recusa: str | None = None
    averbacao: Averbation | None = None
    prazo_desistencia: Moment | None = None
    desistencia_em: Moment | None = None


class Operations(Struct):
    id: list[Operation]


class Callback(Struct, rename="camel"):
    autorizacao_id: str = ""
    operacao_id: str = ""

    def __post_init__(self) -> None:
        given(self.autorizacao_id or self.operacao_id or None)  # a callback about nothing is refused


class NotEligible(ProviderRejected):
    """The bank has no offer for this holder."""


class NotAuthorized(StepOwed):
    """The holder must answer the SMS first. `authorization` is the open one, or None if the bank does not say."""

    def __init__(self, authorization: Authorization | None) -> None:
        super().__init__(NOT_AUTHORIZED)
        self.authorization = authorization


class Canela(Bank):
    name = "canela"
    label = "Canela"
    credentials = {"login": "Usuário", "password": "Senha"}
    authorization = "sms"
    notifies_holder = True
    calls_back = True
    tells_withdrawals = True
    required = ("vinculo.cargo", "vinculo.nome_empregador")
    tokens = Tokens(budget=(30, 60.0))
    deduplicates = True

    # --- authentication and errors

    def login(self, old: Token | None) -> Token:
        body = {"login": self.connection.credentials["login"], "senha": self.connection.credentials["password"]}
        token = self.exchange("POST", "/login", json=body).read(AccessToken)
        return Token.lasting(token.token, token.expira_em)

    def login_refused(self, reply: Reply) -> bool:
        return _says(reply, 500, LOGIN_REFUSED) or super().login_refused(reply)

    def token_refused(self, reply: Reply) -> bool:
        # Only this sentence means that the request had no effect. After any other 500 the outcome is unknown.
        return _says(reply, 500, TOKEN_REFUSED)

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if reply.status not in (400, 403, 404, 409, 422):
            return None
        fault = reply.read(Fault)  # raises if a gateway sent an error page instead
        if reply.status == 403:
            return NotAuthorized(fault.autorizacao)
        if reply.status == 422:
            words = "; ".join(f"{each.campo}: {each.mensagem}" for each in fault.pendencias)
            return ProviderRejected(words, field=next((each.campo for each in fault.pendencias), None))
        if reply.status == 400 and fault.motivo == "SEM_OFERTA":
            return NotEligible(fault.mensagem)
        return refusal_by_status(reply.status, fault.mensagem)

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        # Not safe to repeat: the bank may send the holder an SMS.
        return self._simulate("POST", "/v5/simulacoes/disponiveis", {**_holder(query), **self._wish(query)}, safe=False)

    def check(self, query: BankQuery, reference: str) -> BankResult:
        path = path_to("/v5/autorizacoes", reference)
        authorization = self.call("GET", path, safe=True).read(Authorization)
        outcome = self.step_outcome(authorization.situacao)
        if outcome is StepOutcome.OPEN:
            return _waiting(authorization)
        if outcome is not StepOutcome.APPROVED:
            return BankResult.ended(outcome, self.words.ended[outcome])
        result = self._simulate("PUT", f"{path}/simulacoes", self._wish(query), safe=True)
        return result if result.step else replace(result, step=outcome)

    @classmethod
    def verify_callback(cls, secret: str, headers: Mapping[str, str], body: bytes) -> str:
        parts = dict(part.strip().partition("=")[::2] for part in headers.get("Canela-Assinatura", "").split(","))
        moment, signature = parts.get("t", ""), parts.get("v", "")
        digest = hmac.digest(secret.encode(), f"{moment}\n".encode() + body, hashlib.sha512)
        callbacks.check(secret, base64.b64encode(digest), signature)
        told = callbacks.read(body, Callback, partial(datetime.fromisoformat, moment))
        return told.autorizacao_id or told.operacao_id

    def _simulate(self, method: str, path: str, body: dict[str, Any], *, safe: bool) -> BankResult:
        try:
            simulations = self.call(method, path, json=body, safe=safe).read(Simulations)
        except NotEligible as refused:
            return BankResult(QueryStatus.NO_OFFERS, reasons=(refused.message,))
        except NotAuthorized as refused:
            if refused.authorization is None:
                raise ProviderError from None
            return _waiting(refused.authorization)
        return BankResult.answer(map(_offer, simulations.id), (_employment(each.vinculo) for each in simulations.id))

    def _wish(self, query: BankQuery) -> dict[str, Any]:
        return {
            "proposta": {
                "valorSolicitado": query.loan_value,
                "valorParcela": query.installment_value,
                "quantidadeParcelas": query.installments,
                "comSeguro": query.with_insurance,
            },
            "carteiraId": self.portfolio_of(query),
        }

    # --- proposal

    @classmethod
    def disbursement(cls, submission: BankSubmission) -> Disbursement:
        if (account := submission.account) is None or account.kind != "salario":
            return super().disbursement(submission)
        return Disbursement(replace(account, kind="corrente"), remark=CURRENT_INSTEAD)

    def submit(self, submission: BankSubmission) -> BankProposal:
        body = {**_submission_body(submission), "carteiraId": self.portfolio_of(submission)}
        return self._proposal(self.call("POST", OPERATIONS, json=body).read(Operation))

    def find(self, reference: str) -> BankProposal | None:
        path = path_to(OPERATIONS, identificadorExterno=reference)
        return self.first_of(map(self._proposal, self.call("GET", path, safe=True).read(Operations).id), reference)

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        body = {"envioLink": Canela.words.channels[channel]} if channel else {}
        reply = self.call("POST", path_to(OPERATIONS, native_id, "link-formalizacao"), json=body, safe=True)
        return self._proposal(reply.read(Operation))

    def status(self, native_id: str) -> BankProposal:
        return self._proposal(self.call("GET", path_to(OPERATIONS, native_id, "detalhe"), safe=True).read(Operation))

    def _proposal(self, operation: Operation) -> BankProposal:
        issued, until = operation.formalizacao, operation.prazo_desistencia
        return self.proposal(
            operation.operacao_id,
            operation.situacao,
            link=issued.link if issued else None,
            link_ends_at=issued.validade.astimezone(UTC) if issued else None,
            reason=operation.motivo_recusa,
            stage=operation.averbacao and _stage(operation.averbacao),
            withdrawal_until=until and until.date(),  # the date in the bank's own UTC offset
            withdrawn_at=operation.desistencia_em,
        )


def _says(reply: Reply, status: int, sentence: str) -> bool:
    fault = reply.peek(Fault) if reply.status == status else None
    return fault is not None and fault.mensagem == sentence


def _stage(told: Averbation) -> StageReport:
    stage = Stage.DISBURSEMENT if told.averbada_em else Stage.AVERBATION
    return StageReport(stage, told.averbada_em or told.desde, told.pendencia, is_retried=bool(told.proxima_tentativa))


def _person(person: Person) -> dict[str, Any]:
    area_code, number = split_phone(person.phone)
    return {
        "cpf": person.cpf,
        "nome": person.name,
        "dataNascimento": datetime.combine(person.birth_date, time(), BRASILIA).isoformat(),
        "email": person.email,
        "telefone": {"ddd": area_code, "numero": number},
    }


def _holder(query: BankQuery) -> dict[str, Any]:
    """The holder and the evidence of the acceptance. The bank expects null for evidence that was not collected."""
    return {
        "tomador": {**_person(query.person), "sexo": QUERY_SEXES.get(query.sex)},
        "consentimento": {
            "dataHora": given(query.accepted_at).astimezone(BRASILIA).isoformat(timespec="seconds"),
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
    evidence = app.collected
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
    holder, address, work = submission.holder, submission.address, submission.employment
    return {
        "identificadorExterno": submission.reference,
        "simulacaoId": submission.offer.native_offer_id,
        "tomador": {
            **_person(submission.person),
            "sexo": Canela.words.sex(holder.sex),
            "nomeMae": holder.mother_name,
            "nomePai": holder.father_name,
            "estadoCivil": Canela.words.marital_status(holder.marital_status),
            # The bank refuses all other fields of the job, such as the income.
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
        "envioLink": Canela.words.channel(submission.channel),
    }


def _credit(disbursement: Disbursement) -> dict[str, Any]:
    pix = disbursement.pix
    if pix is not None:
        return {"formaCredito": 3, "tipoChavePixId": Canela.words.pix_keys[pix.kind], "chavePix": pix.international}
    account = given(disbursement.account)
    return {
        "formaCredito": Canela.words.account_types[account.kind],
        "codigoBanco": account.bank,
        "agencia": account.branch,
        "digitoAgencia": account.branch_digit,
        "conta": account.number,
        "digitoConta": account.digit,
    }


def _waiting(authorization: Authorization) -> BankResult:
    reference, ends_at = authorization.autorizacao_id, authorization.validade.astimezone(UTC)
    action = BankAction(ActionType.PAYROLL_DATA, None, SMS_DETAIL, reference, ends_at)
    return BankResult(QueryStatus.PENDING, action=action, step=StepOutcome.OPEN)


def _employment(job: Job) -> Employment:
    return Employment(
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
        first_due_date=each.primeiro_vencimento.date(),  # the date in the bank's own UTC offset, as its manual says
        registration=each.vinculo.registro_empregaticio,
        cet_monthly=each.cet,
    )
