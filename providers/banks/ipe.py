"""ipe, the service's own bank: OAuth2, JSON in English, monthly rates as fractions, dates with microseconds."""

from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from msgspec import Struct

from foundation.errors import ApiError
from providers.bank import WHOLE_DOCUMENT, Bank, Limits, basic_auth
from providers.errors import refusal_by_status
from providers.http import Reply
from providers.notation import Notation, Notations
from providers.tokens import Token
from providers.types.proposal import BankProposal
from providers.types.query import BankQuery, BankResult

TIMESTAMP = "%Y-%m-%dT%H:%M:%S.%fZ"


@lru_cache(maxsize=1024)  # the offers of an answer have the same times
def _moment(text: str) -> datetime:
    return datetime.strptime(text, TIMESTAMP).replace(tzinfo=UTC)


class Reason(Struct):
    description: str


class Simulations(Struct):
    employment_relationships: list[Any]
    simulations: list[Any]
    reasons: list[Reason]


class Fault(Struct):
    translation: str


class Ipe(Bank):
    name = "ipe"
    label = "Ipê"
    credentials = {"client_id": "Identificador de cliente", "client_secret": "Segredo de cliente"}
    tells_withdrawals = True
    required = (
        *WHOLE_DOCUMENT,
        "titular.estado_civil",
        "titular.exposicao_politica",
    )
    deduplicates = True
    limits = Limits(texts={"documento.numero": 20, "documento.orgao_emissor": 20})
    notations = Notations(
        date=Notation(str, "{:%Y-%m-%dT00:00:00.000000Z}".format, lambda text: _moment(text).date()),
        moment=Notation(str, lambda moment: moment.astimezone(UTC).strftime(TIMESTAMP), _moment),
        # The rate is a fraction, while the CET in the same answer is a percentage.
        rate=Notation(Decimal, lambda rate: rate / 100, lambda fraction: fraction * 100),
        phone="+55{}".format,
    )

    # --- authentication and errors

    def login(self, old: Token | None) -> Token:
        user = self.connection.credentials
        reply = self.call(
            "POST",
            "/oauth2/token",
            form={"grant_type": "client_credentials"},
            headers=basic_auth(user["client_id"], user["client_secret"]),
        )
        return self.token(reply)

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if not 400 <= reply.status < 500:
            return None
        return refusal_by_status(reply.status, reply.read(Fault).translation)

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        # A query has no side effect at this bank, so it may be sent again after a broken connection.
        reply = self.call("POST", "/v1/private_payroll/simulations", json=self.body("query", query), safe=True)
        answer = reply.read(Simulations)
        reasons = (reason.description for reason in answer.reasons)
        return self.result(answer.simulations, answer.employment_relationships, reasons)

    def auction_proposal(self, key: str) -> dict[str, Any]:
        return self.call("GET", "/v1/private_payroll/auction_proposals", key, safe=True).read(dict[str, Any])

    # --- proposal

    def cancel(self, native_id: str, reason: str | None) -> BankProposal:
        body = {"reason": reason or "Cancelamento a pedido do titular."}
        return self.proposed("POST", native_id, "cancel", json=body, safe=True)
