"""The verification code that partners copy from the guide, tested with headers as the service sends them."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from webhooks import signing

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guia" / "webhooks.md"
OLD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NEW = "whsec_plJ3nmyCDGBKInavdOK15jsl+xu1XqaV"
FOREIGN = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
BODY = b'{"event":"lead","external_reference":"52998224725"}'


@pytest.fixture
def guide() -> dict[str, Callable[..., Any]]:
    """The functions that the guide's page on webhooks defines."""
    defined: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(block, defined)
    return defined


def test_service_signature(guide: dict[str, Callable[..., Any]]) -> None:
    headers = signing.headers("evt_1", BODY, [NEW, OLD], int(time.time()))

    assert guide["is_genuine"](BODY, headers, NEW)
    assert not guide["is_genuine"](BODY, headers, OLD)
    assert not guide["is_genuine"](BODY + b" ", headers, NEW)
    assert not guide["is_genuine"](BODY, {}, NEW)


def test_standard_webhooks(guide: dict[str, Callable[..., Any]]) -> None:
    headers = signing.headers("evt_1", BODY, [NEW, OLD], int(time.time()))
    stale = signing.headers("evt_1", BODY, [NEW], int(time.time()) - 600)

    assert guide["verified"](BODY, headers, [NEW])["event"] == "lead"
    assert guide["verified"](BODY, headers, [OLD])["event"] == "lead"
    assert guide["verified"](BODY, headers, [FOREIGN, OLD])["event"] == "lead"
    assert guide["verified"](BODY, headers, [FOREIGN]) is None
    assert guide["verified"](BODY + b" ", headers, [NEW]) is None
    assert guide["verified"](BODY, stale, [NEW]) is None


@pytest.mark.parametrize("forged", ["é", "x", "v1", "v1,a", "v1,é", ""])
def test_no_forgery_breaks_the_receiver(guide: dict[str, Callable[..., Any]], forged: str) -> None:
    sent = signing.headers("evt_1", BODY, [NEW], int(time.time()))
    headers = {**sent, "X-Service-Signature": forged, "webhook-signature": forged}

    assert guide["is_genuine"](BODY, headers, NEW) is False
    assert guide["verified"](BODY, headers, [NEW, OLD]) is None
