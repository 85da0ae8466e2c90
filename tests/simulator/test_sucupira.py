"""The dialect of the simulated bank sucupira, as its manual promises it."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from tests.simulator.dialect import FORMAT, VALUE, Dialect

KEY = "sucupira-sandbox-signing-key-not-a-secret"


def no(field: str, sentence: str) -> dict[str, Any]:
    return {"errors": {field: [sentence]}}


def signature(call: str, body: bytes) -> dict[str, str]:
    """A JWT made by hand, so that the bank's library is not checked by itself."""
    method, path = call.split(" ", 1)
    payload = {
        "iss": "sandbox-originator",
        "metodo": method,
        "caminho": path,
        "resumo-corpo": hashlib.sha256(body).hexdigest(),
        "emitido-em": time.time_ns() // 1_000_000,
    }
    parts = ({"alg": "HS256", "typ": "JWT", "kid": "sandbox-1"}, payload)
    text = ".".join(_base64url(json.dumps(part).encode()) for part in parts)
    return {"X-Assinatura": f"{text}.{_base64url(hmac.digest(KEY.encode(), text.encode(), 'sha256'))}"}


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


DIALECT = Dialect(
    name="sucupira",
    headers=lambda token, call, raw: signature(call, raw),
    bad_headers=[{}, {"X-Assinatura": "x"}, {"X-Assinatura": "a.b.c"}, {"X-Assinatura": b"\xe9"}],
    turned_away=(401, no("x-assinatura", "assinatura ausente, invalida ou vencida")),
    simulation="id-simulacao",
    offered=lambda caller, body: body["simulacoes"][0]["id-simulacao"],
    refusal=lambda field, fault: (422, no(field, fault)),
    may_lack_in_submission="cliente.estado-civil",
    query_faults=[
        ("cliente.data-nascimento", 479606400001, FORMAT),
        ("cliente.data-nascimento", 86_400_000 * 10**12, VALUE),
    ],
    submit_faults=[
        ("data-vencimento-inicial", 1799107200000, VALUE),
        ("data-vencimento-inicial", None, VALUE),
    ],
)
