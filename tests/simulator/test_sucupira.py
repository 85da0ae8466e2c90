"""The dialect of the simulated bank sucupira, as its manual promises it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import pytest
import requests

from tests.providers.manuals import RANDOM_KEY
from tests.providers.samples import FULL_FLOW, HOLDERS
from tests.simulator.dialect import FORMAT, MISSING, TYPE, VALUE, Caller, Dialect, Refusal
from tests.simulator.http import HttpSimulator

KEY = "sucupira-sandbox-signing-key-not-a-secret"
NO_OFFERS, SPECIAL = HOLDERS["no_offers"], "90000002380"
SEARCH = "GET /credito/operacoes?referencia-externa=x"
PIX = {"forma": "pix", "pix": {"tipo-chave": "EMAIL", "chave": "maria@example.com"}}


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


def fault(answer: requests.Response) -> Refusal:
    if answer.status_code < 300:
        return None
    assert answer.status_code == 422, answer.text
    [(field, [fault])] = answer.json()["errors"].items()
    return field, fault


DIALECT = Dialect(
    name="sucupira",
    headers=lambda token, call, raw: signature(call, raw),
    bad_headers=[{}, {"X-Assinatura": "x"}, {"X-Assinatura": "a.b.c"}, {"X-Assinatura": b"\xe9"}],
    routes=[
        "POST /credito/simulacoes",
        "PUT /credito/simulacoes/x/gravacao",
        "POST /credito/operacoes",
        SEARCH,
        "GET /credito/operacoes/x",
        "POST /credito/operacoes/x/formalizacao",
    ],
    turned_away=(401, UNSIGNED),
    query="POST /credito/simulacoes",
    submit="POST /credito/operacoes",
    query_cpf="cliente.cpf",
    submit_cpf="cliente.cpf",
    simulation="id-simulacao",
    offered=lambda caller, body: body["simulacoes"][0]["id-simulacao"],
    repeats=True,
    fault=fault,
    body="corpo",
    no_bodies=[("application/json", b"[]")],
    may_lack_in_submission={"cliente.estado-civil"},
    query_faults=[
        ("cliente", ..., MISSING),
        ("cliente.cpf", "900.000.001-75", FORMAT),
        ("cliente.data-nascimento", 479606400001, FORMAT),
        ("cliente.data-nascimento", 86_400_000 * 10**12, VALUE),
        ("cliente.genero", 3, VALUE),
        ("cliente.e-mail", "maria", FORMAT),
        ("cliente.telefone", "11987654321", FORMAT),
        ("evidencia.ip", "300.1.1.1", FORMAT),
        ("evidencia.aceito-em", None, MISSING),
        ("evidencia.navegador", ..., MISSING),
        ("evidencia.localizacao.longitude", "181", VALUE),
        ("evidencia.aplicativo", {}, MISSING, "evidencia.aplicativo.autorizacao"),
        ("pedido.valor-centavos", 910000, TYPE),
        ("pedido.valor-centavos", "9100.00", FORMAT),
        ("pedido.valor-centavos", "0", FORMAT),
        ("pedido.parcelas", 0, VALUE),
        ("carteira", ..., MISSING),
    ],
    submit_faults=[
        ("referencia-externa", "x" * 65, FORMAT),
        ("cliente.genero", 0, VALUE),
        ("cliente.nome-mae", None, MISSING),
        ("cliente.nome-pai", "João", FORMAT),
        ("cliente.nacionalidade", None, MISSING),
        ("cliente.estado-civil", "casado", VALUE),
        ("cliente.documento", None, MISSING),
        ("cliente.documento.numero", None, MISSING),
        ("cliente.endereco.cep", "01310-100", FORMAT),
        ("cliente.endereco.uf", "sp", FORMAT),
        ("liquidacao.forma", "ted", VALUE),
        ("liquidacao.conta.agencia", "1234-5", FORMAT),
        ("liquidacao.conta.tipo", "corrente", VALUE),
        ("aceite.ip", None, MISSING),
        ("aviso-assinatura", "email", VALUE),
        ("data-vencimento-inicial", 1799107200000, VALUE),
        ("data-vencimento-inicial", None, VALUE),
    ],
    pix=lambda kind, key: {"liquidacao": {"forma": "pix", "pix": {"tipo-chave": kind, "chave": key}}},
    pix_keys=[
        ("CPF", FULL_FLOW, None),
        ("CPF", NO_OFFERS, ("liquidacao.pix.chave", VALUE)),
        ("PHONE", "+5511987654321", None),
        ("PHONE", "11987654321", ("liquidacao.pix.chave", FORMAT)),
        ("EMAIL", "maria@example.com", None),
        ("EVP", RANDOM_KEY, None),
        ("EVP", "maria@example.com", ("liquidacao.pix.chave", FORMAT)),
        ("telefone", "+5511987654321", ("liquidacao.pix.tipo-chave", VALUE)),
    ],
    unknown=[
        ("GET /credito/operacoes/unknown", None, 404, no("id-operacao", "operacao nao encontrada")),
        ("POST /credito/operacoes/unknown/formalizacao", {}, 404, no("id-operacao", "operacao nao encontrada")),
        ("PUT /credito/simulacoes/unknown/gravacao", {}, 404, no("id-simulacao", "simulacao nao encontrada")),
    ],
    unknown_simulation=(404, no("id-simulacao", "simulacao nao encontrada")),
)


@pytest.fixture
def sucupira(simulator: HttpSimulator) -> Caller:
    return Caller(simulator, DIALECT)


def searched(sucupira: Caller, call: str = SEARCH, **signed: Any) -> requests.Response:
    return sucupira.call(call, headers=signature(call, b"", **signed))


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
def test_a_signature_of_something_else_is_401(sucupira: Caller, signed: dict[str, Any]) -> None:
    answer = searched(sucupira, **signed)
    assert (answer.status_code, answer.json()) == (401, UNSIGNED)


@pytest.mark.parametrize(("age_s", "status"), [(-90, 401), (-30, 200), (0, 200), (290, 200), (330, 401)])
def test_a_signature_serves_five_minutes(sucupira: Caller, age_s: int, status: int) -> None:
    assert searched(sucupira, emitido_em=now_ms() - age_s * 1000).status_code == status


def test_moving_the_simulators_clock_does_not_age_a_signature(sucupira: Caller) -> None:
    sucupira.simulator.advance(30 * 24 * 3600)
    assert sucupira.query().status_code == 200


def test_the_path_is_signed_as_it_stands_on_the_wire(sucupira: Caller) -> None:
    answer = searched(sucupira, "GET /credito/operacoes?referencia-externa=a%2Fb%20%C3%A7")
    assert answer.json() == {"operacoes": []}


def test_both_operations_of_a_repeated_reference_are_found(sucupira: Caller) -> None:
    body = sucupira.submission()
    made = [sucupira.submit(body).json()["id-operacao"] for _ in range(2)]
    found = searched(sucupira, "GET /credito/operacoes?referencia-externa=reference-1").json()["operacoes"]
    assert [each["id-operacao"] for each in found] == made


@pytest.mark.parametrize(
    ("cpf", "asked", "routed"),
    [
        (FULL_FLOW, None, "CLT-PADRAO"),
        (FULL_FLOW, "CARTEIRA-7", "CARTEIRA-7"),
        (SPECIAL, None, "CLT-ESPECIAL"),
        (SPECIAL, "CARTEIRA-7", "CLT-ESPECIAL"),
    ],
)
def test_a_simulation_says_where_it_was_routed(sucupira: Caller, cpf: str, asked: str | None, routed: str) -> None:
    offers = sucupira.query(cpf, {"carteira": asked}).json()["simulacoes"]
    assert [offer["carteira"] for offer in offers] == [routed, routed]


def test_pix_is_refused_for_the_special_portfolio(sucupira: Caller) -> None:
    refused = fault(sucupira.submit(sucupira.submission({"liquidacao": PIX}, SPECIAL)))
    assert refused == ("liquidacao.forma", "pix nao permitido para a carteira CLT-ESPECIAL")
    assert sucupira.submit(sucupira.submission(cpf=SPECIAL)).json()["carteira"] == "CLT-ESPECIAL"


@pytest.mark.parametrize(("field", "value"), [("valor-centavos", "1"), ("parcelas", 6), ("data-vencimento-inicial", 0)])
def test_a_simulation_is_only_saved_as_it_was_simulated(sucupira: Caller, field: str, value: Any) -> None:
    offer = sucupira.query().json()["simulacoes"][0]
    terms = {
        "valor-centavos": offer["valor-centavos"],
        "parcelas": offer["parcelas"],
        "data-vencimento-inicial": offer["vencimento-inicial"],
        field: value,
    }
    assert fault(sucupira.call(f"PUT /credito/simulacoes/{offer['id-simulacao']}/gravacao", terms)) == (field, VALUE)
