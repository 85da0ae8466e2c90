"""cedro: a password grant, queries whose answers are polled, percents and terms as text."""

from typing import Any

import structlog
from msgspec import Struct

from foundation.errors import ApiError
from foundation.formats import from_iso_utc, money
from providers.bank import Bank, Limits
from providers.errors import ProviderError, ProviderRejected, ProviderUnavailable, StepOwed, refusal_by_status
from providers.http import Reply
from providers.notation import COUNT_TEXT, NUMBER_TEXT, Notations
from providers.tokens import Token
from providers.types.proposal import BankProposal, BankSubmission
from providers.types.query import ActionType, BankAction, BankQuery, BankResult, StepOutcome

log = structlog.get_logger(__name__)

CONSULTS = "/v1/private-consignment/consults"
#: Seconds between polls of a consult: the first pause, its growth factor, the longest pause.
FIRST_PAUSE_S, PAUSE_FACTOR, LONGEST_PAUSE_S = 0.05, 1.5, 1.0

RELATIONSHIPS = ("spouse", "relative", "friend")

#: States of a consult without an answer yet. An approved consent is not the answer.
UNDER_WAY = ("WAITING_CONSENT", "CONSENT_APPROVED", "WAITING_CREDIT_ANALYSIS")
CONFIRMATION = "WAITING_CONFIRMATION"


class Confirmation(Struct, rename="camel"):
    url: str
    expires_at: str


class Consult(Struct, rename="camel"):
    id: str
    status: str
    term_auto_authorized: bool
    description: str | None
    confirmation: Confirmation | None
    employment_links: list[Any]
    simulations: list[Any]


class Fault(Struct):
    detail: str


class FieldFault(Struct):
    loc: list[str | int]
    msg: str


class FieldFaults(Struct):
    detail: list[FieldFault]


class ConsultFailed(ProviderUnavailable):
    """A system behind the bank failed. This consult will never succeed; a new one may."""


class Cedro(Bank):
    name = "cedro"
    label = "Cedro"
    credentials = {"client_id": "Identificador de cliente", "username": "Usuário", "password": "Senha"}
    notifies_holder = True
    limits = Limits(references=2)
    required = ("referencias", "titular.estado_civil", "titular.exposicao_politica")
    deduplicates = True
    # A phone is written as one text as a PIX key only.
    notations = Notations(rate=NUMBER_TEXT, cost=NUMBER_TEXT, count=COUNT_TEXT, phone="55{}".format)

    # --- authentication and errors

    def login(self, old: Token | None) -> Token:
        if old is not None and old.refresh is not None:
            try:
                return self._token_for(grant_type="refresh_token", refresh_token=old.refresh)
            except ProviderError:
                log.info("bank_refresh_token_ended", bank=self.name)
        user = self.connection.credentials
        return self._token_for(grant_type="password", username=user["username"], password=user["password"])

    def _token_for(self, **grant: str) -> Token:
        form = {"client_id": self.connection.credentials["client_id"], **grant}
        return self.token(self.call("POST", "/oauth/token", form=form))

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if reply.status == 422:
            faults = reply.read(FieldFaults).detail
            fields = [".".join(map(str, each.loc[1:])) for each in faults]
            words = "; ".join(f"{field}: {each.msg}" for field, each in zip(fields, faults, strict=True))
            return ProviderRejected(words, field=next(iter(fields), None))
        if reply.status not in (400, 403, 404, 409):
            return None
        detail = reply.read(Fault).detail  # raises if a gateway sent an error page instead
        if reply.status == 403:
            return StepOwed("O titular ainda não confirmou a autorização neste banco.")
        return refusal_by_status(reply.status, detail)

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        # Not safe to repeat: the bank may send the holder a message.
        accepted = self.call("POST", CONSULTS, json=self.body("query", query)).read(dict)
        return self._outcome(query, accepted["id"])

    def check(self, query: BankQuery, reference: str) -> BankResult:
        try:
            return self._outcome(query, reference)
        except ConsultFailed:
            reason = "O banco não conseguiu concluir a consulta. Faça uma nova consulta."
            return BankResult.ended(StepOutcome.EXPIRED, reason)

    def _outcome(self, query: BankQuery, consult_id: str) -> BankResult:
        """Poll a consult until it has a result. Raises BankTimedOut if the deadline comes first."""
        wishes = _wishes(query)
        pause = FIRST_PAUSE_S
        while True:
            consult = self.call("GET", CONSULTS, consult_id, params=wishes, safe=True).read(Consult)
            if consult.status not in UNDER_WAY:
                return self._result(consult)
            self.wait(pause)
            pause = min(pause * PAUSE_FACTOR, LONGEST_PAUSE_S)

    def _result(self, consult: Consult) -> BankResult:
        if consult.status == "SUCCESS":
            return self.result(
                consult.simulations,
                consult.employment_links,
                (consult.description,),
                term_auto_authorized=consult.term_auto_authorized,
            )
        if consult.status == "REJECTED":
            raise ProviderRejected(consult.description)
        if consult.status == "FAILED":
            raise ConsultFailed
        if consult.status == CONFIRMATION and consult.confirmation is not None:
            action = BankAction(
                ActionType.CHAT_LINK,
                consult.confirmation.url,
                "O banco pede que o titular confirme a autorização pelo link enviado por mensagem.",
                consult.id,
                from_iso_utc(consult.confirmation.expires_at),
            )
        else:
            outcome = self.step_outcome(consult.status)
            if outcome is not StepOutcome.OPEN:
                return BankResult.ended(outcome, self.words.ended[outcome])
            action = BankAction(
                ActionType.PAYROLL_DATA, None, "O banco ainda está processando a autorização do titular.", consult.id
            )
        return BankResult.waiting(action, term_auto_authorized=consult.term_auto_authorized)

    # --- proposal

    def submit(self, submission: BankSubmission) -> BankProposal:
        known = [
            {"name": each["nome"], "phone": each["telefone"], "relationship": RELATIONSHIPS[each["grau"]]}
            for each in submission.referencias
        ]
        return self.proposed("POST", json=self.body("submission", submission, {"referencias": known}))

    def find(self, reference: str) -> list[BankProposal]:
        return [self.proposed("GET", "by-external-id", reference, safe=True)]


def _wishes(query: BankQuery) -> dict[str, str]:
    """What to simulate, as a poll's query string. The bank accepts an amount or an installment, never both."""
    wishes = {"withInsurance": "true" if query.with_insurance else "false"}
    if query.loan_value is not None:
        wishes["operationAmount"] = str(money(query.loan_value))
    elif query.installment_value is not None:
        wishes["installmentAmount"] = str(money(query.installment_value))
    if query.installments is not None:
        wishes["numberOfInstallments"] = str(query.installments)
    return wishes
