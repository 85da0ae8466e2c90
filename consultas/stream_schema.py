"""OpenAPI schemas of the events of a streamed query."""

from __future__ import annotations

import json
from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import serializers as drf

from consultas.offer_schema import OFFER
from consultas.result_schema import QUERY_ID, REASONS, RESULT, STATUSES, ProviderResultSchema
from partners.schema import ReasonSchema
from providers.errors import ProviderUnavailable


class StartEventSchema(drf.Serializer[Any]):
    event = drf.ChoiceField(["start"], help_text="Sempre `start`: o primeiro evento.")
    queryId = drf.UUIDField(help_text="Identificador da consulta, para `GET /consultas/{queryId}`.")
    partnerReference = drf.CharField(allow_null=True, help_text="A `partner_reference` da consulta; nula sem ela.")
    message = drf.CharField(help_text="Uma frase para quem acompanha.")


class ProviderStartEventSchema(drf.Serializer[Any]):
    event = drf.ChoiceField(["provider_start"], help_text="Sempre `provider_start`: o banco foi perguntado.")
    queryId = drf.UUIDField(help_text="Identificador da consulta, para `GET /consultas/{queryId}`.")
    provider = drf.CharField(help_text="Identificador do banco.")


class ProviderResultEventSchema(ProviderResultSchema):
    event = drf.ChoiceField(["provider_result"], help_text="Sempre `provider_result`: o banco respondeu.")
    queryId = drf.UUIDField(help_text="Identificador da consulta, para `GET /consultas/{queryId}`.")
    status = drf.ChoiceField(
        STATUSES,
        help_text=(
            "`ok`: há ofertas; `no_offers`: não há; `requires_action`: o titular deve um passo; `pending`: o "
            "titular recebeu um SMS; `error`: o banco recusou."
        ),
    )


class ProviderErrorEventSchema(drf.Serializer[Any]):
    event = drf.ChoiceField(["provider_error"], help_text="Sempre `provider_error`: o banco não respondeu.")
    queryId = drf.UUIDField(help_text="Identificador da consulta, para `GET /consultas/{queryId}`.")
    provider = drf.CharField(help_text="Identificador do banco.")
    error = drf.CharField(allow_null=True, help_text="O que houve, em uma frase.")
    reasons = ReasonSchema(many=True, help_text=REASONS)
    elapsedMs = drf.IntegerField(help_text="Milissegundos desde o início da consulta.")


class CompleteEventSchema(drf.Serializer[Any]):
    event = drf.ChoiceField(["complete"], help_text="Sempre `complete`: o último evento.")
    queryId = drf.UUIDField(help_text="Identificador da consulta, para `GET /consultas/{queryId}`.")


#: The content of each `data:` of the stream.
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


STREAM = "".join(
    f"id: {number}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
    for number, event in {
        "o0": {"event": "start", "queryId": QUERY_ID, "partnerReference": None, "message": "Consulta iniciada."},
        "o1": {"event": "provider_start", "queryId": QUERY_ID, "provider": "ipe"},
        "o2": {"event": "provider_start", "queryId": QUERY_ID, "provider": "imbuia"},
        "b1": {"event": "provider_result", "queryId": QUERY_ID, **RESULT, "proposals": [{**OFFER, "offerId": None}]},
        "b3": {
            "event": "provider_error",
            "queryId": QUERY_ID,
            "provider": "imbuia",
            "error": ProviderUnavailable.default_message,
            "reasons": [ProviderUnavailable().reason.as_dict()],
            "elapsedMs": 25012,
        },
        "c": {"event": "complete", "queryId": QUERY_ID},
    }.items()
)
