"""A partner's client of the origination API. `types` has the bodies, made from the service's schema."""

from origination.calls import ApiError, NoAnswer, OriginationError
from origination.client import Client, OutcomeUnknown, Stream
from origination.webhooks import Event, SignatureError, sign, verify

__all__ = [
    "ApiError",
    "Client",
    "Event",
    "NoAnswer",
    "OriginationError",
    "OutcomeUnknown",
    "SignatureError",
    "Stream",
    "sign",
    "verify",
]
