"""How the OpenAPI schema describes the auction look-up: the record is the institution's, and is passed through."""

from typing import Annotated, Any

from msgspec import UNSET, UnsetType
from rest_framework import serializers as drf

from consultas.schema import NO_PLACE
from foundation.errors import NotFound
from foundation.shapes import Link, Moment, Shape
from partners.schema import describe, in_path
from providers.errors import ProviderError, ProviderNotAllowed, ProviderUnavailable

# What may be null or missing, so that partners must not depend on it.
_Text = str | None | UnsetType
_Time = Moment | None | UnsetType


class AuctionRate(Shape):
    monthly_rate: Annotated[float, "Fração: 0.0199 é 1,99% ao mês.", 0.0199]


class AuctionSimulation(Shape):
    installment_face_value: Annotated[float, "Reais por mês.", 429.1]
    total_amount: Annotated[float, "Reais.", 15447.6]
    prefixed_interest_rate: Annotated[AuctionRate, "Taxa prefixada do lance."]
    cet: Annotated[float, "Custo efetivo total, por cento ao mês.", 1.99]
    annual_cet: Annotated[float, "Custo efetivo total, por cento ao ano.", 23.88]
    first_due_date: Annotated[Moment, "Vencimento da primeira parcela.", "2027-01-10T00:00:00.000000Z"]


class AuctionProposalData(Shape):
    disbursed_issue_amount: Annotated[float, "Reais. O lance de fato: é este que se mostra ao titular.", 9000.0]
    number_of_installments: Annotated[int, "Meses do lance.", 36]
    simulation: Annotated[AuctionSimulation, "De onde vêm a parcela e o custo total."]


class AuctionProposal(Shape, kw_only=True):
    status: Annotated[str | UnsetType, "Situação do lance na instituição.", "sent"] = UNSET
    issuer_proposal_key: Annotated[_Text, "Chave do lance na instituição.", "2a6f4a55-8e0b-4f5e-9c8e-9f0f1c7e2d34"] = (
        UNSET
    )
    proposal_data: Annotated[AuctionProposalData, "As condições do lance."]


class AuctionRecord(Shape, kw_only=True):
    disbursed_issue_amount: Annotated[float, "Reais que o trabalhador pediu no leilão; só como contexto.", 10000.0]
    number_of_installments: Annotated[int, "Meses que o trabalhador pediu.", 36]
    consigned_credit_balance: Annotated[
        float, "Margem quando o convite foi gerado; a de hoje está em `employers[].margin` de uma consulta.", 1850.0
    ]
    expiration_datetime: Annotated[
        Moment, "Prazo do lance. Depois dele a chave continua a valer.", "2026-11-22T09:00:00.000000Z"
    ]
    proposal: Annotated[AuctionProposal, "O lance do banco próprio."]
    name: Annotated[str, "Do titular.", "Helena Duarte Fictícia"]
    document_number: Annotated[str, "CPF do titular.", "90000000175"]
    birth_date: Annotated[Moment, "Nascimento do titular.", "1988-04-17T00:00:00.000000Z"]
    eligible: Annotated[bool, "Se o titular pode contratar, segundo a instituição.", True]
    employer_name: Annotated[str, "Nome do empregador.", "Metalúrgica Aurora Ltda"]
    employer_document_type: Annotated[str, "Tipo do documento do empregador, como `cnpj`.", "cnpj"]
    employer_document_number: Annotated[str, "CNPJ do empregador.", "11222333000181"]
    issuer_registration_number: Annotated[str, "Matrícula.", "100200"]
    admission_date: Annotated[Moment, "Admissão no emprego.", "2019-03-11T00:00:00.000000Z"]
    political_exposition: Annotated[_Text, "Exposição política, nas palavras da instituição.", "not_exposed"] = UNSET
    status: Annotated[_Text, "Situação do leilão na instituição.", "ongoing"] = UNSET
    webhook_type: Annotated[
        _Text, "Como a instituição chama o aviso.", "private_payroll_auction.new_issuer_proposal_request"
    ] = UNSET
    alerts: Annotated[Annotated[list[Any], drf.ListField] | UnsetType | None, "Avisos da instituição.", []] = UNSET
    rank_position: Annotated[int | UnsetType | None, "Posição do lance no leilão.", None] = UNSET
    event_datetime: Annotated[_Time, "Hora do aviso.", "2026-11-21T12:00:00.000000Z"] = UNSET
    inclusion_limit_datetime: Annotated[
        _Time, "Até quando um lance podia ser incluído.", "2026-11-22T08:00:00.000000Z"
    ] = UNSET
    external_proposal_url: Annotated[Link | UnsetType | None, "Link da instituição para o lance.", None] = UNSET
    proposal_key: Annotated[_Text, "Chave da proposta, a do caminho.", "lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9"] = UNSET
    auction_key: Annotated[_Text, "Chave do leilão.", "b0b1a3e2-52de-4d4e-8a2e-0c9b6c7a9f21"] = UNSET
    issuer_proposal_request_key: Annotated[
        _Text, "Chave do pedido de lance.", "7f1c2f0a-6a38-4a8f-9d43-3f1d1a3c5b10"
    ] = UNSET


_FOUND = AuctionRecord.example()

auction = describe(
    "Lances",
    operation_id="auction_lookup",
    summary="Dados de uma proposta de leilão a partir da sua chave, sem efeitos",
    description=(
        "Nada é criado nem enviado, e a chave vale também depois do prazo do lance. O registro vem como a instituição "
        "o informa: pode trazer outros campos, e os que não são obrigatórios podem ser nulos ou faltar."
    ),
    parameters=[in_path("proposal_key", "Chave do link do leilão.", {"Encontrada": str(_FOUND.proposal_key)})],
    answers={200: {"Registro": _FOUND}},
    refusals=[ProviderNotAllowed(), NotFound(), *NO_PLACE, ProviderUnavailable(), ProviderError()],
)
