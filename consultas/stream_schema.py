"""OpenAPI schema of the events of a streamed query, and an example of a stream."""

from __future__ import annotations

import json

import msgspec
from drf_spectacular.utils import PolymorphicProxySerializer

from consultas.shapes import (
    CompleteEvent,
    Offer,
    ProviderErrorEvent,
    ProviderResultEvent,
    ProviderStartEvent,
    StartEvent,
)
from foundation.shapes import described
from providers.errors import ProviderUnavailable

#: The content of each `data:` of the stream.
STREAM_EVENT = PolymorphicProxySerializer(
    component_name="StreamEvent",
    serializers={
        "start": described(StartEvent),
        "provider_start": described(ProviderStartEvent),
        "provider_result": described(ProviderResultEvent),
        "provider_error": described(ProviderErrorEvent),
        "complete": described(CompleteEvent),
    },
    resource_type_field_name="event",
)

_FAILURE = ProviderUnavailable()
STREAM = "".join(
    f"id: {number}\ndata: {json.dumps(msgspec.to_builtins(event), ensure_ascii=False)}\n\n"
    for number, event in {
        "o0": StartEvent.example(partner_reference=None),
        "o1": ProviderStartEvent.example(),
        "o2": ProviderStartEvent.example(provider="imbuia"),
        "b1": ProviderResultEvent.example(proposals=[Offer.example(offer_id=None)]),
        "b3": ProviderErrorEvent.example(error=_FAILURE.message, reasons=[_FAILURE.reason]),
        "c": CompleteEvent.example(),
    }.items()
)
