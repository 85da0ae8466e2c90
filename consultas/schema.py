"""How the OpenAPI schema describes the query routes: response shapes, examples, errors."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers as drf

from consultas.serializers import IndividualQueryRequest, QueryRequest
from partners.schema import errors
from providers.types import ActionType, QueryStatus

STATUSES = [item.value for item in QueryStatus]
ACTION_TYPES = [item.value for item in ActionType]


class OfferSchema(drf.Serializer[Any]):
    provider = drf.CharField()
    offerId = drf.UUIDField(allow_null=True, help_text="Nulo no fluxo de eventos, que não guarda ofertas.")
    loanValue = drf.FloatField(help_text="Reais.")
    installmentValue = drf.FloatField(help_text="Reais por mês.")
    installments = drf.IntegerField(help_text="Meses.")
    interestRate = drf.FloatField(help_text="Por cento ao mês.")
    totalAmount = drf.FloatField(help_text="Reais.")
    tableCode = drf.CharField()
    firstDueDate = drf.DateField(allow_null=True)
    employerName = drf.CharField()
    employerCnpj = drf.CharField()
    matricula = drf.CharField()
    providerData = drf.DictField(help_text="Identificadores do banco; `nativeOfferId` nomeia a oferta lá.")
    adjusted = drf.BooleanField()
    adjustments = drf.ListField(child=drf.CharField())

    class Meta:
        ref_name = "Offer"


class ActionSchema(drf.Serializer[Any]):
    type = drf.ChoiceField(ACTION_TYPES)
    url = drf.URLField(allow_null=True)
    detail = drf.CharField()

    class Meta:
        ref_name = "Action"


class VinculoSchema(drf.Serializer[Any]):
    matricula = drf.CharField()
    employerCnpj = drf.CharField()
    employerName = drf.CharField()
    jobTitle = drf.CharField(allow_null=True)
    admissionDate = drf.DateField(allow_null=True)
    margin = drf.FloatField(allow_null=True)

    class Meta:
        ref_name = "Vinculo"


class ProviderResultSchema(drf.Serializer[Any]):
    provider = drf.CharField()
    status = drf.ChoiceField(STATUSES)
    success = drf.BooleanField()
    proposals = OfferSchema(many=True)
    vinculos = VinculoSchema(many=True)
    error = drf.CharField(allow_null=True)
    elapsedMs = drf.IntegerField()
    noProposalReasons = drf.ListField(child=drf.CharField())
    requiresSignature = drf.BooleanField()
    signatureUrl = drf.URLField(allow_null=True)
    action = ActionSchema(allow_null=True)
    termAutoAuthorized = drf.BooleanField()

    class Meta:
        ref_name = "ProviderResult"


class EmployerSchema(drf.Serializer[Any]):
    cnpj = drf.CharField()
    name = drf.CharField()
    matricula = drf.CharField()
    provider = drf.CharField()
    margin = drf.FloatField(allow_null=True, help_text="Margem consignável em tempo real; nula se o banco não informa.")

    class Meta:
        ref_name = "Employer"


class AggregatedSchema(drf.Serializer[Any]):
    proposals = OfferSchema(many=True)
    providerResults = drf.DictField(child=ProviderResultSchema())
    employers = EmployerSchema(many=True)
    elapsedMs = drf.IntegerField()
    timestamp = drf.DateTimeField()
    simulationGroupId = drf.UUIDField(allow_null=True)

    class Meta:
        ref_name = "AggregatedResponse"


class SnakeOfferSchema(drf.Serializer[Any]):
    provider = drf.CharField()
    loan_value = drf.FloatField()
    installment_value = drf.FloatField()
    installments = drf.IntegerField()
    interest_rate = drf.FloatField()
    total_amount = drf.FloatField()
    table_code = drf.CharField()
    first_due_date = drf.DateField(allow_null=True)

    class Meta:
        ref_name = "IndividualOffer"


class SnakeVinculoSchema(drf.Serializer[Any]):
    matricula = drf.CharField()
    employer_cnpj = drf.CharField()
    employer_name = drf.CharField()
    job_title = drf.CharField(allow_null=True)
    admission_date = drf.DateField(allow_null=True)
    margin = drf.FloatField(allow_null=True)

    class Meta:
        ref_name = "IndividualVinculo"


class EnvelopeSchema(drf.Serializer[Any]):
    provider = drf.CharField()
    status = drf.ChoiceField(STATUSES)
    offers = SnakeOfferSchema(many=True)
    vinculos = SnakeVinculoSchema(many=True)
    proposal_id = drf.CharField(allow_null=True)
    action = ActionSchema(allow_null=True)
    error = drf.CharField(allow_null=True)
    elapsed_ms = drf.IntegerField()
    no_proposal_reasons = drf.ListField(child=drf.CharField())
    term_auto_authorized = drf.BooleanField()
    provider_data = drf.DictField(allow_null=True)

    class Meta:
        ref_name = "IndividualEnvelope"


QUERY = {
    "cpf": "90000000175",
    "nome": "Maria da Silva",
    "data_nascimento": "1985-03-14",
    "telefone": "11987654321",
    "email": "maria@example.com",
    "client_ip": "203.0.113.7",
    "geolocation": {"lat": -23.55052, "lng": -46.633308},
}
_OFFER = {
    "provider": "ipe",
    "offerId": "3f0c9f0e-7f0a-4c0e-9a53-0a4f3a3f9b11",
    "loanValue": 12000.0,
    "installmentValue": 488.8,
    "installments": 48,
    "interestRate": 1.99,
    "totalAmount": 23462.4,
    "tableCode": "IPE-CLT-STD",
    "firstDueDate": "2027-01-10",
    "employerName": "Metalúrgica Aurora Ltda",
    "employerCnpj": "11222333000181",
    "matricula": "100200",
    "providerData": {
        "cetMonthlyPercent": "1.99",
        "nativeOfferId": "d8c98ca5-0aa9-4354-bdaf-a53ac3ad32d8",
        "withInsurance": False,
    },
    "adjusted": False,
    "adjustments": [],
}
_VINCULO = {
    "matricula": "100200",
    "employerCnpj": "11222333000181",
    "employerName": "Metalúrgica Aurora Ltda",
    "jobTitle": "Operador de Produção",
    "admissionDate": "2019-03-11",
    "margin": 1850.0,
}
_RESULT = {
    "provider": "ipe",
    "status": "ok",
    "success": True,
    "proposals": [_OFFER],
    "vinculos": [_VINCULO],
    "error": None,
    "elapsedMs": 212,
    "noProposalReasons": [],
    "requiresSignature": False,
    "signatureUrl": None,
    "action": None,
    "termAutoAuthorized": False,
}
_AGGREGATED = {
    "proposals": [_OFFER],
    "providerResults": {"ipe": _RESULT},
    "employers": [
        {
            "cnpj": "11222333000181",
            "name": "Metalúrgica Aurora Ltda",
            "matricula": "100200",
            "provider": "ipe",
            "margin": 1850.0,
        }
    ],
    "elapsedMs": 230,
    "timestamp": "2026-11-21T12:00:00.000Z",
    "simulationGroupId": "5e1d7a52-2d5b-4f37-9a0a-54a0f5a3c7d1",
}
_ENVELOPE: dict[str, Any] = {
    "provider": "imbuia",
    "status": "requires_action",
    "offers": [],
    "vinculos": [],
    "proposal_id": None,
    "action": {
        "type": "biometria",
        "url": "https://banco.example/links/AbC",
        "detail": "O titular deve concluir a prova de vida no link.",
    },
    "error": None,
    "elapsed_ms": 180,
    "no_proposal_reasons": [],
    "term_auto_authorized": False,
    "provider_data": None,
}
_STREAM = (
    'data: {"event":"start","message":"Consulta iniciada."}\n\n'
    'data: {"event":"provider_start","provider":"ipe"}\n\n'
    'data: {"event":"provider_result","provider":"ipe","success":true,"proposals":[],"vinculos":[],"error":null,'
    '"elapsedMs":212,"noProposalReasons":[],"requiresSignature":false,"signatureUrl":null}\n\n'
    'data: {"event":"complete"}\n\n'
)


def _in(name: str, value: dict[str, Any]) -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True)


def _out(name: str, value: Any) -> OpenApiExample:
    return OpenApiExample(name, value=value, response_only=True, status_codes=["200"])


_QUERIES = [
    _in("Sem parâmetros", QUERY),
    _in("Por valor", {**QUERY, "loan_value": 5000, "prazo": 24}),
    _in("Por parcela", {**QUERY, "valor_parcela": 300, "prazo": 36}),
]

aggregated = extend_schema(
    operation_id="query_aggregated",
    tags=["Consultas"],
    summary="Consulta todos os bancos do contrato e responde quando todos terminam",
    request=QueryRequest,
    responses={200: AggregatedSchema, **errors(422, 502)},
    examples=[*_QUERIES, _out("Ofertas", _AGGREGATED)],
)
streamed = extend_schema(
    operation_id="query_stream",
    tags=["Consultas"],
    summary="A mesma consulta, com cada resposta enviada assim que chega (server-sent events)",
    request=QueryRequest,
    responses={
        (200, "text/event-stream"): OpenApiResponse(
            str,
            description="Eventos `start`, `provider_start`, `provider_result`, `provider_error`, `complete`.",
            examples=[OpenApiExample("Eventos", value=_STREAM)],
        ),
        **errors(422),
    },
    examples=_QUERIES,
)
individual = extend_schema(
    operation_id="query_one_bank",
    tags=["Consultas"],
    summary="Consulta um banco",
    parameters=[OpenApiParameter("name", str, OpenApiParameter.PATH, description="Identificador do banco.")],
    request=IndividualQueryRequest,
    responses={200: EnvelopeSchema, **errors(403, 404, 422)},
    examples=[*_QUERIES, _out("Ação pendente", _ENVELOPE)],
)
auction = extend_schema(
    operation_id="auction_lookup",
    tags=["Leilão"],
    summary="Dados de uma proposta de leilão a partir da sua chave, sem efeitos",
    parameters=[OpenApiParameter("proposal_key", str, OpenApiParameter.PATH, description="Chave do link do leilão.")],
    request=None,
    responses={
        200: OpenApiResponse(
            {"type": "object", "additionalProperties": True}, description="O registro, como a instituição o informa."
        ),
        **errors(403, 404, 502, body=False),
    },
)

bank_callback = extend_schema(exclude=True)  # between the banks and the service; partners have no use for it
