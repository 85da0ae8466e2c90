"""The dialect of the simulated bank peroba and its strictness, as its manual promises them."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from tests.providers.manuals import submission_body
from tests.simulator.http import HttpSimulator
from tests.simulator.ipe_client import changed

GATEWAY = {"X-Gateway-Key": "peroba-sandbox-gateway-key-not-a-secret"}
LOGIN = {"Usuario": "sandbox-originator", "Senha": "peroba-sandbox-password-not-a-secret"}
LOANS = "/peroba/ConsignadoPrivado"
FULL_FLOW, CHAT_PENDING, NO_OFFERS, IN_PROGRESS = "90000000175", "90000000337", "90000001309", "90000001490"

CLIENT: dict[str, Any] = {
    "Nome": "Maria da Silva",
    "Cpf": FULL_FLOW,
    "DataNascimento": "1985-03-14",
    "Genero": "M",
    "Email": "maria@example.com",
    "Celular": {"Ddd": "11", "Numero": "987654321"},
}
WISH: dict[str, Any] = {
    "Simulacao": {"ValorLiberado": None, "ValorParcela": None, "QuantidadeParcelas": None, "ComSeguro": True},
    "Carteira": None,
}
QUERY: dict[str, Any] = {
    "Cliente": CLIENT,
    "Aceite": {
        "EnderecoIp": "203.0.113.7",
        "DataHora": "2026-11-21T12:00:00Z",
        "Protocolo": None,
        "Latitude": "-23.55",
        "Longitude": "-46.63",
        "PrecisaoMetros": None,
        "Navegador": None,
        "Aparelho": None,
        "Plataforma": None,
    },
    **WISH,
}
SUBMISSION: dict[str, Any] = submission_body("peroba")


class PerobaClient:
    """A caller written from the manual. It takes a token at once."""

    def __init__(self, simulator: HttpSimulator) -> None:
        self.simulator = simulator
        token = simulator.post("/peroba/Acesso/Token", json=LOGIN, headers=GATEWAY).json()["Token"]
        self.headers = {**GATEWAY, "Authorization": f"Bearer {token}"}

    def post(self, path: str, body: Any) -> requests.Response:
        return self.simulator.post(LOANS + path, json=body, headers=self.headers)

    def get(self, path: str) -> requests.Response:
        return self.simulator.get(LOANS + path, headers=self.headers)

    def query(self, cpf: str = FULL_FLOW) -> requests.Response:
        return self.post("/Consultas", changed(QUERY, "Cliente.Cpf", cpf))

    def submission(self, cpf: str = FULL_FLOW) -> dict[str, Any]:
        key = self.query(cpf).json()["Simulacoes"][0]["CodigoSimulacao"]
        return changed({**SUBMISSION, "CodigoSimulacao": key}, "Cliente.Cpf", cpf)


@pytest.fixture
def peroba(simulator: HttpSimulator) -> PerobaClient:
    return PerobaClient(simulator)


def test_a_token_is_given_for_eight_hours(simulator: HttpSimulator) -> None:
    answer = simulator.post("/peroba/Acesso/Token", json=LOGIN, headers=GATEWAY)
    assert answer.status_code == 201
    assert answer.json() == {"Mensagem": None, "Token": answer.json()["Token"], "ValidadeMinutos": 480}


@pytest.mark.parametrize(
    ("login", "headers", "status", "sentence"),
    [
        ({**LOGIN, "Senha": "wrong"}, GATEWAY, 401, "Usuario ou senha invalidos."),
        ({**LOGIN, "Usuario": "wrong"}, GATEWAY, 401, "Usuario ou senha invalidos."),
        ({"Usuario": "x"}, GATEWAY, 400, "Senha: campo obrigatorio nao informado."),
        (LOGIN, {}, 403, "Chave do gateway invalida."),
        (LOGIN, {"X-Gateway-Key": b"\xe9"}, 403, "Chave do gateway invalida."),
    ],
)
def test_a_wrong_login_is_refused(
    simulator: HttpSimulator, login: Any, headers: Any, status: int, sentence: str
) -> None:
    answer = simulator.post("/peroba/Acesso/Token", json=login, headers=headers)
    assert (answer.status_code, answer.json()) == (status, {"Mensagem": sentence})


@pytest.mark.parametrize(
    ("missing", "status"), [("X-Gateway-Key", 403), ("Authorization", 401)], ids=["gateway", "bearer"]
)
def test_every_route_needs_both_headers(peroba: PerobaClient, missing: str, status: int) -> None:
    headers = {key: value for key, value in peroba.headers.items() if key != missing}
    for method, path in (
        ("POST", "/Consultas"),
        ("POST", "/Consultas/x"),
        ("POST", "/Propostas"),
        ("GET", "/Propostas?IdentificadorExterno=x"),
        ("GET", "/Propostas/x"),
        ("POST", "/Propostas/x/Formalizacao"),
    ):
        answer = peroba.simulator.request(method, LOANS + path, json={}, headers=headers)
        assert answer.status_code == status


def test_an_unknown_protocol_is_404(peroba: PerobaClient) -> None:
    answer = peroba.post("/Consultas/unknown", WISH)
    assert (answer.status_code, answer.json()) == (404, {"Mensagem": "Consulta nao encontrada."})


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("Cliente", ..., "Cliente: campo obrigatorio nao informado."),
        ("Cliente.Cpf", "900.000.001-75", "Cliente.Cpf: formato invalido."),
        ("Cliente.DataNascimento", "14/03/1985", "Cliente.DataNascimento: formato invalido."),
        ("Cliente.Genero", "F", "Cliente.Genero: valor nao permitido."),
        ("Cliente.Email", "maria", "Cliente.Email: formato invalido."),
        ("Cliente.Celular", "11987654321", "Cliente.Celular: tipo invalido."),
        ("Cliente.Celular.Ddd", "011", "Cliente.Celular.Ddd: formato invalido."),
        ("Aceite.EnderecoIp", "300.1.1.1", "Aceite.EnderecoIp: formato invalido."),
        ("Aceite.DataHora", "2026-11-21T12:00:00.000Z", "Aceite.DataHora: formato invalido."),
        ("Aceite.Latitude", -23.55, "Aceite.Latitude: tipo invalido."),
        ("Aceite.Latitude", "-90.01", "Aceite.Latitude: valor nao permitido."),
        ("Aceite.Navegador", ..., "Aceite.Navegador: campo obrigatorio nao informado."),
        ("Aceite.PrecisaoMetros", 10, "Aceite.PrecisaoMetros: tipo invalido."),
        ("Simulacao.ValorLiberado", 5000, "Simulacao.ValorLiberado: tipo invalido."),
        ("Simulacao.ValorLiberado", "5000", "Simulacao.ValorLiberado: formato invalido."),
        ("Simulacao.ValorParcela", "0.00", "Simulacao.ValorParcela: valor nao permitido."),
        ("Simulacao.QuantidadeParcelas", "24", "Simulacao.QuantidadeParcelas: tipo invalido."),
        ("Simulacao.ComSeguro", None, "Simulacao.ComSeguro: campo obrigatorio nao informado."),
        ("Carteira", ..., "Carteira: campo obrigatorio nao informado."),
    ],
)
def test_a_wrong_field_of_a_query_is_400_with_a_sentence(
    peroba: PerobaClient, path: str, value: Any, sentence: str
) -> None:
    answer = peroba.post("/Consultas", changed(QUERY, path, value))
    assert (answer.status_code, answer.json()) == (400, {"Mensagem": sentence})


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("IdentificadorExterno", "x" * 65, "IdentificadorExterno: formato invalido."),
        ("Cliente.Genero", None, "Cliente.Genero: campo obrigatorio nao informado."),
        ("Cliente.NomeMae", None, "Cliente.NomeMae: campo obrigatorio nao informado."),
        ("Cliente.NomePai", "João", "Cliente.NomePai: formato invalido."),
        ("Cliente.EstadoCivil", "casado", "Cliente.EstadoCivil: valor nao permitido."),
        ("Cliente.Endereco.Cep", "01310-100", "Cliente.Endereco.Cep: formato invalido."),
        ("Cliente.Endereco.Uf", "sp", "Cliente.Endereco.Uf: formato invalido."),
        ("Pagamento", ..., "Pagamento: campo obrigatorio nao informado."),
        ("Pagamento.Agencia", "1234-5", "Pagamento.Agencia: formato invalido."),
        ("Pagamento.DigitoConta", None, "Pagamento.DigitoConta: campo obrigatorio nao informado."),
        ("Pagamento.TipoConta", "corrente", "Pagamento.TipoConta: valor nao permitido."),
        ("Aceite.EnderecoIp", None, "Aceite.EnderecoIp: campo obrigatorio nao informado."),
        ("EnvioAssinatura", "sms", "EnvioAssinatura: valor nao permitido."),
    ],
)
def test_a_wrong_field_of_a_submission_is_400_and_creates_nothing(
    peroba: PerobaClient, path: str, value: Any, sentence: str
) -> None:
    answer = peroba.post("/Propostas", changed(peroba.submission(), path, value))
    assert (answer.status_code, answer.json()) == (400, {"Mensagem": sentence})
    assert peroba.simulator.contracts("peroba") == []


def test_a_body_of_another_kind_is_400(peroba: PerobaClient) -> None:
    answer = peroba.simulator.post(f"{LOANS}/Consultas", data={"Cpf": FULL_FLOW}, headers=peroba.headers)
    assert (answer.status_code, answer.json()) == (400, {"Mensagem": "Corpo: tipo invalido."})


def test_a_submission_without_authorization_is_202(peroba: PerobaClient) -> None:
    link = peroba.query(CHAT_PENDING).json()["Mensagem"]
    answer = peroba.post("/Propostas", changed(SUBMISSION, "Cliente.Cpf", CHAT_PENDING))
    assert (answer.status_code, answer.json()) == (202, {"Mensagem": link})
    assert peroba.simulator.contracts("peroba") == []


@pytest.mark.parametrize(
    ("path", "value", "status", "sentence"),
    [
        ("CodigoSimulacao", "unknown", 404, "Simulacao nao encontrada."),
        ("Cliente.Cpf", NO_OFFERS, 400, "Cliente.Cpf: valor nao permitido."),
    ],
)
def test_a_submission_has_to_name_the_holders_own_simulation(
    peroba: PerobaClient, path: str, value: str, status: int, sentence: str
) -> None:
    answer = peroba.post("/Propostas", changed(peroba.submission(), path, value))
    assert (answer.status_code, answer.json()) == (status, {"Mensagem": sentence})


@pytest.mark.parametrize("path", ["/Propostas/unknown", "/Propostas?IdentificadorExterno=unknown"])
def test_an_unknown_proposal_is_404(peroba: PerobaClient, path: str) -> None:
    answer = peroba.get(path)
    assert (answer.status_code, answer.json()) == (404, {"Mensagem": "Proposta nao encontrada."})
