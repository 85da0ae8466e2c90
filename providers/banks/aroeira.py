"""aroeira: requests are forms, numbers in answers are text, and the adapter simulates again before a submission."""

import json
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec import Struct

from foundation.errors import ApiError, NotFound
from foundation.formats import from_reais_text, to_br_time, unaccented
from providers.bank import WHOLE_DOCUMENT, Bank, Limits, basic_auth
from providers.errors import BankClosed, Conflict, OfferExpired, ProviderRejected
from providers.http import Reply
from providers.notation import COUNT_TEXT, DATE_BR, MOMENT_BR, REAIS_BR, Notation, Notations
from providers.tokens import Token
from providers.types import given
from providers.types.proposal import BankProposal, BankSubmission
from providers.types.query import BankQuery, BankResult

#: The bank's city codes by state and city: a copy of its GET /combos/cidades.
CITIES: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("aroeira_cities.json").read_text("utf-8"))
NO_DELIVERY = "N"
PAYROLL_TURN = "virada de folha"
#: The holder's choice, which a fresh simulation must offer again. The first due date may be later.
_terms = attrgetter(
    "registration", "table_code", "installments", "loan_value", "installment_value", "total_amount", "interest_rate"
)


def _phone(phone: str) -> str:
    area_code, number = phone[:2], phone[2:]
    return f"({area_code}) {number[:-4]}-{number[-4:]}"


class Verdict(Struct):
    erro: bool
    mensagem: str


class Simulation(Struct):
    mensagem: str
    vinculos: list[Any]
    operacoes: list[Any]


class Aroeira(Bank):
    name = "aroeira"
    label = "Aroeira"
    credentials = {"user": "Usuário", "password": "Senha"}
    required = (
        *WHOLE_DOCUMENT,
        "titular.estado_civil",
        "titular.nacionalidade",
        "titular.naturalidade_cidade",
        "titular.naturalidade_uf",
    )
    notations = Notations(
        DATE_BR,
        MOMENT_BR,
        amount=REAIS_BR,
        rate=REAIS_BR,
        cost=REAIS_BR,
        # A coordinate or a distance, with the same digits and a decimal comma.
        measure=Notation(str, lambda value: f"{value:f}".replace(".", ","), from_reais_text),
        count=COUNT_TEXT,
        flag=Notation(str, lambda is_set: "S" if is_set else "N", lambda text: text == "S"),
        phone=_phone,
    )
    limits = Limits(texts={"documento.numero": 20, "documento.orgao_emissor": 20}, birth_cities=CITIES)

    # --- authentication and errors

    def login(self, old: Token | None) -> Token:
        user = self.connection.credentials
        reply = self.call("GET", "/token/gerar", headers=basic_auth(user["user"], user["password"]))
        if error := self.refusal(reply):
            raise error
        return self.token(reply)

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if _is_page(reply):
            return BankClosed()
        if reply.status != 200:
            return None
        verdict = reply.read(Verdict)
        if not verdict.erro:
            return None
        if PAYROLL_TURN in verdict.mensagem.lower():
            return BankClosed()
        match verdict.mensagem:
            case "Situacao da proposta nao permite a operacao":
                return Conflict(verdict.mensagem)
            case "Tabela nao elegivel para o cliente" | "Simulacao vencida":
                return OfferExpired()
            case "Nenhuma proposta localizada" | "Proposta nao localizada":
                return NotFound()
        return ProviderRejected(verdict.mensagem)

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        simulation = self._simulate(self._query_form(query))
        return self.result(simulation.operacoes, simulation.vinculos, (simulation.mensagem,))

    def _simulate(self, form: Mapping[str, str]) -> Simulation:
        # A query has no side effect at this bank, so it may be sent again after a broken connection.
        return self.call("POST", "/clt/simulacao", form=form, safe=True).read(Simulation)

    def _query_form(self, query: BankQuery) -> dict[str, str]:
        accepted_on, accepted_time = to_br_time(given(query.accepted_at))
        told = {
            # The bank lends more if an app collected the evidence.
            "evidence": "2" if self.body("app", query) else "1",
            "accepted_on": accepted_on,
            "accepted_time": accepted_time,
        }
        return self.body("query", query, told)

    # --- proposal

    def submit(self, submission: BankSubmission) -> BankProposal:
        form = self._submission_form(submission, self._simulate_again(submission))
        return self.proposal(self.call("POST", "/clt/proposta", form=form).read(dict)["proposta"])

    def find(self, reference: str) -> list[BankProposal]:
        reply = self.call("GET", "/clt/proposta/localizar", params={"codigo_externo": reference}, safe=True)
        return [self.proposal(each) for each in reply.read(dict)["propostas"]]

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        form = {"ade": native_id, "envio": self.words.channels.get(channel or "", NO_DELIVERY)}
        reply = self.call("POST", "/clt/proposta/formalizacao", form=form, safe=True)
        return self.proposal(reply.read(dict)["proposta"])

    def status(self, native_id: str) -> BankProposal:
        reply = self.call("GET", "/clt/proposta/andamento", params={"ade": native_id}, safe=True)
        return self.proposal(reply.read(dict)["proposta"])

    def _simulate_again(self, submission: BankSubmission) -> str:
        """The id of a fresh simulation of the chosen table, because the bank accepts no older one.

        Raises OfferExpired if the table is gone or its terms differ from those that the holder chose.
        """
        chosen, query = submission.offer, submission.query
        if query is None:
            # A simulation needs the evidence of the query.
            raise OfferExpired
        same = replace(
            query,
            loan_value=chosen.loan_value,
            installment_value=None,
            installments=chosen.installments,
            with_insurance=chosen.with_insurance,
            portfolio=submission.portfolio or query.portfolio,
        )
        form = {**self._query_form(same), "codigo_tabela": chosen.table_code, "matricula": chosen.registration}
        simulation = self._simulate(form)
        for offer in self.result(simulation.operacoes, simulation.vinculos).offers:
            if _terms(offer) == _terms(chosen):
                return offer.native_offer_id
        raise OfferExpired

    def _submission_form(self, submission: BankSubmission, simulation: str) -> dict[str, str]:
        holder = submission.titular
        is_brazilian = unaccented(holder["nacionalidade"]).startswith("BRASIL")
        told = {
            "simulation": simulation,
            "titular.nacionalidade": "1" if is_brazilian else "2",
            "titular.naturalidade_cidade": CITIES[holder["naturalidade_uf"]][unaccented(holder["naturalidade_cidade"])],
            "evidencia.tipo_envio": self.words.channels.get(submission.evidencia.get("tipo_envio", ""), NO_DELIVERY),
        }
        return self.body("submission", submission, told)


def _is_page(reply: Reply) -> bool:
    """True for the HTML page that the bank sends with HTTP 200 during its payroll closing ("virada de folha")."""
    return reply.status == 200 and reply.headers.get("Content-Type", "").lower().startswith("text/html")
