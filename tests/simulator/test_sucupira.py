"""The dialect of the simulated bank sucupira, as its manual promises it."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import pytest
import requests

from tests.providers.samples import FULL_FLOW
from tests.simulator.dialect import FORMAT, VALUE, Caller, Dialect

KEY = "sucupira-sandbox-signing-key-not-a-secret"
SPECIAL = "90000002380"
SEARCH = "GET /credito/operacoes?referencia-externa=x"


def no(field: str, sentence: str) -> dict[str, Any]:
    return {"errors": {field: [sentence]}}


UNSIGNED = no("x-assinatura", "assinatura ausente, invalida ou vencida")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def signature(
    call: str, body: bytes, *, key: str = KEY, header: dict[str, Any] | None = None, **claims: Any
) -> dict[str, str]:
    """A JWT made by hand, so that the bank's library is not checked by itself. `...` leaves a claim out."""
    method, path = call.split(" ", 1)
    payload = {
        "iss": "sandbox-originator",
        "metodo": method,
        "caminho": path,
        "resumo-corpo": hashlib.sha256(body).hexdigest(),
        "emitido-em": now_ms(),
        **{name.replace("_", "-"): value for name, value in claims.items()},
    }
    parts = ({"alg": "HS256", "typ": "JWT", "kid": "sandbox-1", **(header or {})}, payload)
    text = ".".join(_base64url(json.dumps(_told(part)).encode()) for part in parts)
    return {"X-Assinatura": f"{text}.{_base64url(hmac.digest(key.encode(), text.encode(), 'sha256'))}"}


def _told(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if value is not ...}


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


DIALECT = Dialect(
    name="sucupira",
    headers=lambda token, call, raw: signature(call, raw),
    bad_headers=[{}, {"X-Assinatura": "x"}, {"X-Assinatura": "a.b.c"}, {"X-Assinatura": b"\xe9"}],
    turned_away=(401, UNSIGNED),
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


def searched(bank: Caller, call: str = SEARCH, **signed: Any) -> requests.Response:
    return bank.call(call, headers=signature(call, b"", **signed))


@pytest.mark.parametrize(
    "signed",
    [
        {"key": "another-key-that-is-long-enough-for-hs256"},
        {"header": {"kid": "sandbox-2"}},
        {"header": {"kid": ...}},
        {"header": {"alg": "none"}},
        {"header": {"alg": "HS512"}},
        {"iss": "somebody"},
        {"iss": ...},
        {"metodo": "POST"},
        {"caminho": "/credito/operacoes?referencia-externa=y"},
        {"caminho": "/credito/operacoes"},
        {"resumo_corpo": hashlib.sha256(b"{}").hexdigest()},
        {"resumo_corpo": ...},
        {"emitido_em": ...},
        {"emitido_em": "now"},
        {"emitido_em": True},
    ],
    ids=str,
)
def test_a_signature_of_something_else_is_401(bank: Caller, signed: dict[str, Any]) -> None:
    answer = searched(bank, **signed)
    assert (answer.status_code, answer.json()) == (401, UNSIGNED)


@pytest.mark.parametrize(("age_s", "status"), [(-90, 401), (-30, 200), (0, 200), (290, 200), (330, 401)])
def test_a_signature_serves_five_minutes(bank: Caller, age_s: int, status: int) -> None:
    assert searched(bank, emitido_em=now_ms() - age_s * 1000).status_code == status


@pytest.mark.parametrize(
    ("cpf", "asked", "routed"),
    [
        (FULL_FLOW, None, "CLT-PADRAO"),
        (FULL_FLOW, "CARTEIRA-7", "CARTEIRA-7"),
        (SPECIAL, None, "CLT-ESPECIAL"),
        (SPECIAL, "CARTEIRA-7", "CLT-ESPECIAL"),
    ],
)
def test_a_simulation_says_where_it_was_routed(bank: Caller, cpf: str, asked: str | None, routed: str) -> None:
    offers = bank.query(cpf, {"carteira": asked}).json()["simulacoes"]
    assert [offer["carteira"] for offer in offers] == [routed, routed]


@pytest.mark.parametrize(("field", "value"), [("valor-centavos", "1"), ("parcelas", 6), ("data-vencimento-inicial", 0)])
def test_a_simulation_is_only_saved_as_it_was_simulated(bank: Caller, field: str, value: Any) -> None:
    offer = bank.query().json()["simulacoes"][0]
    terms = {
        "valor-centavos": offer["valor-centavos"],
        "parcelas": offer["parcelas"],
        "data-vencimento-inicial": offer["vencimento-inicial"],
        field: value,
    }
    assert bank.call(f"PUT /credito/simulacoes/{offer['id-simulacao']}/gravacao", terms).json() == no(field, VALUE)
