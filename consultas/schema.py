"""How the OpenAPI schema describes the query routes: response shapes, examples, errors."""

from __future__ import annotations

import json
from typing import Any

from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    PolymorphicProxySerializer,
    extend_schema,
)
from rest_framework import serializers as drf

from consultas.admission import OverCapacity
from consultas.serializers import IndividualQueryRequest, QueryRequest
from foundation.errors import Detail, InvalidInput, NotFound
from partners.schema import ReasonSchema, errors, request_example, response_example
from providers.errors import ProviderError, ProviderNotAllowed, ProviderUnavailable
from providers.price import CetSource
from providers.types import ActionType, QueryStatus
from webhooks.schema import EventSchema, webhook

STATUSES = [item.value for item in QueryStatus]
ACTION_TYPES = [item.value for item in ActionType]


CET_SOURCES = [source.value for source in CetSource]
_CET_SOURCE = "`bank`: informado pelo banco. `computed`: calculado pela Resolução CMN 4.881/2020. Nulo sem CET."


_REASONS = "Por que não há ofertas, ou por que o banco falhou ou recusou, como dados; vazia se há ofertas ou se espera."


class OfferSchema(drf.Serializer[Any]):
    provider = drf.CharField(help_text="Identificador do banco, como `ipe`.")
    offerId = drf.UUIDField(allow_null=True, help_text="Nulo no fluxo de eventos, que não guarda ofertas.")
    loanValue = drf.FloatField(help_text="Reais.")
    installmentValue = drf.FloatField(help_text="Reais por mês.")
    installments = drf.IntegerField(help_text="Meses.")
    interestRate = drf.FloatField(help_text="Por cento ao mês.")
    totalAmount = drf.FloatField(help_text="Reais.")
    cetMonthly = drf.FloatField(
        allow_null=True, help_text="Custo efetivo total, por cento ao mês; nulo se não há como saber."
    )
    cetAnnual = drf.FloatField(
        allow_null=True, help_text="Custo efetivo total, por cento ao ano, com duas casas; nulo se não há como saber."
    )
    cetSource = drf.ChoiceField(CET_SOURCES, allow_null=True, help_text=_CET_SOURCE)
    iof = drf.FloatField(allow_null=True, help_text="Imposto, em reais; nulo se o banco não informa.")
    insuranceValue = drf.FloatField(allow_null=True, help_text="Seguro, em reais; nulo se o banco não informa.")
    withInsurance = drf.BooleanField(help_text="Verdadeiro se a oferta inclui seguro.")
    tableCode = drf.CharField(help_text="Tabela do banco em que a oferta foi calculada.")
    firstDueDate = drf.DateField(
        allow_null=True, help_text="Vencimento da primeira parcela; nulo se o banco ainda não o fixou."
    )
    quotedAt = drf.DateTimeField(allow_null=True, help_text="Quando o banco deu a oferta, UTC.")
    validUntil = drf.DateTimeField(allow_null=True, help_text="Até quando vale; nulo se o banco não fixa um fim.")
    employerName = drf.CharField(help_text="Nome do empregador do vínculo.")
    employerCnpj = drf.CharField(help_text="CNPJ do empregador do vínculo, 14 caracteres.")
    matricula = drf.CharField(help_text="Matrícula do vínculo no empregador.")
    providerData = drf.DictField(help_text="Identificadores do banco; `nativeOfferId` nomeia a oferta lá.")
    adjusted = drf.BooleanField(help_text="Verdadeiro se a oferta difere do que foi pedido.")
    adjustments = drf.ListField(
        child=drf.CharField(), help_text="O que difere do pedido e por quê, em frases; vazia se nada difere."
    )

    class Meta:
        ref_name = "Offer"


class ActionSchema(drf.Serializer[Any]):
    type = drf.ChoiceField(ACTION_TYPES, help_text="O passo que o titular deve ao banco.")
    url = drf.URLField(allow_null=True, help_text="Link para o titular; nulo se não há link.")
    detail = drf.CharField(help_text="O que o titular precisa fazer, em uma frase.")

    class Meta:
        ref_name = "Action"


class VinculoSchema(drf.Serializer[Any]):
    matricula = drf.CharField(help_text="Matrícula no empregador.")
    employerCnpj = drf.CharField(help_text="CNPJ do empregador, 14 caracteres.")
    employerName = drf.CharField(help_text="Nome do empregador.")
    jobTitle = drf.CharField(allow_null=True, help_text="Cargo; nulo se o banco não informa.")
    admissionDate = drf.DateField(allow_null=True, help_text="Data de admissão; nula se o banco não informa.")
    margin = drf.FloatField(allow_null=True, help_text="Margem consignável em reais; nula se o banco não informa.")

    class Meta:
        ref_name = "Vinculo"


class ProviderResultSchema(drf.Serializer[Any]):
    provider = drf.CharField(help_text="Identificador do banco, como `ipe`.")
    status = drf.ChoiceField(
        STATUSES,
        help_text=(
            "`ok`: há ofertas; `no_offers`: não há; `requires_action`: o titular deve um passo; `pending`: o "
            "titular recebeu um SMS; `error`: o banco falhou ou recusou."
        ),
    )
    success = drf.BooleanField(help_text="Falso só com `status` `error`.")
    proposals = OfferSchema(many=True, help_text="As ofertas deste banco, a de maior valor primeiro.")
    vinculos = VinculoSchema(many=True, help_text="Os vínculos de emprego que o banco informou.")
    error = drf.CharField(allow_null=True, help_text="Com `status` `error`, o que houve, em uma frase.")
    elapsedMs = drf.IntegerField(help_text="Milissegundos até a resposta do banco.")
    noProposalReasons = drf.ListField(child=drf.CharField(), help_text="Por que não há ofertas, nas palavras do banco.")
    reasons = ReasonSchema(many=True, help_text=_REASONS)
    requiresSignature = drf.BooleanField(help_text="Verdadeiro se falta um passo do titular.")
    signatureUrl = drf.URLField(allow_null=True, help_text="O mesmo link de `action.url`.")
    action = ActionSchema(allow_null=True, help_text="O passo que o titular deve; nulo se nenhum.")
    termAutoAuthorized = drf.BooleanField(
        help_text="Verdadeiro se o banco autorizou o termo com a evidência enviada, sem passo do titular."
    )

    class Meta:
        ref_name = "ProviderResult"


class StartEventSchema(drf.Serializer[Any]):
    event = drf.ChoiceField(["start"], help_text="Sempre `start`: o primeiro evento.")
    message = drf.CharField(help_text="Uma frase para quem acompanha.")

    class Meta:
        ref_name = "StartEvent"


class ProviderStartEventSchema(drf.Serializer[Any]):
    event = drf.ChoiceField(["provider_start"], help_text="Sempre `provider_start`: o banco foi perguntado.")
    provider = drf.CharField(help_text="Identificador do banco.")

    class Meta:
        ref_name = "ProviderStartEvent"


class ProviderResultEventSchema(ProviderResultSchema):
    event = drf.ChoiceField(["provider_result"], help_text="Sempre `provider_result`: o banco respondeu.")

    class Meta:
        ref_name = "ProviderResultEvent"


class ProviderErrorEventSchema(drf.Serializer[Any]):
    event = drf.ChoiceField(["provider_error"], help_text="Sempre `provider_error`: o banco não respondeu.")
    provider = drf.CharField(help_text="Identificador do banco.")
    error = drf.CharField(allow_null=True, help_text="O que houve, em uma frase.")
    reasons = ReasonSchema(many=True, help_text=_REASONS)
    elapsedMs = drf.IntegerField(help_text="Milissegundos desde o início da consulta.")

    class Meta:
        ref_name = "ProviderErrorEvent"


class CompleteEventSchema(drf.Serializer[Any]):
    event = drf.ChoiceField(["complete"], help_text="Sempre `complete`: o último evento.")

    class Meta:
        ref_name = "CompleteEvent"


#: What each `data:` of the stream is.
STREAM_EVENT = PolymorphicProxySerializer(
    component_name="StreamEvent",
    serializers={
        "start": StartEventSchema,
        "provider_start": ProviderStartEventSchema,
        "provider_result": ProviderResultEventSchema,
        "provider_error": ProviderErrorEventSchema,
        "complete": CompleteEventSchema,
    },
    resource_type_field_name="event",
)


class EmployerSchema(drf.Serializer[Any]):
    cnpj = drf.CharField(help_text="CNPJ do empregador, 14 caracteres.")
    name = drf.CharField(help_text="Nome do empregador.")
    matricula = drf.CharField(help_text="Matrícula do titular no empregador.")
    provider = drf.CharField(help_text="Banco que informou este vínculo.")
    margin = drf.FloatField(allow_null=True, help_text="Margem consignável em tempo real; nula se o banco não informa.")

    class Meta:
        ref_name = "Employer"


class AggregatedSchema(drf.Serializer[Any]):
    proposals = OfferSchema(many=True, help_text="As ofertas de todos os bancos, a de maior valor primeiro.")
    providerResults = drf.DictField(
        child=ProviderResultSchema(), help_text="O resultado de cada banco consultado, pelo identificador do banco."
    )
    employers = EmployerSchema(many=True, help_text="Os empregadores do titular, um por CNPJ.")
    elapsedMs = drf.IntegerField(help_text="Milissegundos que a consulta levou.")
    timestamp = drf.DateTimeField(help_text="Hora da resposta, UTC.")
    simulationGroupId = drf.UUIDField(
        allow_null=True, help_text="Identificador do grupo de ofertas guardadas; nulo se nenhuma foi guardada."
    )

    class Meta:
        ref_name = "AggregatedResponse"


class IndividualOfferSchema(drf.Serializer[Any]):
    provider = drf.CharField(help_text="Identificador do banco, como `ipe`.")
    loan_value = drf.FloatField(help_text="Reais.")
    installment_value = drf.FloatField(help_text="Reais por mês.")
    installments = drf.IntegerField(help_text="Meses.")
    interest_rate = drf.FloatField(help_text="Por cento ao mês.")
    total_amount = drf.FloatField(help_text="Reais.")
    cet_monthly = drf.FloatField(
        allow_null=True, help_text="Custo efetivo total, por cento ao mês; nulo se não há como saber."
    )
    cet_annual = drf.FloatField(
        allow_null=True, help_text="Custo efetivo total, por cento ao ano, com duas casas; nulo se não há como saber."
    )
    cet_source = drf.ChoiceField(CET_SOURCES, allow_null=True, help_text=_CET_SOURCE)
    iof = drf.FloatField(allow_null=True, help_text="Imposto, em reais; nulo se o banco não informa.")
    insurance_value = drf.FloatField(allow_null=True, help_text="Seguro, em reais; nulo se o banco não informa.")
    with_insurance = drf.BooleanField(help_text="Verdadeiro se a oferta inclui seguro.")
    table_code = drf.CharField(help_text="Tabela do banco em que a oferta foi calculada.")
    first_due_date = drf.DateField(
        allow_null=True, help_text="Vencimento da primeira parcela; nulo se o banco ainda não o fixou."
    )
    quoted_at = drf.DateTimeField(allow_null=True, help_text="Quando o banco deu a oferta, UTC.")
    valid_until = drf.DateTimeField(allow_null=True, help_text="Até quando vale; nulo se o banco não fixa um fim.")
    employer_name = drf.CharField(help_text="Nome do empregador do vínculo.")
    employer_cnpj = drf.CharField(help_text="CNPJ do empregador do vínculo, 14 caracteres.")
    matricula = drf.CharField(help_text="Matrícula do vínculo no empregador.")

    class Meta:
        ref_name = "IndividualOffer"


class IndividualVinculoSchema(drf.Serializer[Any]):
    matricula = drf.CharField(help_text="Matrícula no empregador.")
    employer_cnpj = drf.CharField(help_text="CNPJ do empregador, 14 caracteres.")
    employer_name = drf.CharField(help_text="Nome do empregador.")
    job_title = drf.CharField(allow_null=True, help_text="Cargo; nulo se o banco não informa.")
    admission_date = drf.DateField(allow_null=True, help_text="Data de admissão; nula se o banco não informa.")
    margin = drf.FloatField(allow_null=True, help_text="Margem consignável em reais; nula se o banco não informa.")

    class Meta:
        ref_name = "IndividualVinculo"


class EnvelopeSchema(drf.Serializer[Any]):
    provider = drf.CharField(help_text="Identificador do banco, como `ipe`.")
    status = drf.ChoiceField(
        STATUSES,
        help_text=(
            "`ok`: há ofertas; `no_offers`: não há; `requires_action`: o titular deve um passo; `pending`: o "
            "titular recebeu um SMS; `error`: o banco falhou ou recusou."
        ),
    )
    offers = IndividualOfferSchema(many=True, help_text="As ofertas do banco. Não são guardadas: não têm `offerId`.")
    vinculos = IndividualVinculoSchema(many=True, help_text="Os vínculos de emprego que o banco informou.")
    proposal_id = drf.CharField(
        allow_null=True, help_text="A proposta viva mais nova deste titular neste banco; nulo se nenhuma."
    )
    action = ActionSchema(allow_null=True, help_text="O passo que o titular deve; nulo se nenhum.")
    error = drf.CharField(allow_null=True, help_text="Com `status` `error`, o que houve, em uma frase.")
    elapsed_ms = drf.IntegerField(help_text="Milissegundos até a resposta do banco.")
    no_proposal_reasons = drf.ListField(
        child=drf.CharField(), help_text="Por que não há ofertas, nas palavras do banco."
    )
    reasons = ReasonSchema(many=True, help_text=_REASONS)
    term_auto_authorized = drf.BooleanField(
        help_text="Verdadeiro se o banco autorizou o termo com a evidência enviada, sem passo do titular."
    )
    provider_data = drf.DictField(allow_null=True, help_text="O que o banco informa além disso.")

    class Meta:
        ref_name = "IndividualEnvelope"


class AuctionRateSchema(drf.Serializer[Any]):
    monthly_rate = drf.FloatField(help_text="Fração: 0.0199 é 1,99% ao mês.")

    class Meta:
        ref_name = "AuctionRate"


class AuctionSimulationSchema(drf.Serializer[Any]):
    installment_face_value = drf.FloatField(help_text="Reais por mês.")
    total_amount = drf.FloatField(help_text="Reais.")
    prefixed_interest_rate = AuctionRateSchema(help_text="Taxa prefixada do lance.")
    cet = drf.FloatField(help_text="Custo efetivo total, por cento ao mês.")
    annual_cet = drf.FloatField(help_text="Custo efetivo total, por cento ao ano.")
    first_due_date = drf.DateTimeField(help_text="Vencimento da primeira parcela.")

    class Meta:
        ref_name = "AuctionSimulation"


class AuctionProposalDataSchema(drf.Serializer[Any]):
    disbursed_issue_amount = drf.FloatField(help_text="Reais. O lance de fato: é este que se mostra ao titular.")
    number_of_installments = drf.IntegerField(help_text="Meses do lance.")
    simulation = AuctionSimulationSchema(help_text="De onde vêm a parcela e o custo total.")

    class Meta:
        ref_name = "AuctionProposalData"


class AuctionProposalSchema(drf.Serializer[Any]):
    status = drf.CharField(required=False, help_text="Situação do lance na instituição.")
    issuer_proposal_key = drf.CharField(required=False, allow_null=True, help_text="Chave do lance na instituição.")
    proposal_data = AuctionProposalDataSchema(help_text="As condições do lance.")

    class Meta:
        ref_name = "AuctionProposal"


def _as_it_comes(field: type[drf.Field[Any, Any, Any, Any]], **options: Any) -> drf.Field[Any, Any, Any, Any]:
    """A field that the institution passes on: it may be null or missing, and nothing should hang on it."""
    return field(required=False, allow_null=True, **options)


class AuctionSchema(drf.Serializer[Any]):
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

    class Meta:
        ref_name = "AuctionRecord"


QUERY = {
    "cpf": "90000000175",
    "nome": "Maria da Silva",
    "data_nascimento": "1985-03-14",
    "telefone": "11987654321",
    "email": "maria@example.com",
    "client_ip": "203.0.113.7",
    "geolocation": {"lat": -23.55052, "lng": -46.633308},
}
OFFER = {
    "provider": "ipe",
    "offerId": "3f0c9f0e-7f0a-4c0e-9a53-0a4f3a3f9b11",
    "loanValue": 12000.0,
    "installmentValue": 488.8,
    "installments": 48,
    "interestRate": 1.99,
    "totalAmount": 23462.4,
    "cetMonthly": 1.99,
    "cetAnnual": 23.88,
    "cetSource": "bank",
    "iof": 404.76,
    "insuranceValue": 0.0,
    "withInsurance": False,
    "tableCode": "IPE-CLT-STD",
    "firstDueDate": "2027-01-10",
    "quotedAt": "2026-11-21T12:00:00.000Z",
    "validUntil": "2026-11-22T12:00:00.000Z",
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
    "proposals": [OFFER],
    "vinculos": [_VINCULO],
    "error": None,
    "elapsedMs": 212,
    "noProposalReasons": [],
    "reasons": [],
    "requiresSignature": False,
    "signatureUrl": None,
    "action": None,
    "termAutoAuthorized": False,
}
_AGGREGATED = {
    "proposals": [OFFER],
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
_WAITING: dict[str, Any] = {
    "provider": "imbuia",
    "status": "requires_action",
    "offers": [],
    "vinculos": [],
    "proposal_id": None,
    "action": {
        "type": "biometria",
        "url": "https://banco.example/links/AbC",
        "detail": "O titular precisa fazer a prova de vida pelo link do banco.",
    },
    "error": None,
    "elapsed_ms": 180,
    "no_proposal_reasons": [],
    "reasons": [],
    "term_auto_authorized": False,
    "provider_data": None,
}
_ANSWERED = {
    **_WAITING,
    "provider": "ipe",
    "status": "ok",
    "offers": [
        {
            "provider": "ipe",
            "loan_value": 12000.0,
            "installment_value": 488.8,
            "installments": 48,
            "interest_rate": 1.99,
            "total_amount": 23462.4,
            "cet_monthly": 1.99,
            "cet_annual": 23.88,
            "cet_source": "bank",
            "iof": 404.76,
            "insurance_value": 0.0,
            "with_insurance": False,
            "table_code": "IPE-CLT-STD",
            "first_due_date": "2027-01-10",
            "quoted_at": "2026-11-21T12:00:00.000Z",
            "valid_until": "2026-11-22T12:00:00.000Z",
            "employer_name": "Metalúrgica Aurora Ltda",
            "employer_cnpj": "11222333000181",
            "matricula": "100200",
        }
    ],
    "vinculos": [
        {
            "matricula": "100200",
            "employer_cnpj": "11222333000181",
            "employer_name": "Metalúrgica Aurora Ltda",
            "job_title": "Operador de Produção",
            "admission_date": "2019-03-11",
            "margin": 1850.0,
        }
    ],
    "action": None,
}
_STREAM = "".join(
    f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
    for event in (
        {"event": "start", "message": "Consulta iniciada."},
        {"event": "provider_start", "provider": "ipe"},
        {"event": "provider_start", "provider": "imbuia"},
        {"event": "provider_result", **_RESULT, "proposals": [{**OFFER, "offerId": None}]},
        {
            "event": "provider_error",
            "provider": "imbuia",
            "error": ProviderUnavailable.default_message,
            "reasons": [ProviderUnavailable().reason.as_dict()],
            "elapsedMs": 25012,
        },
        {"event": "complete"},
    )
)
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

_EXAMPLES = [
    request_example("Sem parâmetros", QUERY),
    request_example("Por valor", {**QUERY, "loan_value": 5000, "prazo": 24}),
    request_example("Por parcela", {**QUERY, "valor_parcela": 300, "prazo": 36}),
]
_NARROWED = request_example("Alguns bancos", {**QUERY, "providers": ["ipe", "imbuia"]})
_FAULTS = InvalidInput(
    details=[
        Detail("telefone", "Informe DDD e número: 10 ou 11 dígitos, sem máscara."),
        Detail("email", "Informe um e-mail válido, de no máximo 254 caracteres."),
    ]
)
_OUTSIDE = InvalidInput(
    details=[
        Detail(
            "providers",
            "Nenhum banco informado pertence ao contrato. Bancos disponíveis: imbuia, ipe.",
            ("imbuia", "ipe"),
        )
    ]
)

aggregated = extend_schema(
    operation_id="query_aggregated",
    tags=["Consultas"],
    summary="Consulta todos os bancos do contrato e responde quando todos terminam",
    description=(
        "`providers` restringe a consulta a alguns bancos do contrato. Um banco que falha não derruba os demais: o "
        "motivo dele está em `providerResults`. Com `status` `requires_action` o titular ainda tem um passo a cumprir "
        "no link de `action`; as ofertas vêm depois, pelo webhook `authorization_result` ou em nova consulta. "
        "O `offerId` de uma oferta é o que se envia em `POST /proposals`. "
        "Repetida em 60 segundos, a consulta sem parâmetros aproveita as respostas já dadas."
    ),
    request=QueryRequest,
    responses={200: AggregatedSchema, **errors(_FAULTS, _OUTSIDE, OverCapacity(), ProviderUnavailable())},
    examples=[*_EXAMPLES, _NARROWED, response_example("Ofertas", _AGGREGATED)],
)
streamed = extend_schema(
    operation_id="query_stream",
    tags=["Consultas"],
    summary="A mesma consulta, com cada resposta enviada assim que chega (server-sent events)",
    description=(
        "Cada evento é uma linha `data:` com um objeto JSON, seguida de uma linha vazia; linhas que começam com `:` "
        "só mantêm a conexão. As ofertas não são guardadas: para enviar uma delas, consulte em `/consultas`."
    ),
    request=QueryRequest,
    responses={
        (200, "text/event-stream"): OpenApiResponse(
            STREAM_EVENT,
            description="Eventos `start`, `provider_start`, `provider_result`, `provider_error`, `complete`.",
            examples=[OpenApiExample("Eventos", value=_STREAM)],
        ),
        **errors(_FAULTS, _OUTSIDE, OverCapacity()),
    },
    examples=[*_EXAMPLES, _NARROWED],
)
individual = extend_schema(
    operation_id="query_one_bank",
    tags=["Consultas"],
    summary="Consulta um banco",
    description=(
        "A resposta é 200 também quando o banco falha ou recusa: `status` diz o que houve. "
        "As ofertas não são guardadas: para enviar uma delas, consulte em `/consultas`."
    ),
    parameters=[
        OpenApiParameter(
            "name",
            str,
            OpenApiParameter.PATH,
            description="Identificador do banco.",
            examples=[OpenApiExample("Banco", value="ipe")],
        )
    ],
    request=IndividualQueryRequest,
    responses={
        200: EnvelopeSchema,
        **errors(_FAULTS, ProviderNotAllowed(), NotFound("Banco desconhecido."), OverCapacity()),
    },
    examples=[*_EXAMPLES, response_example("Ofertas", _ANSWERED), response_example("Ação pendente", _WAITING)],
)
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
        200: AuctionSchema,
        **errors(ProviderNotAllowed(), NotFound(), ProviderUnavailable(), ProviderError(), body=False),
    },
    examples=[response_example("Registro", _AUCTION)],
)

bank_callback = extend_schema(exclude=True)  # between the banks and the service; partners have no use for it


class LeadBankSchema(drf.Serializer[Any]):
    provider = drf.CharField(help_text="Identificador do banco, como `ipe`.")
    status = drf.ChoiceField(STATUSES, help_text="Como a consulta terminou neste banco.")
    offers = drf.IntegerField(help_text="Quantas ofertas.")

    class Meta:
        ref_name = "LeadBank"


class LeadSchema(EventSchema):
    external_reference = drf.UUIDField(help_text="O `simulationGroupId`.")
    cpf = drf.CharField(help_text="CPF do titular, 11 dígitos.")
    simulation_group_id = drf.UUIDField(help_text="O `simulationGroupId` da consulta.")
    providers = LeadBankSchema(many=True, help_text="Todos os bancos consultados.")
    best_offer = OfferSchema(allow_null=True, help_text="A de maior valor; no empate, a de menor taxa.")

    class Meta:
        ref_name = "LeadEvent"


class AuthorizationResultSchema(EventSchema):
    external_reference = drf.CharField(help_text="O CPF.")
    provider = drf.CharField(help_text="Banco em que o passo terminou.")
    status = drf.ChoiceField(
        ["approved", "refused", "expired"],
        help_text=(
            "`approved`: concluído; `refused`: recusado pelo titular, ou pelo banco depois dele; `expired`: "
            "não veio a tempo."
        ),
    )
    reason = ReasonSchema(allow_null=True, help_text="Por que não há ofertas; nulo se há.")
    offers = OfferSchema(many=True, help_text="Vazia, a não ser com `approved`. Cada oferta tem o seu `offerId`.")

    class Meta:
        ref_name = "AuthorizationResultEvent"


_GROUP = "7d1e9f0e-7f0a-4c0e-9a53-0a4f3a3f9b12"

lead_event = webhook(
    "lead",
    LeadSchema,
    "Uma consulta agregada guardou ofertas",
    "Um por consulta. As consultas em fluxo, de um só banco e as que repetem respostas não o enviam.",
    _GROUP,
    cpf=QUERY["cpf"],
    simulation_group_id=_GROUP,
    providers=[
        {"provider": "imbuia", "status": "requires_action", "offers": 0},
        {"provider": "ipe", "status": "ok", "offers": 1},
    ],
    best_offer=OFFER,
)
authorization_result_event = webhook(
    "authorization_result",
    AuthorizationResultSchema,
    "O titular concluiu, recusou ou deixou expirar um passo externo",
    "Dois bancos do mesmo CPF, ou um que primeiro recusa e depois aprova, enviam eventos com o mesmo par "
    "(`external_reference`, `event`): descarte repetições pelo `webhook-id`.",
    str(QUERY["cpf"]),
    provider=OFFER["provider"],
    status="approved",
    reason=None,
    offers=[OFFER],
)
