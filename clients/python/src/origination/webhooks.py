"""Events, and the signatures by which a delivery is known to come from the service."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from origination.calls import OriginationError

if TYPE_CHECKING:
    from origination.types import WebhookEvent

PREFIX = "whsec_"


class SignatureError(OriginationError):
    """The delivery is not from the service, was changed, or is too old. Answer 401."""


@dataclass(frozen=True)
class Event:
    """One event. `body` is None 30 days later, when the service has erased it. `cursor` is set by `Client.events`,
    `is_repeat` by `verify`."""

    id: str
    name: str
    body: WebhookEvent | None
    cursor: str = ""
    is_repeat: bool = False


def verify(
    body: bytes,
    headers: Mapping[str, str],
    secrets: Iterable[str],
    *,
    tolerance_s: float = 300.0,
    handled: Container[str] = (),
    takes_body_signature: bool = False,
) -> Event:
    """The event of a delivery. Raises SignatureError unless one of `secrets` signed it within `tolerance_s` seconds.

    `body` has the bytes as they came. `secrets` are, during a change, the new one and the earlier ones. An event comes
    again until you answer 2xx: `is_repeat` is true if its id is in `handled`. Add the id in the transaction that does
    the work. `takes_body_signature` accepts `X-Service-Signature` where a proxy drops the `webhook-` headers. It
    has no id and no time, so nothing tells an old delivery that somebody sends again; the event's id is then "".
    """
    told, keys = {name.lower(): value for name, value in headers.items()}, list(secrets)
    event_id = told.get("webhook-id", "")
    if "webhook-signature" in told:
        _check_standard(body, told, keys, tolerance_s)
    elif not takes_body_signature or not _is_body_signed(body, told.get("x-service-signature", ""), keys):
        raise SignatureError("no signature of one of the secrets")
    else:
        event_id = ""
    event = cast("WebhookEvent", json.loads(body))
    return Event(event_id, event["event"], event, is_repeat=event_id in handled)


def sign(event_id: str, body: bytes, secret: str, timestamp: int) -> dict[str, str]:
    """The headers of a delivery at `timestamp`, seconds since 1970, as the service signs it. For tests."""
    return {
        "X-Service-Signature": hmac.digest(secret.encode(), body, "sha256").hex(),
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": _standard(event_id, str(timestamp), body, secret).decode(),
    }


def _check_standard(body: bytes, told: Mapping[str, str], secrets: list[str], tolerance_s: float) -> None:
    sent_at = told.get("webhook-timestamp", "")
    if not (sent_at.isascii() and sent_at.isdecimal() and len(sent_at) < 12):
        raise SignatureError("webhook-timestamp is no time")
    expected = [_standard(told.get("webhook-id", ""), sent_at, body, secret) for secret in secrets]
    given = told["webhook-signature"].encode().split()
    if not any(hmac.compare_digest(ours, theirs) for ours in expected for theirs in given):
        raise SignatureError("webhook-signature is of none of the secrets")
    if abs(time.time() - int(sent_at)) > tolerance_s:
        raise SignatureError("webhook-timestamp is too far from now")


def _standard(event_id: str, sent_at: str, body: bytes, secret: str) -> bytes:
    key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    signed = f"{event_id}.{sent_at}.".encode() + body
    return b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256"))


def _is_body_signed(body: bytes, given: str, secrets: list[str]) -> bool:
    expected = [hmac.digest(secret.encode(), body, "sha256").hex().encode() for secret in secrets]
    return any(hmac.compare_digest(ours, given.encode()) for ours in expected)
