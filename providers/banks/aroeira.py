"""aroeira: requests are forms, numbers in answers are text, and the adapter simulates again before a submission.

The manual is docs/banks/aroeira.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from operator import attrgetter
from pathlib import Path

from msgspec import Struct

from foundation.errors import ApiError, NotFound
from foundation.formats import (
    from_br_date,
    from_br_moment,
    from_reais_text,
    path_to,
    present,
    split_phone,
    to_br_date,
    to_br_time,
    to_reais_text,
    unaccented,
)
from providers.bank import WHOLE_DOCUMENT, Bank, Limits, basic_auth
from providers.errors import BankClosed, Conflict, OfferExpired, ProviderRejected, ProviderUnavailable
from providers.http import Reply
from providers.tokens import Token
from providers.types import given
from providers.types.answer import BankOffer, BankResult, Employment
from providers.types.proposal import BankProposal
from providers.types.query import AppAuthorization, BankQuery, Person
from providers.types.submission import BankSubmission

#: The bank's city codes by state and city: a copy of its GET /combos/cidades.
CITIES: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("aroeira_cities.json").read_text("utf-8"))
NO_DELIVERY = "N"
PAYROLL_TURN = "virada de folha"
FORBIDDEN_NOW = "Situacao da proposta nao permite a operacao"
#: The holder's choice, which a fresh simulation must offer again. The first due date may be later.
_terms = attrgetter(
    "registration", "table_code", "installments", "loan_value", "installment_value", "total_amount", "interest_rate"
)
REFUSALS: dict[str, type[ApiError]] = {
    "Tabela nao elegivel para o cliente": OfferExpired,
    "Simulacao vencida": OfferExpired,
    "Nenhuma proposta localizada": NotFound,
    "Proposta nao localizada": NotFound,
}


class Verdict(Struct):
    erro: bool
    mensagem: str


class AccessToken(Struct):
    token: str
    validade_segundos: str


class Employer(Struct):
    matricula: str
    cnpj: str
    empresa: str
    cargo: str | None
    data_admissao: str


class Operation(Struct):
    id_simulacao: str
    matricula: str
    codigo_tabela: str
    prazo: str
    valor_liquido: str
    valor_parcela: str
    valor_total: str
    taxa_mensal: str
    cet_mensal: str
    seguro: str
    primeiro_vencimento: str


class Simulation(Struct):
    mensagem: str
    vinculos: list[Employer]
    operacoes: list[Operation]


class Proposal(Struct):
    ade: str
    situacao: str
    url_formalizacao: str | None
    validade_url: str | None
    motivo_reprovacao: str | None = None


class OneProposal(Struct):
    proposta: Proposal


class Proposals(Struct):
    propostas: list[Proposal]


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
    limits = Limits(texts={"documento.numero": 20, "documento.orgao_emissor": 20}, birth_cities=CITIES)

    # --- authentication and errors

    def login(self, old: Token | None) -> Token:
        user = self.connection.credentials
        reply = self.exchange("GET", "/token/gerar", headers=basic_auth(user["user"], user["password"]))
        if _is_page(reply):
            raise ProviderUnavailable(sent=False)
        granted = reply.read(AccessToken)
        return Token.lasting(granted.token, int(granted.validade_segundos))

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if _is_page(reply):
            return ProviderUnavailable()
        if reply.status != 200:
            return None
        verdict = reply.read(Verdict)
        if not verdict.erro:
            return None
        if PAYROLL_TURN in verdict.mensagem.lower():
            return BankClosed()
        if verdict.mensagem == FORBIDDEN_NOW:
            return Conflict(verdict.mensagem)
        error = REFUSALS.get(verdict.mensagem)
        return error() if error else ProviderRejected(verdict.mensagem)

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        simulation = self._simulate(self._query_form(query))
        return BankResult.answer(
            map(_offer, simulation.operacoes), map(_employment, simulation.vinculos), (simulation.mensagem,)
        )

    def _simulate(self, form: Mapping[str, str]) -> Simulation:
        # A query has no side effect at this bank, so it may be sent again after a broken connection.
        return self.call("POST", "/clt/simulacao", form=form, safe=True).read(Simulation)

    def _query_form(self, query: BankQuery) -> dict[str, str]:
        app = _app_fields(query.app_authorization)
        accepted_on, accepted_at = to_br_time(given(query.accepted_at))
        place = query.geolocation
        wish = {"tipo_simulacao": "1"}
        if query.loan_value is not None:
            wish = {"tipo_simulacao": "2", "valor": to_reais_text(query.loan_value)}
        elif query.installment_value is not None:
            wish = {"tipo_simulacao": "3", "valor": to_reais_text(query.installment_value)}
        return {
            **_person(query.person),
            **wish,
            "seguro": "S" if query.with_insurance else "N",
            # The bank lends more if an app collected the evidence.
            "tipo_evidencia": "2" if app else "1",
            "aceite_ip": query.client_ip,
            "aceite_data": accepted_on,
            "aceite_hora": accepted_at,
            **present(
                sexo=Aroeira.words.sex(query.sex),
                prazo=str(query.installments) if query.installments else None,
                codigo_origem=self.portfolio_of(query),
                aceite_latitude=_number(place.lat if place else None),
                aceite_longitude=_number(place.lng if place else None),
                aceite_precisao=_number(place.accuracy if place else None),
                aceite_navegador=query.user_agent,
                aceite_aparelho=query.device_model,
                aceite_plataforma=query.platform,
                aceite_protocolo=query.authorization_reference,
            ),
            **app,
        }

    # --- proposal

    def submit(self, submission: BankSubmission) -> BankProposal:
        form = self._submission_form(submission, self._simulate_again(submission))
        return self._proposal(self.call("POST", "/clt/proposta", form=form).read(OneProposal).proposta)

    def find(self, reference: str) -> BankProposal | None:
        path = path_to("/clt/proposta/localizar", codigo_externo=reference)
        return self.first_of(
            map(self._proposal, self.call("GET", path, safe=True).read(Proposals).propostas), reference
        )

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        form = {"ade": native_id, "envio": self.words.channels.get(channel or "", NO_DELIVERY)}
        reply = self.call("POST", "/clt/proposta/formalizacao", form=form, safe=True)
        return self._proposal(reply.read(OneProposal).proposta)

    def status(self, native_id: str) -> BankProposal:
        path = path_to("/clt/proposta/andamento", ade=native_id)
        return self._proposal(self.call("GET", path, safe=True).read(OneProposal).proposta)

    def _simulate_again(self, submission: BankSubmission) -> str:
        """The id of a fresh simulation of the chosen table, because the bank accepts no older simulation in a
        submission.

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
        for each in self._simulate(form).operacoes:
            if _terms(_offer(each)) == _terms(chosen):
                return each.id_simulacao
        raise OfferExpired

    def _submission_form(self, submission: BankSubmission, simulation: str) -> dict[str, str]:
        holder, document, address = submission.holder, submission.document, submission.address
        birth_city, birth_state = given(holder.birth_city), given(holder.birth_state)
        return {
            "codigo_externo": submission.reference,
            "id_simulacao": simulation,
            **_person(submission.person),
            "sexo": holder.sex,
            "nome_mae": holder.mother_name,
            "estado_civil": Aroeira.words.marital_statuses[given(holder.marital_status)],
            "nacionalidade": "1" if unaccented(given(holder.nationality)).startswith("BRASIL") else "2",
            "naturalidade_cidade": CITIES[birth_state][unaccented(birth_city)],
            "naturalidade_uf": birth_state,
            "rg_numero": given(document.number),
            "rg_orgao": given(document.issuer),
            "rg_uf": given(document.issuer_state),
            "rg_emissao": to_br_date(given(document.issued_on)),
            "cep": address.postal_code,
            "logradouro": address.street,
            "numero": address.number,
            "bairro": address.district,
            "cidade": address.city,
            "uf": address.state,
            **_credit(submission),
            "aceite_ip": submission.ip,
            "envio": self.words.channels.get(submission.channel or "", NO_DELIVERY),
            **present(
                codigo_origem=self.portfolio_of(submission),
                nome_pai=holder.father_name,
                complemento=address.complement,
            ),
        }

    def _proposal(self, proposal: Proposal) -> BankProposal:
        ends_at = from_br_moment(proposal.validade_url) if proposal.validade_url else None
        link, why = proposal.url_formalizacao, proposal.motivo_reprovacao
        return self.proposal(proposal.ade, proposal.situacao, link=link, link_ends_at=ends_at, reason=why)


def _is_page(reply: Reply) -> bool:
    """True for the HTML page that the bank sends with HTTP 200 during its payroll closing ("virada de folha")."""
    return reply.headers.get("Content-Type", "").lower().startswith("text/html")


def _person(person: Person) -> dict[str, str]:
    return {
        "nome": person.name,
        "cpf": person.cpf,
        "data_nascimento": to_br_date(person.birth_date),
        "celular": _phone(person.phone),
        "email": person.email,
    }


def _phone(phone: str) -> str:
    area_code, number = split_phone(phone)
    return f"({area_code}) {number[:-4]}-{number[-4:]}"


def _number(value: Decimal | None) -> str | None:
    """A coordinate or a distance as text with the same digits and a decimal comma. None stays None."""
    return None if value is None else f"{value:f}".replace(".", ",")


def _app_fields(app: AppAuthorization | None) -> dict[str, str]:
    """The evidence from the partner's app. Empty if there is none."""
    if app is None:
        return {}
    evidence = app.collected
    place = evidence.geolocation
    return present(
        app_protocolo=app.authorization_id,
        app_data_assinatura=app.signature_date,
        app_navegador=evidence.user_agent,
        app_sistema=evidence.operational_system,
        app_modelo=evidence.device_model,
        app_aparelho=evidence.device_name,
        app_tipo=evidence.device_type,
        app_latitude=_number(place.lat if place else None),
        app_longitude=_number(place.lng if place else None),
    )


def _credit(submission: BankSubmission) -> dict[str, str]:
    pix = submission.pix
    if pix is not None:
        key = _phone(pix.key) if pix.kind == "telefone" else pix.key
        return {"forma_credito": "X", "tipo_chave_pix": Aroeira.words.pix_keys[pix.kind], "chave_pix": key}
    account = given(submission.account)
    return {
        "forma_credito": "C",
        "banco": account.bank,
        "agencia": account.branch,
        **present(agencia_dv=account.branch_digit),
        "conta": account.number,
        "conta_dv": account.digit,
        "tipo_conta": Aroeira.words.account_types[account.kind],
    }


def _employment(each: Employer) -> Employment:
    """The employment. This bank does not report the margin."""
    return Employment(
        registration=each.matricula,
        employer_cnpj=each.cnpj,
        employer_name=each.empresa,
        job_title=each.cargo,
        admission_date=from_br_date(each.data_admissao),
    )


def _offer(each: Operation) -> BankOffer:
    return BankOffer(
        native_offer_id=each.id_simulacao,
        loan_value=from_reais_text(each.valor_liquido),
        installment_value=from_reais_text(each.valor_parcela),
        installments=int(each.prazo),
        interest_rate=from_reais_text(each.taxa_mensal),
        total_amount=from_reais_text(each.valor_total),
        table_code=each.codigo_tabela,
        with_insurance=each.seguro == "S",
        first_due_date=from_br_date(each.primeiro_vencimento),
        registration=each.matricula,
        cet_monthly=from_reais_text(each.cet_mensal),
    )
