import base64
import hashlib
import hmac
import json
import time

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from webhooks import signing

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
NEW_SECRET = "whsec_" + base64.b64encode(bytes(range(32, 64))).decode()
BODY = '{"event":"lead","nome":"José Araújo"}'.encode()


def independent_check(body: bytes, headers: dict[str, str], secret: str) -> bool:
    """The check that a receiver would write who knows only the contract (as in docs/guia/webhooks.md)."""
    expected = hmac.new(secret.encode("utf-8"), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, headers["X-Service-Signature"])


def test_headers_are_the_four_of_both_schemes() -> None:
    headers = signing.headers("evt_1", BODY, [SECRET], 1_700_000_000)

    assert set(headers) == {"X-Service-Signature", "webhook-id", "webhook-timestamp", "webhook-signature"}
    assert headers["webhook-id"] == "evt_1"
    assert headers["webhook-timestamp"] == "1700000000"


def test_service_signature_is_keyed_with_the_whole_secret_text() -> None:
    headers = signing.headers("evt_1", BODY, [SECRET], int(time.time()))

    assert independent_check(BODY, headers, SECRET)
    assert not independent_check(BODY + b" ", headers, SECRET)
    assert not independent_check(BODY, headers, SECRET.removeprefix("whsec_"))


def test_standard_library_verifies() -> None:
    headers = signing.headers("evt_1", BODY, [SECRET], int(time.time()))

    assert Webhook(SECRET).verify(BODY, headers) == json.loads(BODY)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY.replace(b"lead", b"load"), headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW_SECRET).verify(BODY, headers)


@pytest.mark.control("CMN XIII")
def test_published_vector_of_the_standard() -> None:
    """The example of the Standard Webhooks libraries' own tests."""
    headers = signing.headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        b'{"test": 2432232314}',
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        1_614_265_330,
    )

    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_during_a_rotation_both_secrets_verify_the_standard_header() -> None:
    headers = signing.headers("evt_1", BODY, [NEW_SECRET, SECRET], int(time.time()))

    assert len(headers["webhook-signature"].split(" ")) == 2
    assert Webhook(NEW_SECRET).verify(BODY, headers)
    assert Webhook(SECRET).verify(BODY, headers)
    assert independent_check(BODY, headers, NEW_SECRET)


def test_a_secret_that_was_never_issued_is_refused() -> None:
    with pytest.raises(ValueError):
        signing.headers("evt_1", BODY, ["whsec_*not base64*"], 0)
