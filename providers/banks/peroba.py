"""peroba, the chat bank: two authentication headers, PascalCase, decimals as text, the outcome in the HTTP status.

The bank sends no callbacks, so `check` finds out how a step ended.
"""

from typing import Any

from msgspec import Struct

from foundation.errors import ApiError
from foundation.formats import from_iso_utc
from providers.bank import Bank, Limits
from providers.errors import LoginRefused, StepOwed, refusal_by_status
from providers.http import Draft, Reply
from providers.notation import NUMBER_TEXT, REAIS, Notations
from providers.tokens import Token
from providers.types.proposal import BankProposal, BankSubmission, Stage, StageReport
from providers.types.query import ActionType, BankAction, BankQuery, BankResult, QueryStatus, StepOutcome

QUERIES = "/ConsignadoPrivado/Consultas"
AUTHORIZE_FIRST = 202
# At this bank H means homem and M means mulher. The contract's M (male) is therefore the bank's H.
CHAT_DETAIL = "O titular precisa confirmar a autorização por mensagem: envie a ele este link."


class Sentence(Struct, rename="pascal"):
    mensagem: str


class Waiting(Struct, rename="pascal"):
    mensagem: str
    protocolo: str
    valido_ate: str


class Consultation(Struct, rename="pascal"):
    mensagem: str | None
    autorizacao: str
    vinculos: list[Any]
    simulacoes: list[Any]


class Peroba(Bank):
    name = "peroba"
    label = "Peroba"
    credentials = {"gateway_key": "Chave do gateway", "user": "Usuário", "password": "Senha"}
    authorization = "chat"
    notifies_holder = True
    required = ("recebimento.conta_bancaria",)
    deduplicates = True
    limits = Limits(texts={"titular.nacionalidade": 60})
    notations = Notations(amount=REAIS, rate=NUMBER_TEXT, cost=NUMBER_TEXT, measure=NUMBER_TEXT)

    # --- authentication and errors

    def login(self, old: Token | None) -> Token:
        user = self.connection.credentials
        body = {"Usuario": user["user"], "Senha": user["password"]}
        return self.token(self.call("POST", "/Acesso/Token", json=body, headers=self._gateway()))

    def authorize(self, token: Token | None, draft: Draft) -> Draft:
        return super().authorize(token, draft).headed(self._gateway())

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if reply.status not in (400, 403, 404, 409):
            return None
        sentence = reply.read(Sentence).mensagem  # raises if a gateway sent an error page instead
        return LoginRefused() if reply.status == 403 else refusal_by_status(reply.status, sentence)

    def _gateway(self) -> dict[str, str]:
        return {"X-Gateway-Key": self.connection.credentials["gateway_key"]}

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        # Not safe to repeat: the bank may send the holder a message.
        reply = self.call("POST", QUERIES, json=self.body("query", query))
        return _waiting(reply) if reply.status == AUTHORIZE_FIRST else self._offers(reply.read(Consultation))

    def check(self, query: BankQuery, reference: str) -> BankResult:
        reply = self.call("POST", QUERIES, reference, json=self.body("wish", query), safe=True)
        if reply.status == AUTHORIZE_FIRST:
            return _waiting(reply)
        consultation = reply.read(Consultation)
        outcome = self.step_outcome(consultation.autorizacao)
        if outcome is StepOutcome.APPROVED:
            return self._offers(consultation)
        if outcome is StepOutcome.OPEN:
            return BankResult(QueryStatus.REQUIRES_ACTION, step=outcome)
        return BankResult.ended(outcome, consultation.mensagem)

    def _offers(self, consultation: Consultation) -> BankResult:
        return self.result(consultation.simulacoes, consultation.vinculos, (consultation.mensagem,))

    # --- proposal

    def submit(self, submission: BankSubmission) -> BankProposal:
        reply = self.call("POST", self.proposals.path, json=self.body("submission", submission))
        if reply.status == AUTHORIZE_FIRST:
            raise StepOwed(
                "O titular ainda não autorizou a consulta neste banco. Aguarde a autorização e consulte de novo."
            )
        return self.proposal(reply.read(dict))

    @classmethod
    def proposal(cls, answer: Any, **facts: Any) -> BankProposal:
        proposal = answer["Proposta"]
        since = (proposal.get("Averbacao") or {}).get("Desde")
        stage = StageReport(Stage.AVERBATION, from_iso_utc(since)) if since else None
        return super().proposal(proposal, **facts, stage=stage)


def _waiting(reply: Reply) -> BankResult:
    """The holder must answer in the chat first. The chat's URL is in the field that holds a remark in other answers."""
    waiting = reply.read(Waiting)
    if not waiting.mensagem.startswith(("https://", "http://")):
        raise ValueError("a sentence where the link should be")
    action = BankAction(
        ActionType.CHAT_LINK,
        url=waiting.mensagem,
        detail=CHAT_DETAIL,
        reference=waiting.protocolo,
        expires_at=from_iso_utc(waiting.valido_ate),
    )
    return BankResult.waiting(action)
