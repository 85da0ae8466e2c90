"""How the OpenAPI schema describes the auction look-up."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers as drf

from consultas.schema import NO_PLACE
from foundation.errors import NotFound
from partners.schema import errors, response_example
from providers.errors import ProviderError, ProviderNotAllowed, ProviderUnavailable


class AuctionRateSchema(drf.Serializer[Any]):
    monthly_rate = drf.FloatField(help_text="Fração: 0.0199 é 1,99% ao mês.")


class AuctionSimulationSchema(drf.Serializer[Any]):
    installment_face_value = drf.FloatField(help_text="Reais por mês.")
    total_amount = drf.FloatField(help_text="Reais.")
    prefixed_interest_rate = AuctionRateSchema(help_text="Taxa prefixada do lance.")
    cet = drf.FloatField(help_text="Custo efetivo total, por cento ao mês.")
    annual_cet = drf.FloatField(help_text="Custo efetivo total, por cento ao ano.")
    first_due_date = drf.DateTimeField(help_text="Vencimento da primeira parcela.")


class AuctionProposalDataSchema(drf.Serializer[Any]):
    disbursed_issue_amount = drf.FloatField(help_text="Reais. O lance de fato: é este que se mostra ao titular.")
    number_of_installments = drf.IntegerField(help_text="Meses do lance.")
    simulation = AuctionSimulationSchema(help_text="De onde vêm a parcela e o custo total.")


class AuctionProposalSchema(drf.Serializer[Any]):
    status = drf.CharField(required=False, help_text="Situação do lance na instituição.")
    issuer_proposal_key = drf.CharField(required=False, allow_null=True, help_text="Chave do lance na instituição.")
    proposal_data = AuctionProposalDataSchema(help_text="As condições do lance.")


def _as_it_comes(field: type[drf.Field[Any, Any, Any, Any]], **options: Any) -> drf.Field[Any, Any, Any, Any]:
    """A field that the institution passes through. It may be null or missing, so partners must not depend on it."""
    return field(required=False, allow_null=True, **options)


class AuctionRecordSchema(drf.Serializer[Any]):
    disbursed_issue_amount = drf.FloatField(help_text="Reais que o trabalhador pediu no leilão; só como contexto.")
    number_of_installments = drf.IntegerField(help_text="Meses que o trabalhador pediu.")
    consigned_credit_balance = drf.FloatField(
        help_text="Margem quando o convite foi gerado; a de hoje está em `employers[].margin` de uma consulta."
    )
    expiration_datetime = drf.DateTimeField(help_text="Prazo do lance. Depois dele a chave continua a valer.")
    proposal = AuctionProposalSchema(help_text="O lance do banco próprio.")
    name = drf.CharField(help_text="Do titular.")
    document_number = drf.CharField(help_text="CPF do titular.")
    birth_date = drf.DateTimeField(help_text="Nascimento do titular.")
    eligible = drf.BooleanField(help_text="Se o titular pode contratar, segundo a instituição.")
    employer_name = drf.CharField(help_text="Nome do empregador.")
    employer_document_type = drf.CharField(help_text="Tipo do documento do empregador, como `cnpj`.")
    employer_document_number = drf.CharField(help_text="CNPJ do empregador.")
    issuer_registration_number = drf.CharField(help_text="Matrícula.")
    admission_date = drf.DateTimeField(help_text="Admissão no emprego.")
    political_exposition = _as_it_comes(drf.CharField, help_text="Exposição política, nas palavras da instituição.")
    status = _as_it_comes(drf.CharField, help_text="Situação do leilão na instituição.")
    webhook_type = _as_it_comes(drf.CharField, help_text="Como a instituição chama o aviso.")
    alerts = _as_it_comes(drf.ListField, help_text="Avisos da instituição.")
    rank_position = _as_it_comes(drf.IntegerField, help_text="Posição do lance no leilão.")
    event_datetime = _as_it_comes(drf.DateTimeField, help_text="Hora do aviso.")
    inclusion_limit_datetime = _as_it_comes(drf.DateTimeField, help_text="Até quando um lance podia ser incluído.")
    external_proposal_url = _as_it_comes(drf.URLField, help_text="Link da instituição para o lance.")
    proposal_key = _as_it_comes(drf.CharField, help_text="Chave da proposta, a do caminho.")
    auction_key = _as_it_comes(drf.CharField, help_text="Chave do leilão.")
    issuer_proposal_request_key = _as_it_comes(drf.CharField, help_text="Chave do pedido de lance.")


_AUCTION: dict[str, Any] = {
    "webhook_type": "private_payroll_auction.new_issuer_proposal_request",
    "proposal_key": "lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9",
    "issuer_proposal_request_key": "7f1c2f0a-6a38-4a8f-9d43-3f1d1a3c5b10",
    "auction_key": "b0b1a3e2-52de-4d4e-8a2e-0c9b6c7a9f21",
    "status": "ongoing",
    "event_datetime": "2026-11-21T12:00:00.000000Z",
    "expiration_datetime": "2026-11-22T09:00:00.000000Z",
    "inclusion_limit_datetime": "2026-11-22T08:00:00.000000Z",
    "external_proposal_url": None,
    "rank_position": None,
    "alerts": [],
    "disbursed_issue_amount": 10000.0,
    "number_of_installments": 36,
    "consigned_credit_balance": 1850.0,
    "eligible": True,
    "political_exposition": "not_exposed",
    "name": "Helena Duarte Fictícia",
    "document_number": "90000000175",
    "birth_date": "1988-04-17T00:00:00.000000Z",
    "admission_date": "2019-03-11T00:00:00.000000Z",
    "issuer_registration_number": "100200",
    "employer_document_type": "cnpj",
    "employer_document_number": "11222333000181",
    "employer_name": "Metalúrgica Aurora Ltda",
    "proposal": {
        "status": "sent",
        "issuer_proposal_key": "2a6f4a55-8e0b-4f5e-9c8e-9f0f1c7e2d34",
        "proposal_data": {
            "disbursed_issue_amount": 9000.0,
            "number_of_installments": 36,
            "simulation": {
                "installment_face_value": 429.1,
                "total_amount": 15447.6,
                "prefixed_interest_rate": {"monthly_rate": 0.0199},
                "cet": 1.99,
                "annual_cet": 23.88,
                "first_due_date": "2027-01-10T00:00:00.000000Z",
            },
        },
    },
}


auction = extend_schema(
    operation_id="auction_lookup",
    tags=["Lances"],
    summary="Dados de uma proposta de leilão a partir da sua chave, sem efeitos",
    description=(
        "Nada é criado nem enviado, e a chave vale também depois do prazo do lance. O registro vem como a instituição "
        "o informa: pode trazer outros campos, e os que não são obrigatórios podem ser nulos ou faltar."
    ),
    parameters=[
        OpenApiParameter(
            "proposal_key",
            str,
            OpenApiParameter.PATH,
            description="Chave do link do leilão.",
            examples=[OpenApiExample("Encontrada", value=_AUCTION["proposal_key"])],
        )
    ],
    request=None,
    responses={
        200: AuctionRecordSchema,
        **errors(ProviderNotAllowed(), NotFound(), *NO_PLACE, ProviderUnavailable(), ProviderError(), body=False),
    },
    examples=[response_example("Registro", _AUCTION)],
)
