"""The API reference's part on events: what every event has in common. Each package tells of its own."""

from __future__ import annotations

import re
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, OpenApiWebhook, extend_schema
from rest_framework import serializers as drf

SENT_AT = "2026-03-02T14:00:02.315Z"
PARTNER_ID = "5b0c8f0e-3b53-4d3c-9d0f-1f6f4f8f2a11"
_HEADERS = {
    "X-Service-Signature": "HMAC-SHA256 dos bytes do corpo, em hexadecimal minúsculo. A chave é o segredo inteiro, "
    "com `whsec_`, em UTF-8.",
    "webhook-id": "Igual em todas as tentativas e reenvios do evento: por ele se descartam repetições.",
    "webhook-timestamp": "Hora da tentativa, em segundos desde 1970.",
    "webhook-signature": "Assinaturas do padrão Standard Webhooks, separadas por espaço: uma de cada segredo em vigor.",
}


class EventSchema(drf.Serializer[Any]):
    """What `outbox.send` adds to an event's own fields, beside `external_reference`, which each event describes."""

    partner_id = drf.UUIDField()
    event = drf.CharField()
    timestamp = drf.DateTimeField()


def webhook(
    name: str, body: type[drf.Serializer[Any]], summary: str, when: str, reference: str, **fields: Any
) -> OpenApiWebhook:
    """The entry of the event `name` in SPECTACULAR_SETTINGS["WEBHOOKS"]. `fields` are the example's own, beside
    those of every event."""
    example = {
        "partner_id": PARTNER_ID,
        "external_reference": reference,
        "event": name,
        **fields,
        "timestamp": SENT_AT,
    }
    return OpenApiWebhook(
        name,
        extend_schema(
            operation_id="event_" + re.sub(r"[^a-z]+", "_", name).strip("_"),
            summary=summary,
            description=when,
            tags=["Webhooks"],
            request={"application/json": body},
            examples=[OpenApiExample(name, value=example)],
            responses={200: OpenApiResponse(None, description="Qualquer 2xx confirma. O corpo não é interpretado.")},
        ),
    )


def name_headers(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A hook that names the headers of every delivery, for which drf-spectacular has no place."""
    for methods in result.get("webhooks", {}).values():
        for operation in methods.values():
            operation["parameters"] = [
                {"in": "header", "name": name, "required": True, "schema": {"type": "string"}, "description": told}
                for name, told in _HEADERS.items()
            ]
    return result
