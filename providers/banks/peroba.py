"""peroba, the chat bank: two authentication headers, PascalCase, decimals as text, the outcome in the HTTP status.

The manual is docs/banks/peroba.md. The bank sends no callbacks, so `check` finds out how a step ended.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

from msgspec import Struct

from foundation.errors import ApiError
from foundation.formats import from_iso_utc, iso_utc_seconds, path_to, split_phone, to_decimal
from providers.bank import Bank, Limits
from providers.errors import StepOwed, refusal_by_status
from providers.http import Reply
from providers.tokens import Token
from providers.types import given
from providers.types.answer import BankOffer, BankResult, Employment, QueryStatus
from providers.types.proposal import BankProposal, Stage, StageReport
from providers.types.query import BankQuery, Person
from providers.types.steps import ActionType, BankAction, StepOutcome
from providers.types.submission import BankAccount, BankSubmission

QUERIES, PROPOSALS = "/ConsignadoPrivado/Consultas", "/ConsignadoPrivado/Propostas"
AUTHORIZE_FIRST = 202
# At this bank H means homem and M means mulher. The contract's M (male) is therefore the bank's H.
CHAT_DETAIL = "O titular precisa confirmar a autorização por mensagem: envie a ele este link."


class AccessToken(Struct, rename="pascal"):
    token: str
    validade_minutos: int


class Sentence(Struct, rename="pascal"):
    mensagem: str


class Waiting(Struct, rename="pascal"):
    mensagem: str
    protocolo: str
    valido_ate: str


class Vinculo(Struct, rename="pascal"):
    matricula: str
    cnpj_empregador: str
    nome_empregador: str
    cargo: str | None
    data_admissao: date | None


class Simulacao(Struct, rename="pascal"):
    codigo_simulacao: str
    matricula: str
    codigo_tabela: str
    valor_liberado: str
    valor_parcela: str
    quantidade_parcelas: int
    valor_total: str
    taxa_mes: str
    cet_mes: str
    com_seguro: bool
    primeiro_vencimento: date


class Consultation(Struct, rename="pascal"):
    mensagem: str | None
    autorizacao: str
    vinculos: list[Vinculo]
    simulacoes: list[Simulacao]


class Averbacao(Struct, rename="pascal"):
    desde: str


class Proposta(Struct, rename="pascal"):
    codigo: str
    situacao: str
    link_assinatura: str | None
    link_valido_ate: str | None
    motivo_reprovacao: str | None = None
    averbacao: Averbacao | None = None


class Proposal(Struct, rename="pascal"):
    proposta: Proposta


class Peroba(Bank):
    name = "peroba"
    label = "Peroba"
    credentials = {"gateway_key": "Chave do gateway", "user": "Usuário", "password": "Senha"}
    authorization = "chat"
    notifies_holder = True
    required = ("recebimento.conta_bancaria",)
    deduplicates = True
    limits = Limits(texts={"titular.nacionalidade": 60})
    evidence_without_place = frozenset({"app_authorization"})

    # --- authentication and errors

    def login(self, old: Token | None) -> Token:
        user = self.connection.credentials
        body = {"Usuario": user["user"], "Senha": user["password"]}
        reply = self.exchange("POST", "/Acesso/Token", json=body, headers=self._gateway())
        token = reply.read(AccessToken)
        return Token.lasting(token.token, token.validade_minutos * 60)

    def authorize(self, token: Token | None, method: str, path: str, body: bytes) -> dict[str, str]:
        return {**self._gateway(), **super().authorize(token, method, path, body)}

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if reply.status not in (400, 404, 409):
            return None
        sentence = reply.read(Sentence).mensagem  # raises if a gateway sent an error page instead
        return refusal_by_status(reply.status, sentence)

    def _gateway(self) -> dict[str, str]:
        return {"X-Gateway-Key": self.connection.credentials["gateway_key"]}

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        # Not safe to repeat: the bank may send the holder a message.
        reply = self.call("POST", QUERIES, json={**_holder(query), **self._wish(query)})
        return _waiting(reply) if reply.status == AUTHORIZE_FIRST else _answer(reply.read(Consultation))

    def check(self, query: BankQuery, reference: str) -> BankResult:
        reply = self.call("POST", path_to(QUERIES, reference), json=self._wish(query), safe=True)
        if reply.status == AUTHORIZE_FIRST:
            return _waiting(reply)
        consultation = reply.read(Consultation)
        outcome = self.step_outcome(consultation.autorizacao)
        if outcome is StepOutcome.APPROVED:
            return _answer(consultation, step=outcome)
        if outcome is StepOutcome.OPEN:
            return BankResult(QueryStatus.REQUIRES_ACTION, step=outcome)
        return BankResult.ended(outcome, consultation.mensagem)

    def _wish(self, query: BankQuery) -> dict[str, Any]:
        return {
            "Simulacao": {
                "ValorLiberado": _text(query.loan_value),
                "ValorParcela": _text(query.installment_value),
                "QuantidadeParcelas": query.installments,
                "ComSeguro": query.with_insurance,
            },
            "Carteira": self.portfolio_of(query),
        }

    # --- proposal

    def submit(self, submission: BankSubmission) -> BankProposal:
        body = _submission_body(submission, given(submission.account))
        reply = self.call("POST", PROPOSALS, json=body)
        if reply.status == AUTHORIZE_FIRST:
            raise StepOwed(
                "O titular ainda não autorizou a consulta neste banco. Aguarde a autorização e consulte de novo."
            )
        return self._proposal(reply)

    def find(self, reference: str) -> BankProposal | None:
        return self._proposal(self.call("GET", path_to(PROPOSALS, IdentificadorExterno=reference), safe=True))

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        body = {"EnvioAssinatura": Peroba.words.channels[channel]} if channel else {}
        return self._proposal(self.call("POST", path_to(PROPOSALS, native_id, "Formalizacao"), json=body, safe=True))

    def status(self, native_id: str) -> BankProposal:
        return self._proposal(self.call("GET", path_to(PROPOSALS, native_id), safe=True))

    def _proposal(self, reply: Reply) -> BankProposal:
        proposal = reply.read(Proposal).proposta
        ends_at = from_iso_utc(proposal.link_valido_ate) if proposal.link_valido_ate else None
        averbation = proposal.averbacao
        return self.proposal(
            proposal.codigo,
            proposal.situacao,
            link=proposal.link_assinatura,
            link_ends_at=ends_at,
            reason=proposal.motivo_reprovacao,
            stage=StageReport(Stage.AVERBATION, from_iso_utc(averbation.desde)) if averbation else None,
        )


def _holder(query: BankQuery) -> dict[str, Any]:
    """The holder and the evidence of the acceptance. The bank expects null for evidence that was not collected."""
    place = query.geolocation
    return {
        "Cliente": {**_person(query.person), "Genero": Peroba.words.sex(query.sex)},
        "Aceite": {
            "EnderecoIp": query.client_ip,
            "DataHora": iso_utc_seconds(given(query.accepted_at)),
            "Protocolo": query.authorization_reference,
            "Latitude": f"{place.lat:f}" if place else None,
            "Longitude": f"{place.lng:f}" if place else None,
            "PrecisaoMetros": f"{place.accuracy:f}" if place and place.accuracy is not None else None,
            "Navegador": query.user_agent,
            "Aparelho": query.device_model,
            "Plataforma": query.platform,
        },
    }


def _person(person: Person) -> dict[str, Any]:
    area_code, number = split_phone(person.phone)
    return {
        "Nome": person.name,
        "Cpf": person.cpf,
        "DataNascimento": person.birth_date.isoformat(),
        "Email": person.email,
        "Celular": {"Ddd": area_code, "Numero": number},
    }


def _submission_body(submission: BankSubmission, account: BankAccount) -> dict[str, Any]:
    holder, address = submission.holder, submission.address
    return {
        "IdentificadorExterno": submission.reference,
        "CodigoSimulacao": submission.offer.native_offer_id,
        "Cliente": {
            **_person(submission.person),
            "Genero": Peroba.words.sex(holder.sex),
            "NomeMae": holder.mother_name,
            "NomePai": holder.father_name,
            "EstadoCivil": Peroba.words.marital_status(holder.marital_status),
            "Nacionalidade": holder.nationality,
            "Endereco": {
                "Cep": address.postal_code,
                "Logradouro": address.street,
                "Numero": address.number,
                "Complemento": address.complement,
                "Bairro": address.district,
                "Cidade": address.city,
                "Uf": address.state,
            },
        },
        "Pagamento": {
            "Banco": account.bank,
            "Agencia": account.branch,
            "DigitoAgencia": account.branch_digit,
            "Conta": account.number,
            "DigitoConta": account.digit,
            "TipoConta": Peroba.words.account_types[account.kind],
        },
        "Aceite": {"EnderecoIp": submission.ip},
        "EnvioAssinatura": Peroba.words.channel(submission.channel),
    }


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
    return BankResult(QueryStatus.REQUIRES_ACTION, action=action, step=StepOutcome.OPEN)


def _answer(consultation: Consultation, step: StepOutcome | None = None) -> BankResult:
    return BankResult.answer(
        map(_offer, consultation.simulacoes),
        map(_employment, consultation.vinculos),
        (consultation.mensagem,),
        step=step,
    )


def _employment(each: Vinculo) -> Employment:
    return Employment(
        registration=each.matricula,
        employer_cnpj=each.cnpj_empregador,
        employer_name=each.nome_empregador,
        job_title=each.cargo,
        admission_date=each.data_admissao,
    )


def _offer(each: Simulacao) -> BankOffer:
    return BankOffer(
        native_offer_id=each.codigo_simulacao,
        loan_value=to_decimal(each.valor_liberado),
        installment_value=to_decimal(each.valor_parcela),
        installments=each.quantidade_parcelas,
        interest_rate=to_decimal(each.taxa_mes),
        total_amount=to_decimal(each.valor_total),
        table_code=each.codigo_tabela,
        with_insurance=each.com_seguro,
        first_due_date=each.primeiro_vencimento,
        registration=each.matricula,
        cet_monthly=to_decimal(each.cet_mes),
    )


def _text(value: Decimal | None) -> str | None:
    return None if value is None else f"{value:.2f}"
