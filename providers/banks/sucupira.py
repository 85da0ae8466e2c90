"""sucupira: signed requests, kebab-case, cents as text, milliseconds since the epoch.

The bank does not deduplicate submissions, so one is repeated only if the bank said that the first created nothing.
"""

import hashlib
import time
from datetime import UTC, date, datetime, timedelta
from typing import Any

import jwt
from msgspec import Struct

from foundation.errors import ApiError
from providers.bank import Bank, Limits
from providers.errors import Repairable, refusal_by_status
from providers.http import Draft, Reply
from providers.notation import CENTS_TEXT, NUMBER_TEXT, Notation, Notations
from providers.tokens import Token
from providers.types.proposal import BankProposal, BankSubmission
from providers.types.query import BankQuery, BankResult

WITHOUT_PIX = "CLT-ESPECIAL"
DUE_DATE = "data-vencimento-inicial"
SENTENCES = ("politica", "situacao")  # keys for a subject, not field names
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def _midnight(day: date) -> int:
    return _ms(datetime(day.year, day.month, day.day, tzinfo=UTC))


def _moment(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


class Simulacoes(Struct):
    vinculos: list[Any]
    simulacoes: list[Any]
    motivos: list[str]


class Errors(Struct):
    errors: dict[str, list[str]]


class DueDateMissing(Repairable):
    """The bank lost the simulation's first due date and created nothing. Saving it again restores that."""


class Sucupira(Bank):
    name = "sucupira"
    label = "Sucupira"
    credentials = {
        "client_id": "Identificador de cliente",
        "key_id": "Identificador da chave",
        "signing_key": "Chave de assinatura",
    }
    notations = Notations(
        date=Notation(int, _midnight, lambda ms: _moment(ms).date()),
        moment=Notation(int, _ms, _moment),
        amount=CENTS_TEXT,
        rate=CENTS_TEXT,  # hundredths of a percent
        cost=CENTS_TEXT,
        measure=NUMBER_TEXT,
        phone="+55{}".format,
    )
    required = ("documento.numero", "titular.nacionalidade")
    limits = Limits(
        texts={"documento.numero": 20, "documento.orgao_emissor": 20, "titular.nacionalidade": 60},
        portfolios_without_pix=(WITHOUT_PIX,),
    )

    # --- authentication and errors

    def authorize(self, token: Token | None, draft: Draft) -> Draft:
        user = self.connection.credentials
        claims = {
            "iss": user["client_id"],
            "metodo": draft.method,
            "caminho": draft.path,
            "resumo-corpo": hashlib.sha256(draft.encoded().body).hexdigest(),
            "emitido-em": time.time_ns() // 1_000_000,
        }
        signed = jwt.encode(claims, user["signing_key"], "HS256", headers={"kid": user["key_id"]})
        return draft.headed({"X-Assinatura": signed})

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if reply.status not in (404, 409, 422):
            return None
        errors = reply.read(Errors).errors  # raises if a gateway sent an error page instead
        sentence = "; ".join(
            text if field in SENTENCES else f"{field}: {text}" for field, texts in errors.items() for text in texts
        )
        if reply.status == 422 and list(errors) == [DUE_DATE] and "ausente" in " ".join(errors[DUE_DATE]):
            return DueDateMissing(sentence)
        return refusal_by_status(reply.status, sentence, field=next(iter(errors), None))

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        # A query has no side effect at this bank, so it may be sent again after a broken connection.
        body = self.body("query", query, {"sex": query.sex})
        answer = self.call("POST", "/credito/simulacoes", json=body, safe=True).read(Simulacoes)
        return self.result(answer.simulacoes, answer.vinculos, answer.motivos)

    # --- proposal

    def submit(self, submission: BankSubmission) -> BankProposal:
        # The bank takes the first due date from the simulation and refuses it as a field.
        body = self.body("submission", submission)
        try:
            return self.proposed("POST", json=body)
        except DueDateMissing:
            # The bank refused, so a second submission is safe. A lost answer raises another exception.
            # Saving the offer's terms and first due date again restores them.
            terms, offer = self.body("terms", submission), submission.offer.native_offer_id
            self.call("PUT", "/credito/simulacoes", offer, "gravacao", json=terms, safe=True)
        return self.proposed("POST", json=body)
