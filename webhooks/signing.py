"""Headers by which a receiver verifies that a delivery comes from us and is unaltered.

Two schemes sign the same body with the same secret (`whsec_` + base64 of 32 bytes).

`X-Service-Signature`, the contract's own scheme: hex HMAC-SHA256 of the raw body. The key is the whole secret as
issued, including the prefix.

`webhook-id`, `webhook-timestamp` and `webhook-signature`, as specified by Standard Webhooks
(https://www.standardwebhooks.com). The key is the decoded secret, so that the public libraries can verify them.
"""

import base64
import hmac
from collections.abc import Sequence

SECRET_PREFIX = "whsec_"  # noqa: S105 - the public form, not a secret


def headers(event_id: str, body: bytes, secrets: Sequence[str], timestamp: int) -> dict[str, str]:
    """The signature headers of one attempt.

    `secrets` holds the current secret, followed by replaced secrets that are still valid. The standard header contains
    a signature for each; `X-Service-Signature` only for the current one. `timestamp` is the attempt's time in seconds
    since the epoch. Raises ValueError for a secret that is not in its issued form.
    """
    signed = f"{event_id}.{timestamp}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(_key(secret), signed, "sha256")).decode() for secret in secrets]
    return {
        "X-Service-Signature": hmac.digest(secrets[0].encode(), body, "sha256").hex(),
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
