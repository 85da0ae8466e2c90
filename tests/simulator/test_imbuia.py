"""The dialect of the simulated bank imbuia and its strictness, as its manual promises them."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest
import requests

from tests.providers.manuals import submission_body
from tests.receiver import Received
from tests.simulator.http import HttpSimulator
from tests.simulator.ipe_client import FULL_FLOW, NO_OFFERS, STRANGER, changed

BIOMETRIC = "90000000256"
ACCOUNT = {"username": "parceiro-sandbox", "password": "imbuia-sandbox-secret-not-a-secret"}
CALLBACK_SECRET = b"imbuia-callback-secret-not-a-secret"
MARKETPLACE = "/imbuia/marketplace"
VENDOR = "application/vnd.imbuia."
PERSON: dict[str, Any] = {
    "cpf": FULL_FLOW,
    "nome": "Maria da Silva",
    "data_nascimento": "1985-03-14",
    "email": "maria@example.com",
    "sexo": "FEM",
    "telefone": {"codigo_area": "11", "numero": "987654321"},
}
QUERY: dict[str, Any] = {
    "trabalhador": PERSON,
    "aceite": {
        "data_hora": "2026-11-21T12:00:00Z",
        "ip": "203.0.113.7",
        "identificador": "session-1",
        "dispositivo": {"agente_usuario": "Mozilla/5.0", "modelo": None},
        "localizacao": {"situacao": "COLETADA", "latitude": -23.55, "longitude": -46.63, "precisao_metros": None},
        "aplicativo": {"identificador": "app-1", "latitude": -23.55, "longitude": -46.63},
    },
    "simulacao": {"tipo": "POR_VALOR_MAXIMO", "prazo": None, "com_seguro": True},
    "codigo_origem": None,
}
PROPOSAL: dict[str, Any] = submission_body("imbuia")


class ImbuiaClient:
    """Takes a token at once and uses it for every call."""

    def __init__(self, simulator: HttpSimulator) -> None:
        self.simulator = simulator
        self.token = self.take_token().json()["access_token"]

    def take_token(self, **changes: str) -> requests.Response:
        return self.simulator.post("/imbuia/auth/token", data={**ACCOUNT, **changes})

    def call(self, method: str, path: str, version: str, body: Any = None) -> requests.Response:
        headers = {"Authorization": self.token, "Accept": f"{VENDOR}{version}+json"}
        return self.simulator.request(method, MARKETPLACE + path, json=body, headers=headers)

    def query(self, cpf: str = FULL_FLOW, **simulation: Any) -> requests.Response:
        body = changed(QUERY, "trabalhador.cpf", cpf)
        body["simulacao"].update(simulation)
        return self.call("POST", "/consultas", "consulta_v3", body)

    def proof(self, proof: str) -> dict[str, Any]:
        return self.call("GET", f"/biometrias/{proof}", "biometria_v1").json()  # type: ignore[no-any-return]

    def submit(self, body: Any) -> requests.Response:
        return self.call("POST", "/propostas", "proposta_v2", body)

    def proposal(self, cpf: str = FULL_FLOW) -> dict[str, Any]:
        """A valid proposal for the first simulation of a fresh query."""
        simulation = self.query(cpf).json()["condicoes_credito"][0]["id_simulacao"]
        return changed(changed(PROPOSAL, "titular.cpf", cpf), "id_simulacao", simulation)

    def status(self, number: str) -> dict[str, Any]:
        return self.call("GET", f"/propostas/{number}", "proposta_v2").json()  # type: ignore[no-any-return]


@pytest.fixture
def imbuia(simulator: HttpSimulator) -> ImbuiaClient:
    return ImbuiaClient(simulator)


def code_of(answer: requests.Response) -> tuple[int, str]:
    """The HTTP status and the bank's code of a refusal."""
    body = answer.json()
    assert body.keys() == {"message", "details"}
    [detail] = body["details"]
    return answer.status_code, detail["code"]


def test_a_token_is_given_for_twenty_minutes(imbuia: ImbuiaClient, simulator: HttpSimulator) -> None:
    body = imbuia.take_token().json()
    assert len(body.pop("access_token")) >= 32
    assert body == {"expires_in_seconds": 1199}
    simulator.advance(1200)
    assert code_of(imbuia.query()) == (401, "AUT-002")


@pytest.mark.parametrize("changes", [{"username": "wrong"}, {"password": "wrong"}])
def test_wrong_credentials_are_401(imbuia: ImbuiaClient, changes: dict[str, str]) -> None:
    assert code_of(imbuia.take_token(**changes)) == (401, "AUT-001")


ROUTES = [
    ("POST", "/consultas", "consulta_v3"),
    ("GET", "/biometrias/x", "biometria_v1"),
    ("POST", "/biometrias/x/simulacoes", "simulacao_v2"),
    ("POST", "/propostas", "proposta_v2"),
    ("GET", "/propostas?identificador_parceiro=x", "proposta_v2"),
    ("GET", "/propostas/x", "proposta_v2"),
    ("POST", "/propostas/x/formalizacao", "formalizacao_v1"),
]


@pytest.mark.parametrize("authorization", [None, "wrong", "Bearer {token}"])
def test_every_other_route_needs_the_raw_token(imbuia: ImbuiaClient, authorization: str | None) -> None:
    for method, path, version in ROUTES:
        headers = {"Accept": f"{VENDOR}{version}+json"}
        if authorization is not None:
            headers["Authorization"] = authorization.format(token=imbuia.token)
        answer = imbuia.simulator.request(method, MARKETPLACE + path, json={}, headers=headers)
        assert code_of(answer) == (401, "AUT-002")


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/vnd.imbuia.consulta_v1+json"])
def test_every_route_wants_its_own_version(imbuia: ImbuiaClient, accept: str) -> None:
    for method, path, _ in ROUTES:
        headers = {"Authorization": imbuia.token, "Accept": accept}
        answer = imbuia.simulator.request(method, MARKETPLACE + path, json={}, headers=headers)
        assert code_of(answer) == (406, "VER-001")


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("trabalhador.cpf", "900.000.001-75", "REQ-003"),
        ("trabalhador.cpf", ..., "REQ-001"),
        ("trabalhador.data_nascimento", "14/03/1985", "REQ-003"),
        ("trabalhador.sexo", "F", "REQ-004"),
        ("trabalhador.telefone.numero", 987654321, "REQ-002"),
        ("aceite.data_hora", "2026-11-21 12:00:00", "REQ-003"),
        ("aceite.ip", "localhost", "REQ-003"),
        ("aceite.localizacao", None, "REQ-001"),
        ("aceite.localizacao.situacao", "NEGADA", "REQ-004"),
        ("aceite.localizacao.latitude", ..., "REQ-001"),
        ("aceite.localizacao.longitude", 181, "REQ-004"),
        ("aceite.dispositivo.modelo", 8, "REQ-002"),
        ("aceite.aplicativo.latitude", ..., "REQ-001"),
        ("simulacao.tipo", "MAXIMO", "REQ-004"),
        ("simulacao.valor", 100, "REQ-004"),
        ("simulacao.prazo", "24", "REQ-002"),
        ("simulacao.prazo", 0, "REQ-004"),
        ("simulacao.com_seguro", ..., "REQ-001"),
    ],
)
def test_a_field_of_the_query_that_is_wrong_is_400(imbuia: ImbuiaClient, path: str, value: Any, code: str) -> None:
    answer = imbuia.call("POST", "/consultas", "consulta_v3", changed(QUERY, path, value))
    assert code_of(answer) == (400, code)
    assert answer.json()["details"][0]["message"].startswith(f"{path}: ")


def test_a_body_that_is_no_json_object_is_400(imbuia: ImbuiaClient) -> None:
    headers = {"Authorization": imbuia.token, "Accept": f"{VENDOR}consulta_v3+json"}
    for body, media_type in ((b"a=1", "application/x-www-form-urlencoded"), (b"[]", "application/json")):
        answer = imbuia.simulator.post(
            f"{MARKETPLACE}/consultas", data=body, headers={**headers, "Content-Type": media_type}
        )
        assert answer.status_code == 400
        assert answer.json()["details"][0]["message"].startswith("corpo: ")


def test_evidence_that_was_not_collected_is_said(imbuia: ImbuiaClient) -> None:
    acceptance = {
        "data_hora": "2026-11-21T12:00:00Z",
        "ip": "2001:db8::1",
        "localizacao": {"situacao": "NAO_COLETADA"},
    }
    assert imbuia.call("POST", "/consultas", "consulta_v3", {**QUERY, "aceite": acceptance}).status_code == 200


# --- the liveness proof


def signature(request: Received) -> str:
    """The signature as the manual defines it."""
    moment, event = request.headers["x-imbuia-momento"], request.headers["x-imbuia-evento"]
    return hmac.new(CALLBACK_SECRET, f"{moment}.{event}.".encode() + request.body, hashlib.sha256).hexdigest()


# --- proposals


def test_nothing_is_simulated_before_an_approved_proof(imbuia: ImbuiaClient) -> None:
    proof = imbuia.query(BIOMETRIC).json()["biometria"]["id_biometria"]
    wish = {"simulacao": {"tipo": "POR_VALOR_MAXIMO", "com_seguro": True}}
    assert code_of(imbuia.call("POST", f"/biometrias/{proof}/simulacoes", "simulacao_v2", wish)) == (403, "BIO-003")


def test_a_proposal_without_the_proof_is_403(imbuia: ImbuiaClient) -> None:
    imbuia.query(BIOMETRIC)
    assert code_of(imbuia.submit(changed(PROPOSAL, "titular.cpf", BIOMETRIC) | {"id_simulacao": "x"})) == (
        403,
        "BIO-003",
    )


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("titular.naturalidade", ..., "REQ-001"),
        ("titular.naturalidade.cidade", None, "REQ-001"),
        ("titular.naturalidade.uf", "São Paulo", "REQ-003"),
        ("titular.sexo", None, "REQ-001"),
        ("titular.nome_pai", "João", "REQ-003"),
        ("titular.estado_civil", "casado", "REQ-004"),
        ("endereco.cep", "01310-100", "REQ-003"),
        ("dados_bancarios.tipo_conta", "corrente", "REQ-004"),
        ("dados_bancarios.numero_conta", "56.789-0", "REQ-003"),
        ("dados_bancarios", ..., "REQ-001"),
        ("aceite.ip", "x", "REQ-003"),
        ("envio_link", "sms", "REQ-004"),
        ("identificador_parceiro", "x" * 65, "REQ-003"),
    ],
)
def test_a_field_of_the_proposal_that_is_wrong_is_400(
    imbuia: ImbuiaClient, simulator: HttpSimulator, path: str, value: Any, code: str
) -> None:
    answer = imbuia.submit(changed(imbuia.proposal(), path, value))
    assert code_of(answer) == (400, code)
    assert answer.json()["details"][0]["message"].startswith(f"{path}: ")
    assert simulator.contracts("imbuia") == []


@pytest.mark.parametrize(
    ("kind", "key", "status"),
    [
        ("CPF", FULL_FLOW, 201),
        ("CPF", STRANGER, 400),
        ("CELULAR", "11987654321", 201),
        ("CELULAR", "+5511987654321", 400),
        ("EMAIL", "maria@example.com", 201),
        ("EVP", "123e4567-e89b-42d3-a456-426614174000", 201),
        ("EVP", "123e4567", 400),
        ("ALEATORIA", "123e4567-e89b-42d3-a456-426614174000", 400),
    ],
)
def test_pix_keys(imbuia: ImbuiaClient, kind: str, key: str, status: int) -> None:
    body = changed(imbuia.proposal(), "dados_bancarios", ...) | {"chave_pix": {"tipo": kind, "chave": key}}
    assert imbuia.submit(body).status_code == status


def test_an_account_and_a_pix_key_at_once_are_refused(imbuia: ImbuiaClient) -> None:
    body = {**imbuia.proposal(), "chave_pix": {"tipo": "CPF", "chave": FULL_FLOW}}
    assert code_of(imbuia.submit(body)) == (400, "REQ-004")


def test_an_unknown_simulation_and_another_holders_are_refused(imbuia: ImbuiaClient) -> None:
    assert code_of(imbuia.submit({**imbuia.proposal(), "id_simulacao": "x"})) == (404, "SIM-004")
    assert code_of(imbuia.submit(changed(imbuia.proposal(), "titular.cpf", NO_OFFERS))) == (400, "REQ-004")


def test_a_channel_that_does_not_exist_is_400(imbuia: ImbuiaClient) -> None:
    number = imbuia.submit(imbuia.proposal()).json()["numero_proposta"]
    channel = {"envio_link": "EMAIL"}
    answer = imbuia.call("POST", f"/propostas/{number}/formalizacao", "formalizacao_v1", channel)
    assert code_of(answer) == (400, "REQ-004")


def test_unknown_proofs_and_proposals_are_404(imbuia: ImbuiaClient) -> None:
    assert code_of(imbuia.call("GET", "/biometrias/x", "biometria_v1")) == (404, "BIO-004")
    assert code_of(imbuia.call("GET", "/propostas/x", "proposta_v2")) == (404, "PRO-004")
    assert code_of(imbuia.call("POST", "/propostas/x/formalizacao", "formalizacao_v1", {})) == (404, "PRO-004")
