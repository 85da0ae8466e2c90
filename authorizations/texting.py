"""Text messages, by the gateway in SMS_GATEWAY_URL.

The gateway receives `POST {"to": "+5511987654321", "text": "…", "reference": "…"}` with `Authorization: Bearer …` and
`Idempotency-Key`, whose value is the reference. A 2xx accepts the message. In the sandbox the phone is the gateway.
"""

import time
import uuid
from enum import StrEnum

import msgspec
import structlog
from django.conf import settings
from prometheus_client import Counter

from providers import metrics  # noqa: F401 - names the files by which a machine's processes count together
from webhooks import transport
from webhooks.transport import Fault

log = structlog.get_logger(__name__)

MESSAGES = Counter("text_messages", "Text messages handed to the gateway.", ["outcome"])

#: The pauses before further attempts, in seconds. With time-outs, all attempts end within `phone_code.LEASE`.
PAUSES_S = (1.0, 3.0)
#: No attempt begins later than this after the first one, in seconds.
LATEST_TRY_S = 15.0
#: After these failures the gateway may nevertheless have the message.
_UNKNOWN = (Fault.TIMEOUT, Fault.CONNECTION, Fault.PROTOCOL)
_UNKNOWN_STATUSES = (502, 504)  # from a proxy in front of the gateway


class Outcome(StrEnum):
    """The result of sending a message. UNKNOWN: the gateway may have it."""

    SENT = "sent"
    UNKNOWN = "unknown"
    FAILED = "failed"


def send(phone: str, text: str) -> Outcome:
    """Send `text` to the local `phone` (10-11 digits) by the gateway, at most three times. All attempts have the same
    reference, by which the gateway recognizes a repeat. Failures are returned, not raised. No log may hold either."""
    outcome = _send(phone, text, uuid.uuid4().hex)
    MESSAGES.labels(outcome).inc()
    return outcome


def _send(phone: str, text: str, reference: str) -> Outcome:
    if not settings.SMS_GATEWAY_URL:
        log.error("text_message_without_gateway", reference=reference)
        return Outcome.FAILED
    body = msgspec.json.encode({"to": f"+55{phone}", "text": text, "reference": reference})
    headers = {
        "Authorization": f"Bearer {settings.SMS_GATEWAY_TOKEN}",
        "Content-Type": "application/json",
        "Idempotency-Key": reference,
        "User-Agent": "origination/1",
    }
    may_have_it = False
    began = time.monotonic()
    for pause in (*PAUSES_S, None):
        answer = transport.post(settings.SMS_GATEWAY_URL, body, headers)
        if answer.fault is None:
            return Outcome.SENT
        log.warning("text_message_failed", reference=reference, fault=answer.fault, status=answer.status)
        may_have_it = may_have_it or answer.fault in _UNKNOWN or answer.status in _UNKNOWN_STATUSES
        is_refused = answer.status is not None and answer.status < 500 and answer.status != 429
        if pause is None or is_refused or time.monotonic() - began > LATEST_TRY_S:
            break
        time.sleep(pause)
    return Outcome.UNKNOWN if may_have_it else Outcome.FAILED
