"""jatoba: whole cents, errors with HTTP 200, and an authorization term that the service signs.

The manual is docs/banks/jatoba.md.
"""

from __future__ import annotations

import hashlib
import hmac
from decimal import Decimal
from typing import Any, Generic, TypeVar

from msgspec import Struct

from foundation.errors import ApiError, NotFound
from foundation.formats import (
    from_br_date,
    from_br_moment,
    from_cents,
    path_to,
    split_phone,
    to_br_date,
    to_br_time,
    to_cents,
)
from providers.bank import Bank, basic_auth
from providers.errors import Conflict, OfferExpired, ProviderError, ProviderRejected, ProviderUnavailable
from providers.http import Reply
from providers.reasons import ReasonCode, folded
from providers.tokens import Token
from providers.types import given
from providers.types.answer import BankOffer, BankResult, Employment, QueryStatus
from providers.types.proposal import BankProposal
from providers.types.query import AppAuthorization, BankQuery, Person
from providers.types.submission import BankSubmission, Disbursement, PixKey

PROPOSALS = "/v1/consignado-privado/propostas"
NO_OFFER = "20"
NO_GEOLOCATION = "21"
WITHOUT_GEOLOCATION = "O banco exige a geolocalização do titular no momento do aceite (campo geolocation)."
INVALID_FIELD = ("10", "11", "12", "13")
CLIENT_REFUSED = ("30", "31")
FORBIDDEN_NOW = "41"
REFUSALS: dict[str, type[ApiError]] = {
    "40": NotFound,
    "42": OfferExpired,
    "99": ProviderUnavailable,
}
CPF_KEY_INSTEAD = "Este banco não aceita chave PIX de telefone: o valor é pago na chave CPF do titular."
T = TypeVar("T")


class Envelope(Struct, Generic[T]):
    sucesso: bool
    codigo: str
    mensagem: str
    dados: T | None


class AccessToken(Struct, rename="camel"):
    token: str
    expira_em_segundos: int


class Employer(Struct, rename="camel"):
    matricula: str
    cnpj_empregador: str
    nome_empregador: str
    cargo: str | None
    data_admissao: str
    margem_disponivel: int


class Offer(Struct, rename="camel"):
    id_oferta: str
    matricula: str
    codigo_tabela: str
    valor_liberado: int
    valor_parcela: int
    quantidade_parcelas: int
    valor_total: int
    taxa_mensal: int
    custo_efetivo_mensal: int
    com_seguro: bool
    primeiro_vencimento: str
    valor_iof: int | None = None
    valor_seguro: int | None = None


class Simulation(Struct):
    vinculos: list[Employer]
    ofertas: list[Offer]


class Proposal(Struct, rename="camel"):
    numero_proposta: str
    situacao: str
    link_assinatura: str | None
    validade_link: str | None
    numero_contrato: str | None = None
    data_liquidacao: str | None = None
    valor_liquidado: int | None = None
    motivo_recusa: str | None = None


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
    needed_evidence = frozenset({"geolocation"})
    deduplicates = True
    reasons = {folded(WITHOUT_GEOLOCATION): ReasonCode.DATA_MISMATCH}

    # --- authentication and errors

    def login(self, old: Token | None) -> Token:
        user = self.connection.credentials
        headers = {**basic_auth(user["user"], user["password"]), "ApiKey": user["api_key"]}
        granted = self.exchange("POST", "/v1/tokens", headers=headers).read(Envelope[AccessToken])
        token = given(granted.dados)
        return Token.lasting(token.token, token.expira_em_segundos)

    def authorize(self, token: Token | None, method: str, path: str, body: bytes) -> dict[str, str]:
        return {"ApiKey": self.connection.credentials["api_key"], **super().authorize(token, method, path, body)}

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if reply.status != 200:
            return None
        verdict = reply.read(Envelope[Any])
        if verdict.sucesso or verdict.codigo in (NO_OFFER, NO_GEOLOCATION):
            return None
        if verdict.codigo == FORBIDDEN_NOW:
            return Conflict(verdict.mensagem)
        if verdict.codigo in (*INVALID_FIELD, *CLIENT_REFUSED):
            return ProviderRejected(verdict.mensagem)
        return REFUSALS.get(verdict.codigo, ProviderError)()

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        # A query has no side effect at this bank, so it may be sent again after a broken connection.
        reply = self.call("POST", "/v1/consignado-privado/simulacoes", json=self._query_body(query), safe=True)
        envelope = reply.read(Envelope[Simulation])
        if envelope.codigo in (NO_OFFER, NO_GEOLOCATION):
            reason = WITHOUT_GEOLOCATION if envelope.codigo == NO_GEOLOCATION else envelope.mensagem
            return BankResult(QueryStatus.NO_OFFERS, reasons=(reason,))
        simulation = given(envelope.dados)
        return BankResult.answer(map(_offer, simulation.ofertas), map(_employment, simulation.vinculos))

    def _query_body(self, query: BankQuery) -> dict[str, Any]:
        modality, value = "MARGEM_TOTAL", None
        if query.loan_value is not None:
            modality, value = "VALOR_SOLICITADO", to_cents(query.loan_value)
        elif query.installment_value is not None:
            modality, value = "VALOR_PARCELA", to_cents(query.installment_value)
        return {
            "cliente": {**_person(query.person), "sexo": Jatoba.words.sex(query.sex)},
            "termo": self._term(query),
            "simulacao": {
                "modalidade": modality,
                "valor": value,
                "prazo": query.installments,
                "comSeguro": query.with_insurance,
            },
            "codigoOrigem": self.portfolio_of(query),
        }

    def _term(self, query: BankQuery) -> dict[str, Any]:
        """The term with its evidence, signed with the service's key. Evidence that was not collected is null. Without a
        geolocation the bank makes no offer; the adapter leaves that decision to the bank."""
        place = query.geolocation
        accepted_at = " ".join(to_br_time(given(query.accepted_at)))
        latitude, longitude = (_number(place.lat), _number(place.lng)) if place else (None, None)
        signed = ";".join((query.cpf, accepted_at, query.client_ip, latitude or "", longitude or ""))
        key = self.connection.credentials["term_key"].encode()
        return {
            "aceitoEm": accepted_at,
            "enderecoIp": query.client_ip,
            "latitude": latitude,
            "longitude": longitude,
            "precisaoMetros": _number(place.accuracy) if place and place.accuracy is not None else None,
            "agenteUsuario": query.user_agent,
            "modeloAparelho": query.device_model,
            "plataforma": query.platform,
            "idSessao": query.authorization_reference,
            "autorizacaoApp": _app_authorization(query.app_authorization) if query.app_authorization else None,
            "assinatura": hmac.new(key, signed.encode(), hashlib.sha256).hexdigest(),
        }

    # --- proposal

    def submit(self, submission: BankSubmission) -> BankProposal:
        return self._proposal(self.call("POST", PROPOSALS, json=self._submission_body(submission)))

    def find(self, reference: str) -> BankProposal | None:
        return self._proposal(self.call("GET", path_to(PROPOSALS, identificadorParceiro=reference), safe=True))

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        body = {"envioLink": self.words.channel(channel)}
        return self._proposal(self.call("POST", path_to(PROPOSALS, native_id, "emissao"), json=body, safe=True))

    def status(self, native_id: str) -> BankProposal:
        return self._proposal(self.call("GET", path_to(PROPOSALS, native_id), safe=True))

    @classmethod
    def disbursement(cls, submission: BankSubmission) -> Disbursement:
        if submission.pix is None or submission.pix.kind != "telefone":
            return super().disbursement(submission)
        return Disbursement(pix=PixKey("cpf", submission.holder.cpf), remark=CPF_KEY_INSTEAD)

    def _submission_body(self, submission: BankSubmission) -> dict[str, Any]:
        employment = submission.employment
        hired_on, salary = employment.admission_date, employment.salary
        return {
            "identificadorParceiro": submission.reference,
            "idOferta": submission.offer.native_offer_id,
            "codigoOrigem": self.portfolio_of(submission),
            "proponente": _holder(submission),
            "vinculo": {
                "matricula": employment.registration,
                "cargo": employment.job_title,
                "salario": to_cents(salary) if salary else None,
                "dataAdmissao": to_br_date(hired_on) if hired_on else None,
            },
            "credito": _credit(self.disbursement(submission)),
            "aceite": {"enderecoIp": submission.ip},
            "envioLink": self.words.channel(submission.channel),
        }

    def _proposal(self, reply: Reply) -> BankProposal:
        proposal = given(reply.read(Envelope[Proposal]).dados)
        ends_at = from_br_moment(proposal.validade_link) if proposal.validade_link else None
        paid_at, cents = proposal.data_liquidacao, proposal.valor_liquidado
        return self.proposal(
            proposal.numero_proposta,
            proposal.situacao,
            link=proposal.link_assinatura,
            link_ends_at=ends_at,
            contract_number=proposal.numero_contrato,
            disbursed_at=from_br_moment(paid_at) if paid_at else None,
            disbursed_amount=from_cents(cents) if cents is not None else None,
            reason=proposal.motivo_recusa,
        )


def _person(person: Person) -> dict[str, Any]:
    area_code, number = split_phone(person.phone)
    return {
        "cpf": person.cpf,
        "nome": person.name,
        "dataNascimento": to_br_date(person.birth_date),
        "email": person.email,
        "telefone": {"ddd": area_code, "numero": number},
    }


def _number(value: Decimal) -> str:
    """A coordinate or a distance as text with the same digits."""
    return f"{value:f}"


def _app_authorization(app: AppAuthorization) -> dict[str, Any]:
    evidence = app.collected
    place = evidence.geolocation
    return {
        "id": app.authorization_id,
        "assinadaEm": app.signature_date,
        "agenteUsuario": evidence.user_agent,
        "sistemaOperacional": evidence.operational_system,
        "modeloAparelho": evidence.device_model,
        "nomeAparelho": evidence.device_name,
        "tipoAparelho": evidence.device_type,
        "latitude": _number(place.lat) if place else None,
        "longitude": _number(place.lng) if place else None,
    }


def _holder(submission: BankSubmission) -> dict[str, Any]:
    holder, address = submission.holder, submission.address
    return {
        **_person(submission.person),
        "sexo": Jatoba.words.sex(holder.sex),
        "estadoCivil": Jatoba.words.marital_statuses[given(holder.marital_status)],
        "nomeMae": holder.mother_name,
        "nomePai": holder.father_name,
        "endereco": {
            "cep": address.postal_code,
            "logradouro": address.street,
            "numero": address.number,
            "complemento": address.complement,
            "bairro": address.district,
            "cidade": address.city,
            "uf": address.state,
        },
    }


def _credit(disbursement: Disbursement) -> dict[str, Any]:
    pix = disbursement.pix
    if pix is not None:
        return {"forma": "PIX", "tipoChave": Jatoba.words.pix_keys[pix.kind], "chave": pix.key}
    account = given(disbursement.account)
    return {
        "forma": "CONTA",
        "banco": account.bank,
        "agencia": account.branch,
        "digitoAgencia": account.branch_digit,
        "conta": account.number,
        "digitoConta": account.digit,
        "tipoConta": Jatoba.words.account_types[account.kind],
    }


def _employment(each: Employer) -> Employment:
    return Employment(
        registration=each.matricula,
        employer_cnpj=each.cnpj_empregador,
        employer_name=each.nome_empregador,
        job_title=each.cargo,
        admission_date=from_br_date(each.data_admissao),
        margin=from_cents(each.margem_disponivel),
    )


def _offer(each: Offer) -> BankOffer:
    return BankOffer(
        native_offer_id=each.id_oferta,
        loan_value=from_cents(each.valor_liberado),
        installment_value=from_cents(each.valor_parcela),
        installments=each.quantidade_parcelas,
        # The rate is in hundredths of a percent, just as amounts are in cents.
        interest_rate=from_cents(each.taxa_mensal),
        total_amount=from_cents(each.valor_total),
        table_code=each.codigo_tabela,
        with_insurance=each.com_seguro,
        first_due_date=from_br_date(each.primeiro_vencimento),
        registration=each.matricula,
        cet_monthly=from_cents(each.custo_efetivo_mensal),
        iof=from_cents(each.valor_iof) if each.valor_iof is not None else None,
        insurance_value=from_cents(each.valor_seguro) if each.valor_seguro is not None else None,
    )
