"""imbuia: a liveness proof at a URL, an API version a route in `Accept`, tokens without "Bearer", signed callbacks."""

import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from foundation.errors import ApiError
from foundation.formats import from_iso_utc
from providers import callbacks
from providers.bank import Bank
from providers.errors import OfferExpired, StepOwed, refusal_by_status
from providers.http import Draft, Reply
from providers.tokens import Token
from providers.types import given
from providers.types.query import ActionType, BankAction, BankQuery, BankResult, StepOutcome

LIVENESS_PROOFS = "/marketplace/biometrias"
#: The version of each route, by the last of these names in its path. The bank reads it in the header.
VERSIONS = {
    "consultas": "consulta_v3",
    "biometrias": "biometria_v1",
    "simulacoes": "simulacao_v2",
    "propostas": "proposta_v2",
    "formalizacao": "formalizacao_v1",
}


class Proof(Struct):
    id_biometria: str
    link: str | None
    data_expiracao: str
    situacao: str = "PENDENTE"


class Consulted(Struct):
    observacao: str | None
    biometria: Proof | None
    vinculos: list[Any]
    condicoes_credito: list[Any]


class FaultDetail(Struct):
    code: str
    message: str


class Fault(Struct):
    message: str
    details: list[FaultDetail]


class EndedProof(Struct):
    id_biometria: str


class Callback(Struct):
    biometria: EndedProof


class Imbuia(Bank):
    name = "imbuia"
    label = "Imbuia"
    credentials = {"username": "Usuário", "password": "Senha"}
    authorization = "biometrics"
    calls_back = True
    required = ("titular.naturalidade_cidade", "titular.naturalidade_uf")
    deduplicates = True

    # --- authentication and errors

    def login(self, old: Token | None) -> Token:
        user = self.connection.credentials
        form = {"username": user["username"], "password": user["password"]}
        return self.token(self.call("POST", "/auth/token", form=form))

    def authorize(self, token: Token | None, draft: Draft) -> Draft:
        route = next(name for name in reversed(re.split("[/?]", draft.path)) if name in VERSIONS)
        version = {"Accept": f"application/vnd.imbuia.{VERSIONS[route]}+json"}
        # The bank refuses "Bearer" before the token.
        return draft.headed({**version, "Authorization": given(token).value})

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if reply.status not in (400, 403, 404, 409, 422):
            return None
        fault = reply.read(Fault)
        code, words = fault.details[0].code, "; ".join(detail.message for detail in fault.details)
        field = words.partition(":")[0]
        if code == "BIO-003":
            return StepOwed("O titular ainda não concluiu a prova de vida neste banco.")
        if code == "SIM-004":
            return OfferExpired()
        return refusal_by_status(reply.status, words, code=code, field=field)

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        place = "COLETADA" if query.geolocation else "NAO_COLETADA"
        body = self.body("query", query, {"location": place})
        # Safe to repeat: a repeated query returns the same URL and sends no message.
        reply = self.call("POST", "/marketplace/consultas", json=body, safe=True)
        consulted = reply.read(Consulted)
        return _waiting(consulted.biometria) if consulted.biometria else self._offers(consulted)

    def check(self, query: BankQuery, reference: str) -> BankResult:
        proof = self.call("GET", LIVENESS_PROOFS, reference, safe=True).read(Proof)
        outcome = self.step_outcome(proof.situacao)
        if outcome is StepOutcome.OPEN:
            return _waiting(proof)
        if outcome is not StepOutcome.APPROVED:
            return BankResult.ended(outcome, self.words.ended[outcome])
        body = {"simulacao": self.body("wish", query)}
        reply = self.call("POST", LIVENESS_PROOFS, reference, "simulacoes", json=body, safe=True)
        return self._offers(reply.read(Consulted))

    def _offers(self, consulted: Consulted) -> BankResult:
        return self.result(consulted.condicoes_credito, consulted.vinculos, (consulted.observacao,))

    @classmethod
    def verify_callback(cls, secret: str, headers: Mapping[str, str], body: bytes) -> str:
        moment, event, signature = (headers.get(f"X-Imbuia-{name}", "") for name in ("Momento", "Evento", "Assinatura"))
        signed = b".".join((moment.encode(), event.encode(), body))
        expected = hmac.digest(secret.encode(), signed, "sha256").hex().encode()

        def sent_at() -> datetime:
            return datetime.fromtimestamp(int(moment), UTC)

        callbacks.check(secret, expected, signature)
        return callbacks.read(body, Callback, sent_at).biometria.id_biometria


def _waiting(proof: Proof) -> BankResult:
    action = BankAction(
        ActionType.BIOMETRICS,
        proof.link,
        "O titular precisa fazer a prova de vida pelo link do banco.",
        proof.id_biometria,
        from_iso_utc(proof.data_expiracao),
    )
    return BankResult.waiting(action)
