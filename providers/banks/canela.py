"""canela, the SMS bank: SMS without a URL, a 500 for a bad token, 30 requests a minute per token, a desk, callbacks."""

import base64
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime, time
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from foundation.errors import ApiError
from foundation.formats import BRASILIA
from providers import callbacks
from providers.bank import Bank
from providers.errors import LoginRefused, ProviderError, ProviderRejected, StepOwed, refusal_by_status
from providers.http import Reply
from providers.notation import Notation, Notations
from providers.tokens import Token
from providers.types import given
from providers.types.proposal import BankProposal, BankSubmission, Disbursement, Stage, StageReport
from providers.types.query import ActionType, BankAction, BankQuery, BankResult, QueryStatus, StepOutcome
from providers.words import QUERY_SEXES

TOKEN_REFUSED, LOGIN_REFUSED = "token invalido", "usuario ou senha invalidos"  # the bank's words
AUTHORIZATIONS = "/v5/autorizacoes"
CURRENT_INSTEAD = "Este banco não tem conta salário: o valor é creditado como em conta corrente."
SMS_DETAIL = "O banco enviou um SMS ao titular, que precisa respondê-lo para autorizar a consulta. Não há link."
NOT_AUTHORIZED = "O titular ainda não autorizou a consulta neste banco. Aguarde a resposta ao SMS e consulte de novo."


Moment = Annotated[datetime, Meta(tz=True)]
#: A day is its midnight in the bank's own UTC offset, as its manual says.
DAY = Notation(
    Moment, lambda day: datetime.combine(day, time(), BRASILIA).isoformat(), lambda midnight: midnight.date()
)
MOMENT = Notation(
    Moment,
    lambda moment: moment.astimezone(BRASILIA).isoformat(timespec="seconds"),
    lambda moment: moment.astimezone(UTC),
)


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


class Averbation(Struct, rename="camel"):
    desde: Moment
    averbada_em: Moment | None
    pendencia: str | None
    proxima_tentativa: Moment | None


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
    token_budget = (30, 60.0)
    notations = Notations(DAY, MOMENT, phone="+55{}".format)
    deduplicates = True

    # --- authentication and errors

    def login(self, old: Token | None) -> Token:
        body = {"login": self.connection.credentials["login"], "senha": self.connection.credentials["password"]}
        return self.token(self.call("POST", "/login", json=body))

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        # Only these sentences mean that the request had no effect. After any other 500 the outcome is unknown.
        if _says(reply, 500, LOGIN_REFUSED) or _says(reply, 500, TOKEN_REFUSED):
            return LoginRefused(sent=_says(reply, 500, LOGIN_REFUSED))  # after the log-in, no answer that is known
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
        # In a query the bank has other words for the sex.
        body = self.body("query", query, {"sex": QUERY_SEXES.get(query.sex)})
        return self._simulate("POST", "/v5/simulacoes/disponiveis", json=body)

    def check(self, query: BankQuery, reference: str) -> BankResult:
        authorization = self.call("GET", AUTHORIZATIONS, reference, safe=True).read(Authorization)
        outcome = self.step_outcome(authorization.situacao)
        if outcome is StepOutcome.OPEN:
            return _waiting(authorization)
        if outcome is not StepOutcome.APPROVED:
            return BankResult.ended(outcome, self.words.ended[outcome])
        wish = self.body("wish", query)
        return self._simulate("PUT", AUTHORIZATIONS, reference, "simulacoes", json=wish, safe=True)

    @classmethod
    def verify_callback(cls, secret: str, headers: Mapping[str, str], body: bytes) -> str:
        parts = dict(part.strip().partition("=")[::2] for part in headers.get("Canela-Assinatura", "").split(","))
        moment, signature = parts.get("t", ""), parts.get("v", "")
        digest = hmac.digest(secret.encode(), f"{moment}\n".encode() + body, "sha512")
        callbacks.check(secret, base64.b64encode(digest), signature)
        told = callbacks.read(body, Callback, partial(datetime.fromisoformat, moment))
        return told.autorizacao_id or told.operacao_id

    def _simulate(self, method: str, *path: str, **request: Any) -> BankResult:
        try:
            simulations = self.call(method, *path, **request).read(dict)["id"]  # the bank names its lists "id"
        except NotEligible as refused:
            return BankResult(QueryStatus.NO_OFFERS, reasons=(refused.message,))
        except NotAuthorized as refused:
            if refused.authorization is None:
                raise ProviderError from None
            return _waiting(refused.authorization)
        return self.result(simulations, simulations)

    # --- proposal

    @classmethod
    def disbursement(cls, submission: BankSubmission) -> Disbursement:
        if (account := submission.paid.account) is None or account.get("tipo_conta") != "salario":
            return super().disbursement(submission)
        return Disbursement({**account, "tipo_conta": "corrente"}, remark=CURRENT_INSTEAD)

    def status(self, native_id: str) -> BankProposal:
        return self.proposed("GET", native_id, "detalhe", safe=True)

    @classmethod
    def proposal(cls, answer: Any, **facts: Any) -> BankProposal:
        told = msgspec.convert(answer.get("averbacao"), Averbation | None)
        return super().proposal(answer, **facts, stage=told and _stage(told))


def _says(reply: Reply, status: int, sentence: str) -> bool:
    fault = reply.peek(Fault) if reply.status == status else None
    return fault is not None and fault.mensagem == sentence


def _stage(told: Averbation) -> StageReport:
    stage = Stage.DISBURSEMENT if told.averbada_em else Stage.AVERBATION
    return StageReport(stage, told.averbada_em or told.desde, told.pendencia, is_retried=bool(told.proxima_tentativa))


def _waiting(authorization: Authorization) -> BankResult:
    reference, ends_at = authorization.autorizacao_id, authorization.validade.astimezone(UTC)
    action = BankAction(ActionType.PAYROLL_DATA, None, SMS_DETAIL, reference, ends_at)
    return BankResult.waiting(action)
