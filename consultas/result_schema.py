"""OpenAPI schemas of the banks' answers: the aggregated response and the individual envelope."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as drf

from consultas.offer_schema import OFFER, SNAKE_OFFER, IndividualOfferSchema, OfferSchema, in_snake_case
from consultas.query_json import PROCESSING
from partners.schema import ReasonSchema
from providers.types.answer import QueryStatus
from providers.types.steps import ActionType

STATUSES = [item.value for item in QueryStatus]
#: The statuses of a bank in the aggregated response.
RESULT_STATUSES = [*STATUSES, PROCESSING]
ACTION_TYPES = [item.value for item in ActionType]

REASONS = "Por que não há ofertas, ou por que o banco falhou ou recusou, como dados; vazia se há ofertas ou se espera."


class ActionSchema(drf.Serializer[Any]):
    type = drf.ChoiceField(ACTION_TYPES, help_text="O passo que o titular deve ao banco.")
    url = drf.URLField(allow_null=True, help_text="Link para o titular; nulo se não há link.")
    detail = drf.CharField(help_text="O que o titular precisa fazer, em uma frase.")


class VinculoSchema(drf.Serializer[Any]):
    matricula = drf.CharField(help_text="Matrícula no empregador.")
    employerCnpj = drf.CharField(help_text="CNPJ do empregador, 14 caracteres.")
    employerName = drf.CharField(help_text="Nome do empregador.")
    jobTitle = drf.CharField(allow_null=True, help_text="Cargo; nulo se o banco não informa.")
    admissionDate = drf.DateField(allow_null=True, help_text="Data de admissão; nula se o banco não informa.")
    margin = drf.FloatField(allow_null=True, help_text="Margem consignável em reais; nula se o banco não informa.")


class ProviderResultSchema(drf.Serializer[Any]):
    provider = drf.CharField(help_text="Identificador do banco, como `ipe`.")
    status = drf.ChoiceField(
        RESULT_STATUSES,
        help_text=(
            "`ok`: há ofertas; `no_offers`: não há; `requires_action`: o titular deve um passo; `pending`: o "
            "titular recebeu um SMS; `error`: o banco falhou ou recusou; `processing`: o banco ainda não respondeu."
        ),
    )
    success = drf.BooleanField(help_text="Falso só com `status` `error`.")
    proposals = OfferSchema(many=True, help_text="As ofertas deste banco, a de maior valor primeiro.")
    vinculos = VinculoSchema(many=True, help_text="Os vínculos de emprego que o banco informou.")
    error = drf.CharField(allow_null=True, help_text="Com `status` `error`, o que houve, em uma frase.")
    elapsedMs = drf.IntegerField(help_text="Milissegundos até a resposta do banco.")
    noProposalReasons = drf.ListField(child=drf.CharField(), help_text="Por que não há ofertas, nas palavras do banco.")
    reasons = ReasonSchema(many=True, help_text=REASONS)
    requiresSignature = drf.BooleanField(help_text="Verdadeiro se falta um passo do titular.")
    signatureUrl = drf.URLField(allow_null=True, help_text="O mesmo link de `action.url`.")
    action = ActionSchema(allow_null=True, help_text="O passo que o titular deve; nulo se nenhum.")
    termAutoAuthorized = drf.BooleanField(
        help_text="Verdadeiro se o banco autorizou o termo com a evidência enviada, sem passo do titular."
    )


class EmployerSchema(drf.Serializer[Any]):
    cnpj = drf.CharField(help_text="CNPJ do empregador, 14 caracteres.")
    name = drf.CharField(help_text="Nome do empregador.")
    matricula = drf.CharField(help_text="Matrícula do titular no empregador.")
    provider = drf.CharField(help_text="Banco que informou este vínculo.")
    margin = drf.FloatField(allow_null=True, help_text="Margem consignável em tempo real; nula se o banco não informa.")


class AggregatedResponseSchema(drf.Serializer[Any]):
    queryId = drf.UUIDField(help_text="Identificador da consulta, para `GET /consultas/{queryId}`.")
    partnerReference = drf.CharField(allow_null=True, help_text="A `partner_reference` da consulta; nula sem ela.")
    complete = drf.BooleanField(help_text="Verdadeiro quando todos os bancos têm o seu resultado final.")
    proposals = OfferSchema(many=True, help_text="As ofertas de todos os bancos, a de maior valor primeiro.")
    providerResults = drf.DictField(
        child=ProviderResultSchema(), help_text="O resultado de cada banco consultado, pelo identificador do banco."
    )
    employers = EmployerSchema(many=True, help_text="Os empregadores do titular, um por CNPJ.")
    elapsedMs = drf.IntegerField(help_text="Milissegundos que a consulta levou, ou leva até agora.")
    timestamp = drf.DateTimeField(help_text="Hora da resposta, UTC.")
    simulationGroupId = drf.UUIDField(
        allow_null=True, help_text="Identificador do grupo de ofertas guardadas; nulo se nenhuma foi guardada."
    )


IndividualVinculoSchema = in_snake_case(VinculoSchema, "IndividualVinculoSchema")


class IndividualEnvelopeSchema(drf.Serializer[Any]):
    query_id = drf.UUIDField(help_text="Identificador da consulta, para `GET /consultas/{queryId}`.")
    partner_reference = drf.CharField(allow_null=True, help_text="A `partner_reference` da consulta; nula sem ela.")
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
    reasons = ReasonSchema(many=True, help_text=REASONS)
    term_auto_authorized = drf.BooleanField(
        help_text="Verdadeiro se o banco autorizou o termo com a evidência enviada, sem passo do titular."
    )
    provider_data = drf.DictField(allow_null=True, help_text="O que o banco informa além disso.")


QUERY_ID = "0d5a3c1e-7f0a-4c0e-9a53-0a4f3a3f9b10"
_VINCULO = {
    "matricula": "100200",
    "employerCnpj": "11222333000181",
    "employerName": "Metalúrgica Aurora Ltda",
    "jobTitle": "Operador de Produção",
    "admissionDate": "2019-03-11",
    "margin": 1850.0,
}
RESULT = {
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
AGGREGATED = {
    "queryId": QUERY_ID,
    "partnerReference": "pedido-1001",
    "complete": True,
    "proposals": [OFFER],
    "providerResults": {"ipe": RESULT},
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
_RUNNING = {
    **RESULT,
    "provider": "imbuia",
    "status": PROCESSING,
    "proposals": [],
    "vinculos": [],
    "elapsedMs": 1500,
}
SO_FAR = {
    **AGGREGATED,
    "complete": False,
    "providerResults": {"imbuia": _RUNNING, "ipe": RESULT},
    "elapsedMs": 1500,
}
WAITING: dict[str, Any] = {
    "query_id": QUERY_ID,
    "partner_reference": None,
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
ANSWERED = {
    **WAITING,
    "provider": "ipe",
    "status": "ok",
    "offers": [SNAKE_OFFER],
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
