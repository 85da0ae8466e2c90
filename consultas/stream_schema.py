"""OpenAPI schema of the events of a streamed query, and an example of a stream."""

from __future__ import annotations

import json

from drf_spectacular.utils import PolymorphicProxySerializer

from consultas.shapes import (
    CompleteEvent,
    ProviderErrorEvent,
    ProviderResultEvent,
    ProviderStartEvent,
    StartEvent,
)
from foundation.shapes import example, serializer
from providers.errors import ProviderUnavailable

#: The content of each `data:` of the stream.
STREAM_EVENT = PolymorphicProxySerializer(
    component_name="StreamEvent",
    serializers={
        "start": serializer(StartEvent),
        "provider_start": serializer(ProviderStartEvent),
        "provider_result": serializer(ProviderResultEvent),
        "provider_error": serializer(ProviderErrorEvent),
        "complete": serializer(CompleteEvent),
    },
    resource_type_field_name="event",
)

_FAILURE = ProviderUnavailable()
_OFFERS = [{**each, "offerId": None} for each in example(ProviderResultEvent)["proposals"]]
STREAM = "".join(
    f"id: {number}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
    for number, event in {
        "o0": example(StartEvent, partnerReference=None),
        "o1": example(ProviderStartEvent),
        "o2": example(ProviderStartEvent, provider="imbuia"),
        "b1": example(ProviderResultEvent, proposals=_OFFERS),
        "b3": example(ProviderErrorEvent, error=_FAILURE.message, reasons=[_FAILURE.reason.as_dict()]),
        "c": example(CompleteEvent),
    }.items()
)
