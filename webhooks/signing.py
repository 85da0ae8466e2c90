"""The headers by which a receiver knows that a delivery is ours and unaltered.

Two schemes sign the same bytes with the same secret (`whsec_` + base64 of 32 bytes):

- `X-Service-Signature`, the contract's own: hex HMAC-SHA256 of the raw body, keyed with the whole secret as
  it was issued, prefix included;
- `webhook-id`, `webhook-timestamp` and `webhook-signature` after the Standard Webhooks specification
  (https://www.standardwebhooks.com), keyed with the decoded bytes, so that its public libraries verify
  them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence

SECRET_PREFIX = "whsec_"  # noqa: S105 - the public form, not a secret


def headers(event_id: str, body: bytes, secrets: Sequence[str], timestamp: int) -> dict[str, str]:
    """The signature headers of one attempt.

    `secrets` holds the current secret first and, for the overlap after a rotation, those before: the
    standard header lists a signature of each, while `X-Service-Signature` has room for the current one
    only. `timestamp` is the attempt's time in whole seconds since 1970. Raises ValueError when a secret is
    not in its issued form.
    """
    signed = f"{event_id}.{timestamp}.".encode() + body
    signatures = [base64.b64encode(_hmac(_key(secret), signed).digest()).decode() for secret in secrets]
    return {
        "X-Service-Signature": _hmac(secrets[0].encode(), body).hexdigest(),
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def _hmac(key: bytes, message: bytes) -> hmac.HMAC:
    return hmac.new(key, message, hashlib.sha256)


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
