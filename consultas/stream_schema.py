"""How the OpenAPI schema describes the events of a streamed query."""

from __future__ import annotations

import json
from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import serializers as drf

from consultas.offer_schema import OFFER
from consultas.result_schema import REASONS, RESULT, ProviderResultSchema
from partners.schema import ReasonSchema
from providers.errors import ProviderUnavailable


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
    reasons = ReasonSchema(many=True, help_text=REASONS)
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


STREAM = "".join(
    f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
    for event in (
        {"event": "start", "message": "Consulta iniciada."},
        {"event": "provider_start", "provider": "ipe"},
        {"event": "provider_start", "provider": "imbuia"},
        {"event": "provider_result", **RESULT, "proposals": [{**OFFER, "offerId": None}]},
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
