"""imbuia: a liveness proof at a URL, an API version per route in `Accept`, a token without "Bearer", signed callbacks.

The manual is docs/banks/imbuia.md.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from msgspec import Struct

from foundation.errors import ApiError
from foundation.formats import from_iso_utc, iso_utc_seconds, path_to, split_phone
from providers import callbacks
from providers.bank import Bank
from providers.errors import OfferExpired, StepOwed, refusal_by_status
from providers.http import Reply
from providers.tokens import Token
from providers.types import given
from providers.types.answer import BankOffer, BankResult, Employment, QueryStatus
from providers.types.proposal import BankProposal
from providers.types.query import AppAuthorization, BankQuery, Geolocation, Person
from providers.types.steps import ActionType, BankAction, StepOutcome
from providers.types.submission import BankSubmission

QUERY = "application/vnd.imbuia.consulta_v3+json"
LIVENESS = "application/vnd.imbuia.biometria_v1+json"
SIMULATION = "application/vnd.imbuia.simulacao_v2+json"
PROPOSAL = "application/vnd.imbuia.proposta_v2+json"
PROPOSALS = "/marketplace/propostas"
FORMALIZATION = "application/vnd.imbuia.formalizacao_v1+json"


class AccessToken(Struct):
    access_token: str
    expires_in_seconds: int


class Proof(Struct):
    id_biometria: str
    link: str | None
    data_expiracao: str
    situacao: str = "PENDENTE"


class Vinculo(Struct):
    matricula: str
    cnpj_empregador: str
    nome_empregador: str
    cargo: str | None
    data_admissao: str


class Agreement(Struct):
    codigo: str


class Condition(Struct):
    id_simulacao: str
    matricula: str
    convenio: Agreement
    seguro: bool
    valor_cliente: Decimal
    quantidade_parcelas: int
    valor_parcela: Decimal
    valor_bruto: Decimal
    taxa_cliente_mensal: Decimal
    custo_total_efetivo_mensal: Decimal
    data_primeiro_vencimento: str


class Consulted(Struct):
    observacao: str | None
    biometria: Proof | None
    vinculos: list[Vinculo]
    condicoes_credito: list[Condition]


class Formalization(Struct):
    url: str
    data_expiracao: str


class Proposal(Struct):
    numero_proposta: str
    situacao: str
    formalizacao: Formalization | None
    motivo_reprovacao: str | None = None


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
        token = self.exchange("POST", "/auth/token", form=form).read(AccessToken)
        return Token.lasting(token.access_token, token.expires_in_seconds)

    def authorize(self, token: Token | None, method: str, path: str, body: bytes) -> dict[str, str]:
        # The bank refuses "Bearer" before the token.
        return {"Authorization": token.value} if token else {}

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
        body = {**_query_body(query), "codigo_origem": self.portfolio_of(query)}
        # Safe to repeat: a repeated query returns the same URL and sends no message.
        reply = self._ask("POST", "/marketplace/consultas", QUERY, json=body, safe=True)
        consulted = reply.read(Consulted)
        return _waiting(consulted.biometria) if consulted.biometria else _offers(consulted)

    def check(self, query: BankQuery, reference: str) -> BankResult:
        path = path_to("/marketplace/biometrias", reference)
        proof = self._ask("GET", path, LIVENESS, safe=True).read(Proof)
        outcome = self.step_outcome(proof.situacao)
        if outcome is StepOutcome.OPEN:
            return _waiting(proof)
        if outcome is not StepOutcome.APPROVED:
            return BankResult.ended(outcome, self.words.ended[outcome])
        body = {"simulacao": _wishes(query)}
        consulted = self._ask("POST", f"{path}/simulacoes", SIMULATION, json=body, safe=True).read(Consulted)
        return replace(_offers(consulted), step=outcome)

    @classmethod
    def verify_callback(cls, secret: str, headers: Mapping[str, str], body: bytes) -> str:
        moment, event, signature = (headers.get(f"X-Imbuia-{name}", "") for name in ("Momento", "Evento", "Assinatura"))
        signed = b".".join((moment.encode(), event.encode(), body))
        expected = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest().encode()

        def sent_at() -> datetime:
            return datetime.fromtimestamp(int(moment), UTC)

        callbacks.check(secret, expected, signature)
        return callbacks.read(body, Callback, sent_at).biometria.id_biometria

    # --- proposal

    def submit(self, submission: BankSubmission) -> BankProposal:
        body = {**_proposal_body(submission), "codigo_origem": self.portfolio_of(submission)}
        return self._proposal(self._ask("POST", PROPOSALS, PROPOSAL, json=body).read(Proposal))

    def find(self, reference: str) -> BankProposal | None:
        path = path_to(PROPOSALS, identificador_parceiro=reference)
        return self.first_of(
            map(self._proposal, self._ask("GET", path, PROPOSAL, safe=True).read(list[Proposal])), reference
        )

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        path = path_to(PROPOSALS, native_id, "formalizacao")
        body = {"envio_link": Imbuia.words.channels[channel]} if channel else {}
        return self._proposal(self._ask("POST", path, FORMALIZATION, json=body, safe=True).read(Proposal))

    def status(self, native_id: str) -> BankProposal:
        return self._proposal(self._ask("GET", path_to(PROPOSALS, native_id), PROPOSAL, safe=True).read(Proposal))

    def _ask(self, method: str, path: str, version: str, **request: Any) -> Reply:
        return self.call(method, path, headers={"Accept": version}, **request)

    def _proposal(self, proposal: Proposal) -> BankProposal:
        link = proposal.formalizacao
        return self.proposal(
            proposal.numero_proposta,
            proposal.situacao,
            link=link.url if link else None,
            link_ends_at=from_iso_utc(link.data_expiracao) if link else None,
            reason=proposal.motivo_reprovacao,
        )


def _query_body(query: BankQuery) -> dict[str, Any]:
    return {
        "trabalhador": {**_person(query.person), "sexo": Imbuia.words.sex(query.sex)},
        "aceite": {
            "data_hora": iso_utc_seconds(given(query.accepted_at)),
            "ip": query.client_ip,
            # The bank expects null for evidence that was not collected.
            "identificador": query.authorization_reference,
            "dispositivo": {
                "agente_usuario": query.user_agent,
                "modelo": query.device_model,
                "plataforma": query.platform,
            },
            "localizacao": {
                "situacao": "COLETADA" if query.geolocation else "NAO_COLETADA",
                **_coordinates(query.geolocation),
            },
            "aplicativo": _app(query.app_authorization) if query.app_authorization else None,
        },
        "simulacao": _wishes(query),
    }


def _app(app: AppAuthorization) -> dict[str, Any]:
    evidence = app.collected
    return {
        "identificador": app.authorization_id,
        "data_assinatura": app.signature_date,
        "agente_usuario": evidence.user_agent,
        "sistema_operacional": evidence.operational_system,
        "modelo": evidence.device_model,
        "nome": evidence.device_name,
        "tipo": evidence.device_type,
        **_coordinates(evidence.geolocation),
    }


def _coordinates(place: Geolocation | None) -> dict[str, Any]:
    return {"latitude": place.lat, "longitude": place.lng, "precisao_metros": place.accuracy} if place else {}


def _person(person: Person) -> dict[str, Any]:
    area_code, number = split_phone(person.phone)
    return {
        "cpf": person.cpf,
        "nome": person.name,
        "data_nascimento": person.birth_date.isoformat(),
        "email": person.email,
        "telefone": {"codigo_area": area_code, "numero": number},
    }


def _wishes(query: BankQuery) -> dict[str, Any]:
    """What to simulate. A requested amount goes before a requested installment."""
    if query.loan_value is not None:
        wish = {"tipo": "POR_VALOR_SOLICITADO", "valor": query.loan_value}
    elif query.installment_value is not None:
        wish = {"tipo": "POR_VALOR_PARCELA", "valor": query.installment_value}
    else:
        wish = {"tipo": "POR_VALOR_MAXIMO"}
    return {**wish, "prazo": query.installments, "com_seguro": query.with_insurance}


def _proposal_body(submission: BankSubmission) -> dict[str, Any]:
    holder, address = submission.holder, submission.address
    return {
        "identificador_parceiro": submission.reference,
        "id_simulacao": submission.offer.native_offer_id,
        "titular": {
            **_person(submission.person),
            "sexo": Imbuia.words.sex(holder.sex),
            "nome_mae": holder.mother_name,
            "nome_pai": holder.father_name,
            "estado_civil": Imbuia.words.marital_status(holder.marital_status),
            "naturalidade": {"cidade": holder.birth_city, "uf": holder.birth_state},
        },
        "endereco": {
            "cep": address.postal_code,
            "logradouro": address.street,
            "numero": address.number,
            "complemento": address.complement,
            "bairro": address.district,
            "cidade": address.city,
            "uf": address.state,
        },
        **_payment(submission),
        "aceite": {"ip": submission.ip},
        "envio_link": Imbuia.words.channel(submission.channel),
    }


def _payment(submission: BankSubmission) -> dict[str, Any]:
    pix = submission.pix
    if pix is not None:
        return {"chave_pix": {"tipo": Imbuia.words.pix_keys[pix.kind], "chave": pix.key}}
    account = given(submission.account)
    return {
        "dados_bancarios": {
            "tipo_conta": Imbuia.words.account_types[account.kind],
            "numero_banco": account.bank,
            "numero_agencia": account.branch,
            "digito_agencia": account.branch_digit,
            "numero_conta": account.number,
            "digito_conta": account.digit,
        }
    }


def _waiting(proof: Proof) -> BankResult:
    action = BankAction(
        ActionType.BIOMETRICS,
        proof.link,
        "O titular precisa fazer a prova de vida pelo link do banco.",
        proof.id_biometria,
        from_iso_utc(proof.data_expiracao),
    )
    return BankResult(QueryStatus.REQUIRES_ACTION, action=action, step=StepOutcome.OPEN)


def _offers(consulted: Consulted) -> BankResult:
    return BankResult.answer(
        map(_offer, consulted.condicoes_credito), map(_employment, consulted.vinculos), (consulted.observacao,)
    )


def _employment(each: Vinculo) -> Employment:
    return Employment(
        registration=each.matricula,
        employer_cnpj=each.cnpj_empregador,
        employer_name=each.nome_empregador,
        job_title=each.cargo,
        admission_date=date.fromisoformat(each.data_admissao),
    )


def _offer(each: Condition) -> BankOffer:
    return BankOffer(
        native_offer_id=each.id_simulacao,
        loan_value=each.valor_cliente,
        installment_value=each.valor_parcela,
        installments=each.quantidade_parcelas,
        interest_rate=each.taxa_cliente_mensal,
        total_amount=each.valor_bruto,
        table_code=each.convenio.codigo,
        with_insurance=each.seguro,
        first_due_date=date.fromisoformat(each.data_primeiro_vencimento),
        registration=each.matricula,
        cet_monthly=each.custo_total_efetivo_mensal,
    )
