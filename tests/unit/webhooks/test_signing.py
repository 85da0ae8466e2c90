"""The signature headers, verified by the code that partners copy from the guide and by the standard's own library."""

import base64
import hashlib
import hmac
import json
import re
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from webhooks import signing

OLD, NEW, FOREIGN = ("whsec_" + base64.b64encode(bytes([number] * 32)).decode() for number in range(3))
BODY = '{"event":"lead","nome":"José Araújo"}'.encode()
signed = partial(signing.headers, "evt_1", BODY)
#: The functions that the guide's page on webhooks defines.
GUIDE: dict[str, Any] = {}
for block in re.findall(
    r"```python\n(.*?)```",
    (Path(__file__).resolve().parents[3] / "docs" / "guia" / "webhooks.md").read_text(),
    re.DOTALL,
):
    exec(block, GUIDE)


def test_the_contracts_signature_is_keyed_with_the_whole_text_of_the_current_secret() -> None:
    headers, is_genuine = signed([NEW, OLD], int(time.time())), GUIDE["is_genuine"]
    assert headers["X-Service-Signature"] == hmac.new(NEW.encode(), BODY, hashlib.sha256).hexdigest()
    assert is_genuine(BODY, headers, NEW)
    for secret in (OLD, NEW.removeprefix("whsec_")):
        assert not is_genuine(BODY, headers, secret)
    assert not is_genuine(BODY + b" ", headers, NEW)
    assert not is_genuine(BODY, {}, NEW)


@pytest.mark.parametrize(
    ("secrets", "body", "age_s", "is_good"),
    [
        ([NEW], BODY, 0, True),
        ([OLD], BODY, 0, True),
        ([FOREIGN, OLD], BODY, 0, True),
        ([FOREIGN], BODY, 0, False),
        ([NEW], BODY.replace(b"lead", b"load"), 0, False),
        ([NEW], BODY, 600, False),
    ],
)
def test_during_a_rotation_both_secrets_verify_the_standard_header(
    secrets: list[str], body: bytes, age_s: int, is_good: bool
) -> None:
    headers = signed([NEW, OLD], int(time.time()) - age_s)
    assert len(headers["webhook-signature"].split(" ")) == 2
    assert GUIDE["verified"](body, headers, secrets) == (json.loads(BODY) if is_good else None)
    if is_good:
        assert Webhook(secrets[-1]).verify(body, headers) == json.loads(BODY)
    else:
        with pytest.raises(WebhookVerificationError):
            Webhook(secrets[-1]).verify(body, headers)


@pytest.mark.parametrize("forged", ["é", "x", "v1", "v1,a", "v1,é", ""])
def test_no_forgery_breaks_the_receiver(forged: str) -> None:
    headers = {**signed([NEW], int(time.time())), "X-Service-Signature": forged, "webhook-signature": forged}
    assert GUIDE["is_genuine"](BODY, headers, NEW) is False
    assert GUIDE["verified"](BODY, headers, [NEW, OLD]) is None


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


def test_a_secret_that_was_never_issued_is_refused() -> None:
    with pytest.raises(ValueError):
        signed(["whsec_*not base64*"], 0)
