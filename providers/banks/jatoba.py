"""jatoba: whole cents, errors with HTTP 200, and an authorization term that the service signs."""

import hmac
from typing import Any, Generic, TypeVar

from msgspec import Struct

from foundation.errors import ApiError, NotFound
from providers.bank import Bank, basic_auth
from providers.errors import Conflict, OfferExpired, ProviderError, ProviderRejected, ProviderUnavailable
from providers.http import Draft, Reply
from providers.notation import CENTS, DATE_BR, MOMENT_BR, NUMBER_TEXT, Notations
from providers.reasons import ReasonCode, folded
from providers.tokens import Token
from providers.types import given
from providers.types.proposal import BankProposal, BankSubmission, Disbursement
from providers.types.query import BankQuery, BankResult, QueryStatus

NO_OFFER = "20"
NO_GEOLOCATION = "21"
WITHOUT_GEOLOCATION = "O banco exige a geolocalização do titular no momento do aceite (campo geolocation)."
CPF_KEY_INSTEAD = "Este banco não aceita chave PIX de telefone: o valor é pago na chave CPF do titular."
T = TypeVar("T")


class Envelope(Struct, Generic[T]):
    sucesso: bool
    codigo: str
    mensagem: str
    dados: T | None


class Simulation(Struct):
    vinculos: list[Any]
    ofertas: list[Any]


class Jatoba(Bank):
    name = "jatoba"
    label = "Jatobá"
    credentials = {
        "user": "Usuário",
        "password": "Senha",
        "api_key": "Chave da API",
        "term_key": "Chave que assina o termo",
    }
    required = ("vinculo.matricula", "titular.estado_civil")
    # Rates are in hundredths of a percent, just as amounts are in cents.
    notations = Notations(DATE_BR, MOMENT_BR, amount=CENTS, rate=CENTS, cost=CENTS, measure=NUMBER_TEXT)
    needed_evidence = frozenset({"geolocation"})
    deduplicates = True
    reasons = {folded(WITHOUT_GEOLOCATION): ReasonCode.DATA_MISMATCH}

    # --- authentication and errors

    def login(self, old: Token | None) -> Token:
        user = self.connection.credentials
        headers = {**basic_auth(user["user"], user["password"]), "ApiKey": user["api_key"]}
        return self.token(self.call("POST", "/v1/tokens", headers=headers))

    def authorize(self, token: Token | None, draft: Draft) -> Draft:
        return super().authorize(token, draft).headed({"ApiKey": self.connection.credentials["api_key"]})

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if reply.status != 200:
            return None
        verdict = reply.read(Envelope[Any])
        if verdict.sucesso or verdict.codigo in (NO_OFFER, NO_GEOLOCATION):
            return None
        match verdict.codigo:
            case "10" | "11" | "12" | "13" | "30" | "31":  # a field is wrong; the client is refused
                return ProviderRejected(verdict.mensagem)
            case "40":
                return NotFound()
            case "41":
                return Conflict(verdict.mensagem)
            case "42":
                return OfferExpired()
            case "99":
                return ProviderUnavailable()
        return ProviderError()

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        # A query has no side effect at this bank, so it may be sent again after a broken connection.
        reply = self.call("POST", "/v1/consignado-privado/simulacoes", json=self._query_body(query), safe=True)
        envelope = reply.read(Envelope[Simulation])
        if envelope.codigo in (NO_OFFER, NO_GEOLOCATION):
            reason = WITHOUT_GEOLOCATION if envelope.codigo == NO_GEOLOCATION else envelope.mensagem
            return BankResult(QueryStatus.NO_OFFERS, reasons=(reason,))
        simulation = given(envelope.dados)
        return self.result(simulation.ofertas, simulation.vinculos)

    def _query_body(self, query: BankQuery) -> dict[str, Any]:
        body = self.body("query", query)
        # The service signs the term with its key. Without a geolocation the bank makes no offer.
        term = body["termo"]
        signed = (query.cpf, term["aceitoEm"], query.client_ip, term["latitude"] or "", term["longitude"] or "")
        key = self.connection.credentials["term_key"].encode()
        term["assinatura"] = hmac.digest(key, ";".join(signed).encode(), "sha256").hex()
        return body

    # --- proposal

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        body = {self.proposals.channel: self.words.channels.get(channel or "")}
        return self.proposed("POST", native_id, self.proposals.issue, json=body, safe=True)

    @classmethod
    def disbursement(cls, submission: BankSubmission) -> Disbursement:
        pix = submission.paid.pix
        if pix is None or pix.get("tipo_chave") != "telefone":
            return super().disbursement(submission)
        return Disbursement(pix={"tipo_chave": "cpf", "chave": submission.titular.get("cpf")}, remark=CPF_KEY_INSTEAD)

    @classmethod
    def proposal(cls, answer: Any, **facts: Any) -> BankProposal:
        return super().proposal(given(answer["dados"]), **facts)
