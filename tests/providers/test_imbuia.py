"""How imbuia signs its callbacks."""

import hashlib
import hmac
import time

from tests.providers.samples import CALLBACK_SECRETS

SECRET = CALLBACK_SECRETS["imbuia"]
ENDED = b'{"tipo": "biometria.encerrada", "biometria": {"id_biometria": "b1"}}'


def callback(body: bytes = ENDED, *, age_s: float = 0, secret: str = SECRET) -> tuple[dict[str, str], bytes]:
    """A callback as the manual shows it, signed so many seconds ago."""
    moment = str(int(time.time() - age_s))
    signature = hmac.new(secret.encode(), f"{moment}.evt_1.".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Imbuia-Evento": "evt_1", "X-Imbuia-Momento": moment, "X-Imbuia-Assinatura": signature}, body


def altered_callbacks() -> list[tuple[dict[str, str], bytes]]:
    """Those that tests/providers/contract/test_callbacks.py does not know."""
    headers, body = callback()
    return [
        ({**headers, "X-Imbuia-Evento": "evt_2"}, body),
        ({**headers, "X-Imbuia-Momento": str(int(time.time()) + 1)}, body),
        ({**headers, "X-Imbuia-Assinatura": "ç"}, body),
    ]
