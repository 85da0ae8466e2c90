"""The dialect of the simulated bank sucupira and its strictness, as its manual promises them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import pytest
import requests

from tests.providers.manuals import submission_body
from tests.simulator.http import HttpSimulator
from tests.simulator.ipe_client import changed

KEY = "sucupira-sandbox-signing-key-not-a-secret"
FULL_FLOW, NO_OFFERS, IN_PROGRESS = "90000000175", "90000001309", "90000001490"
MISSING_DUE_DATE, SPECIAL = "90000002208", "90000002380"
UNSIGNED = {"errors": {"x-assinatura": ["assinatura ausente, invalida ou vencida"]}}

CLIENT: dict[str, Any] = {
    "cpf": FULL_FLOW,
    "nome": "Maria da Silva",
    "data-nascimento": 479606400000,
    "genero": 2,
    "e-mail": "maria@example.com",
    "telefone": "+5511987654321",
}
QUERY: dict[str, Any] = {
    "cliente": CLIENT,
    "evidencia": {
        "ip": "203.0.113.7",
        "aceito-em": 1795262400000,
        "sessao": None,
        "navegador": None,
        "aparelho": None,
        "plataforma": None,
        "localizacao": {"latitude": "-23.55", "longitude": "-46.63", "precisao-metros": None},
        "aplicativo": None,
    },
    "pedido": {"valor-centavos": None, "parcela-centavos": None, "parcelas": None, "com-seguro": True},
    "carteira": None,
}
PIX: dict[str, Any] = {"forma": "pix", "pix": {"tipo-chave": "EMAIL", "chave": "maria@example.com"}}
SUBMISSION: dict[str, Any] = submission_body("sucupira")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def signature(
    method: str,
    path: str,
    body: bytes,
    *,
    key: str = KEY,
    header: dict[str, Any] | None = None,
    **claims: Any,
) -> str:
    """A JWT made by hand, so that the bank's library is not checked by itself. `...` leaves a claim out."""
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
    return f"{text}.{_base64url(hmac.digest(key.encode(), text.encode(), 'sha256'))}"


def _told(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if value is not ...}


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class SucupiraClient:
    """A caller written from the manual."""

    def __init__(self, simulator: HttpSimulator) -> None:
        self.simulator = simulator

    def send(self, method: str, path: str, body: Any = None, **signed: Any) -> requests.Response:
        raw = b"" if body is None else json.dumps(body).encode()
        headers = {"X-Assinatura": signature(method, path, raw, **signed), "Content-Type": "application/json"}
        return self.simulator.request(method, f"/sucupira{path}", data=raw, headers=headers)

    def query(self, cpf: str = FULL_FLOW, **top: Any) -> requests.Response:
        return self.send("POST", "/credito/simulacoes", {**changed(QUERY, "cliente.cpf", cpf), **top})

    def submission(self, cpf: str = FULL_FLOW, **top: Any) -> dict[str, Any]:
        key = self.query(cpf).json()["simulacoes"][0]["id-simulacao"]
        return changed({**SUBMISSION, "id-simulacao": key, **top}, "cliente.cpf", cpf)

    def submit(self, body: dict[str, Any]) -> requests.Response:
        return self.send("POST", "/credito/operacoes", body)


@pytest.fixture
def sucupira(simulator: HttpSimulator) -> SucupiraClient:
    return SucupiraClient(simulator)


# --- signature


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
def test_a_signature_of_something_else_is_401(sucupira: SucupiraClient, signed: dict[str, Any]) -> None:
    answer = sucupira.send("GET", "/credito/operacoes?referencia-externa=x", **signed)
    assert (answer.status_code, answer.json()) == (401, UNSIGNED)


@pytest.mark.parametrize(("age_s", "status"), [(-90, 401), (-30, 200), (0, 200), (290, 200), (330, 401)])
def test_a_signature_serves_five_minutes(sucupira: SucupiraClient, age_s: int, status: int) -> None:
    answer = sucupira.send("GET", "/credito/operacoes?referencia-externa=x", emitido_em=now_ms() - age_s * 1000)
    assert answer.status_code == status


def test_moving_the_simulators_clock_does_not_age_a_signature(sucupira: SucupiraClient) -> None:
    sucupira.simulator.advance(30 * 24 * 3600)
    assert sucupira.query().status_code == 200


@pytest.mark.parametrize("headers", [{}, {"X-Assinatura": "x"}, {"X-Assinatura": "a.b.c"}, {"X-Assinatura": b"\xe9"}])
def test_every_route_needs_a_signature(simulator: HttpSimulator, headers: dict[str, Any]) -> None:
    for method, path in (
        ("POST", "/credito/simulacoes"),
        ("PUT", "/credito/simulacoes/x/gravacao"),
        ("POST", "/credito/operacoes"),
        ("GET", "/credito/operacoes?referencia-externa=x"),
        ("GET", "/credito/operacoes/x"),
        ("POST", "/credito/operacoes/x/formalizacao"),
    ):
        answer = simulator.request(method, f"/sucupira{path}", headers=headers)
        assert (answer.status_code, answer.json()) == (401, UNSIGNED)


def test_the_path_is_signed_as_it_stands_on_the_wire(sucupira: SucupiraClient) -> None:
    path = "/credito/operacoes?referencia-externa=a%2Fb%20%C3%A7"
    assert sucupira.send("GET", path).json() == {"operacoes": []}


# --- simulation


@pytest.mark.parametrize(
    ("cpf", "asked", "routed"),
    [
        (FULL_FLOW, None, "CLT-PADRAO"),
        (FULL_FLOW, "CARTEIRA-7", "CARTEIRA-7"),
        (SPECIAL, None, "CLT-ESPECIAL"),
        (SPECIAL, "CARTEIRA-7", "CLT-ESPECIAL"),
    ],
)
def test_a_simulation_says_where_it_was_routed(
    sucupira: SucupiraClient, cpf: str, asked: str | None, routed: str
) -> None:
    offers = sucupira.query(cpf, carteira=asked).json()["simulacoes"]
    assert [offer["carteira"] for offer in offers] == [routed, routed]


@pytest.mark.parametrize(
    ("path", "value", "field", "sentence"),
    [
        ("cliente", ..., "cliente", "campo obrigatorio nao informado"),
        ("cliente.cpf", "900.000.001-75", "cliente.cpf", "formato invalido"),
        ("cliente.data-nascimento", "1985-03-14", "cliente.data-nascimento", "tipo invalido"),
        ("cliente.data-nascimento", 479606400001, "cliente.data-nascimento", "formato invalido"),
        ("cliente.data-nascimento", 86_400_000 * 10**12, "cliente.data-nascimento", "valor nao permitido"),
        ("cliente.genero", "F", "cliente.genero", "tipo invalido"),
        ("cliente.genero", 3, "cliente.genero", "valor nao permitido"),
        ("cliente.e-mail", "maria", "cliente.e-mail", "formato invalido"),
        ("cliente.telefone", "11987654321", "cliente.telefone", "formato invalido"),
        ("evidencia.ip", "300.1.1.1", "evidencia.ip", "formato invalido"),
        ("evidencia.aceito-em", None, "evidencia.aceito-em", "campo obrigatorio nao informado"),
        ("evidencia.navegador", ..., "evidencia.navegador", "campo obrigatorio nao informado"),
        ("evidencia.localizacao.latitude", -23.55, "evidencia.localizacao.latitude", "tipo invalido"),
        ("evidencia.localizacao.longitude", "181", "evidencia.localizacao.longitude", "valor nao permitido"),
        ("evidencia.aplicativo", {}, "evidencia.aplicativo.autorizacao", "campo obrigatorio nao informado"),
        ("pedido.valor-centavos", 910000, "pedido.valor-centavos", "tipo invalido"),
        ("pedido.valor-centavos", "9100.00", "pedido.valor-centavos", "formato invalido"),
        ("pedido.valor-centavos", "0", "pedido.valor-centavos", "formato invalido"),
        ("pedido.parcelas", 0, "pedido.parcelas", "valor nao permitido"),
        ("pedido.com-seguro", "true", "pedido.com-seguro", "tipo invalido"),
        ("carteira", ..., "carteira", "campo obrigatorio nao informado"),
    ],
)
def test_a_wrong_field_of_a_query_is_422_by_its_name(
    sucupira: SucupiraClient, path: str, value: Any, field: str, sentence: str
) -> None:
    answer = sucupira.send("POST", "/credito/simulacoes", changed(QUERY, path, value))
    assert (answer.status_code, answer.json()) == (422, {"errors": {field: [sentence]}})


# --- submission


@pytest.mark.parametrize(
    ("path", "value", "field", "sentence"),
    [
        ("referencia-externa", "x" * 65, "referencia-externa", "formato invalido"),
        ("cliente.genero", 0, "cliente.genero", "valor nao permitido"),
        ("cliente.nome-mae", None, "cliente.nome-mae", "campo obrigatorio nao informado"),
        ("cliente.nome-pai", "João", "cliente.nome-pai", "formato invalido"),
        ("cliente.nacionalidade", None, "cliente.nacionalidade", "campo obrigatorio nao informado"),
        ("cliente.estado-civil", "casado", "cliente.estado-civil", "valor nao permitido"),
        ("cliente.documento", None, "cliente.documento", "campo obrigatorio nao informado"),
        ("cliente.documento.numero", None, "cliente.documento.numero", "campo obrigatorio nao informado"),
        ("cliente.endereco.cep", "01310-100", "cliente.endereco.cep", "formato invalido"),
        ("cliente.endereco.uf", "sp", "cliente.endereco.uf", "formato invalido"),
        ("liquidacao.forma", "ted", "liquidacao.forma", "valor nao permitido"),
        ("liquidacao.conta.agencia", "1234-5", "liquidacao.conta.agencia", "formato invalido"),
        ("liquidacao.conta.tipo", "corrente", "liquidacao.conta.tipo", "valor nao permitido"),
        ("aceite.ip", None, "aceite.ip", "campo obrigatorio nao informado"),
        ("aviso-assinatura", "email", "aviso-assinatura", "valor nao permitido"),
        ("data-vencimento-inicial", 1799107200000, "data-vencimento-inicial", "valor nao permitido"),
        ("data-vencimento-inicial", None, "data-vencimento-inicial", "valor nao permitido"),
        ("cliente.cpf", NO_OFFERS, "cliente.cpf", "valor nao permitido"),
    ],
)
def test_a_wrong_field_of_a_submission_is_422_and_creates_nothing(
    sucupira: SucupiraClient, path: str, value: Any, field: str, sentence: str
) -> None:
    answer = sucupira.submit(changed(sucupira.submission(), path, value))
    assert (answer.status_code, answer.json()) == (422, {"errors": {field: [sentence]}})
    assert sucupira.simulator.contracts("sucupira") == []


@pytest.mark.parametrize(
    ("kind", "key", "status"),
    [
        ("CPF", FULL_FLOW, 201),
        ("CPF", NO_OFFERS, 422),
        ("PHONE", "+5511987654321", 201),
        ("PHONE", "11987654321", 422),
        ("EMAIL", "maria@example.com", 201),
        ("EVP", "8d6a6f0e-2f6e-4f5b-9a59-1c1f1f0f4c11", 201),
        ("EVP", "maria@example.com", 422),
        ("telefone", "+5511987654321", 422),
    ],
)
def test_pix_keys_have_the_directorys_forms(sucupira: SucupiraClient, kind: str, key: str, status: int) -> None:
    pix = {"forma": "pix", "pix": {"tipo-chave": kind, "chave": key}}
    assert sucupira.submit(sucupira.submission(liquidacao=pix)).status_code == status


def test_pix_is_refused_for_the_special_portfolio(sucupira: SucupiraClient) -> None:
    answer = sucupira.submit(sucupira.submission(SPECIAL, liquidacao=PIX))
    assert answer.status_code == 422
    assert answer.json() == {"errors": {"liquidacao.forma": ["pix nao permitido para a carteira CLT-ESPECIAL"]}}
    assert sucupira.submit(sucupira.submission(SPECIAL)).json()["carteira"] == "CLT-ESPECIAL"


def test_a_repeated_reference_creates_a_second_operation(sucupira: SucupiraClient) -> None:
    body = sucupira.submission()
    first, second = sucupira.submit(body).json(), sucupira.submit(body).json()
    assert first["id-operacao"] != second["id-operacao"]
    found = sucupira.send("GET", "/credito/operacoes?referencia-externa=reference-1").json()
    assert [each["id-operacao"] for each in found["operacoes"]] == [first["id-operacao"], second["id-operacao"]]


@pytest.mark.parametrize(
    ("field", "value"),
    [("valor-centavos", "1"), ("parcelas", 6), ("data-vencimento-inicial", 0)],
)
def test_a_simulation_is_only_saved_as_it_was_simulated(sucupira: SucupiraClient, field: str, value: Any) -> None:
    offer = sucupira.query().json()["simulacoes"][0]
    terms = {
        "valor-centavos": offer["valor-centavos"],
        "parcelas": offer["parcelas"],
        "data-vencimento-inicial": offer["vencimento-inicial"],
        field: value,
    }
    answer = sucupira.send("PUT", f"/credito/simulacoes/{offer['id-simulacao']}/gravacao", terms)
    assert (answer.status_code, answer.json()) == (422, {"errors": {field: ["valor nao permitido"]}})


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("GET", "/credito/operacoes/unknown", None, "id-operacao"),
        ("POST", "/credito/operacoes/unknown/formalizacao", {}, "id-operacao"),
        ("PUT", "/credito/simulacoes/unknown/gravacao", {}, "id-simulacao"),
        ("POST", "/credito/operacoes", SUBMISSION, "id-simulacao"),
    ],
)
def test_what_is_unknown_is_404(sucupira: SucupiraClient, method: str, path: str, body: Any, field: str) -> None:
    answer = sucupira.send(method, path, body)
    assert answer.status_code == 404
    assert list(answer.json()["errors"]) == [field]
