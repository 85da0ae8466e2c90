"""The dialect of the simulated bank jatoba and its strictness, as its manual promises them."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest
import requests

from tests.providers.manuals import query_body, submission_body
from tests.simulator.http import HttpSimulator
from tests.simulator.ipe_client import FULL_FLOW, NO_OFFERS, TWO_EMPLOYERS, changed

USER = ("originador.sandbox", "jatoba-sandbox-senha-nao-secreta")
API_KEY = "jatoba-sandbox-apikey-nao-secreta"
TERM_KEY = b"jatoba-sandbox-chave-do-termo-nao-secreta"
SIMULATIONS = "/v1/consignado-privado/simulacoes"
PROPOSALS = "/v1/consignado-privado/propostas"

QUERY: dict[str, Any] = query_body("jatoba")
SUBMISSION: dict[str, Any] = submission_body("jatoba")
PIX = {"forma": "PIX", "tipoChave": "CPF", "chave": FULL_FLOW}


def signed(body: dict[str, Any]) -> dict[str, Any]:
    """The query with the signature that its term needs."""
    term = body["termo"]
    parts = (body["cliente"]["cpf"], *(term.get(name) for name in ("aceitoEm", "enderecoIp", "latitude", "longitude")))
    text = ";".join(part if isinstance(part, str) else "" for part in parts)
    return changed(body, "termo.assinatura", hmac.new(TERM_KEY, text.encode(), hashlib.sha256).hexdigest())


class Client:
    """A caller with a token, written from the manual."""

    def __init__(self, simulator: HttpSimulator) -> None:
        self.simulator = simulator
        self.token = self.log_in().json()["dados"]["token"]

    def log_in(self, user: tuple[str, str] = USER, api_key: str = API_KEY) -> requests.Response:
        return self.simulator.post("/jatoba/v1/tokens", auth=user, headers={"ApiKey": api_key})

    def send(self, method: str, path: str, body: Any = None, **kwargs: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}", "ApiKey": API_KEY}
        answer = self.simulator.request(method, f"/jatoba{path}", **{"json": body, "headers": headers, **kwargs})
        assert answer.status_code == 200
        return answer.json()

    def query(self, body: dict[str, Any] = QUERY) -> dict[str, Any]:
        return self.send("POST", SIMULATIONS, signed(body))

    def submission(self, cpf: str = FULL_FLOW) -> dict[str, Any]:
        offer = self.query(changed(QUERY, "cliente.cpf", cpf))["dados"]["ofertas"][0]
        return changed(changed(SUBMISSION, "idOferta", offer["idOferta"]), "proponente.cpf", cpf)

    def submit(self, body: dict[str, Any]) -> dict[str, Any]:
        return self.send("POST", PROPOSALS, body)


@pytest.fixture
def jatoba(simulator: HttpSimulator) -> Client:
    return Client(simulator)


def test_a_token_needs_the_password_and_the_api_key(jatoba: Client) -> None:
    granted = jatoba.log_in().json()
    assert len(granted["dados"].pop("token")) >= 32
    assert granted == {"sucesso": True, "codigo": "0", "mensagem": "", "dados": {"expiraEmSegundos": 1800}}
    for wrong in (jatoba.log_in(("originador.sandbox", "wrong")), jatoba.log_in(api_key="wrong")):
        assert (wrong.status_code, wrong.json()["codigo"], wrong.json()["sucesso"]) == (401, "2", False)


@pytest.mark.parametrize(
    "headers",
    [{}, {"ApiKey": API_KEY}, {"Authorization": "Bearer {token}"}, {"Authorization": "{token}", "ApiKey": API_KEY}],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", SIMULATIONS),
        ("POST", PROPOSALS),
        ("GET", f"{PROPOSALS}?identificadorParceiro=x"),
        ("GET", f"{PROPOSALS}/1"),
        ("POST", f"{PROPOSALS}/1/emissao"),
    ],
)
def test_every_route_needs_token_and_api_key(
    simulator: HttpSimulator, jatoba: Client, headers: dict[str, str], method: str, path: str
) -> None:
    filled = {name: value.format(token=jatoba.token) for name, value in headers.items()}
    answer = simulator.request(method, f"/jatoba{path}", json={}, headers=filled)
    assert answer.status_code == 401
    assert answer.json() == {"sucesso": False, "codigo": "1", "mensagem": "Token invalido ou expirado", "dados": None}


def test_a_token_ends_after_half_an_hour(simulator: HttpSimulator, jatoba: Client) -> None:
    simulator.advance(30 * 60 - 5)
    assert jatoba.query()["sucesso"] is True
    simulator.advance(10)
    headers = {"Authorization": f"Bearer {jatoba.token}", "ApiKey": API_KEY}
    assert simulator.post(f"/jatoba{SIMULATIONS}", json=signed(QUERY), headers=headers).status_code == 401


@pytest.mark.parametrize("name", ["latitude", "longitude"])
def test_a_term_without_geolocation_is_code_21(jatoba: Client, name: str) -> None:
    answer = jatoba.query(changed(QUERY, f"termo.{name}", None))
    assert (answer["codigo"], answer["dados"]) == ("21", None)


@pytest.mark.parametrize(
    ("path", "value"),
    [("cliente.cpf", NO_OFFERS), ("termo.aceitoEm", "21/11/2026 09:00:01"), ("termo.latitude", "-23.551")],
)
def test_what_was_changed_after_the_signature_is_code_22(jatoba: Client, path: str, value: str) -> None:
    answer = jatoba.send("POST", SIMULATIONS, changed(signed(QUERY), path, value))
    assert (answer["codigo"], answer["sucesso"]) == ("22", False)


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("cliente.cpf", "900.000.001-75", "12"),
        ("cliente.nome", "", "10"),
        ("cliente.dataNascimento", "1985-03-14", "12"),
        ("cliente.dataNascimento", "31/02/1985", "12"),
        ("cliente.dataNascimento", "1/3/1985", "12"),
        ("cliente.sexo", "F", "13"),
        ("cliente.sexo", 2, "11"),
        ("cliente.telefone.numero", "98765-4321", "12"),
        ("cliente.telefone", "11987654321", "11"),
        ("termo.aceitoEm", "21/11/2026", "12"),
        ("termo.enderecoIp", "localhost", "12"),
        ("termo.latitude", "-91", "13"),
        ("termo.latitude", -23.55, "11"),
        ("termo.idSessao", ..., "10"),
        ("termo.autorizacaoApp", {"id": "x"}, "10"),
        ("termo.assinatura", "x", "12"),
        ("simulacao.modalidade", "VALOR", "13"),
        ("simulacao.prazo", "48", "11"),
        ("simulacao.prazo", 0, "13"),
        ("simulacao.comSeguro", "S", "11"),
        ("codigoOrigem", 7, "11"),
    ],
)
def test_a_wrong_field_of_a_simulation_is_refused(jatoba: Client, path: str, value: Any, code: str) -> None:
    answer = jatoba.send("POST", SIMULATIONS, changed(signed(QUERY), path, value))
    assert (answer["sucesso"], answer["codigo"]) == (False, code)
    assert answer["mensagem"].startswith(path)


@pytest.mark.parametrize(
    ("value", "code"), [(None, "10"), (0, "13"), (-5, "13"), (1000.5, "11"), ("1000", "11"), (10**30, "13")]
)
def test_an_amount_is_whole_cents(jatoba: Client, value: Any, code: str) -> None:
    wish = {"modalidade": "VALOR_SOLICITADO", "valor": value, "prazo": 12, "comSeguro": True}
    answer = jatoba.query(changed(QUERY, "simulacao", wish))
    assert (answer["codigo"], answer["mensagem"].split(":")[0]) == (code, "simulacao.valor")


def test_a_body_that_is_no_json_is_refused(jatoba: Client) -> None:
    for sent in ({"json": None, "data": b"{"}, {"json": None, "data": {"cpf": FULL_FLOW}}, {"json": []}):
        assert jatoba.send("POST", SIMULATIONS, **sent)["mensagem"].startswith("corpo: ")


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("identificadorParceiro", "x" * 65, "12"),
        ("proponente.sexo", None, "10"),
        ("proponente.estadoCivil", "casado", "13"),
        ("proponente.nomeMae", None, "10"),
        ("proponente.nomePai", "José", "12"),
        ("proponente.endereco.cep", "01310-100", "12"),
        ("proponente.endereco.uf", "São Paulo", "12"),
        ("vinculo.matricula", None, "10"),
        ("vinculo.salario", 4500.5, "11"),
        ("vinculo.dataAdmissao", "2019-03-11", "12"),
        ("credito.forma", "TED", "13"),
        ("credito.banco", "1", "12"),
        ("credito.agencia", "1234-5", "12"),
        ("credito.conta", "56.789-0", "12"),
        ("credito.tipoConta", "corrente", "13"),
        ("aceite.enderecoIp", None, "10"),
        ("envioLink", "sms", "13"),
    ],
)
def test_a_wrong_field_of_a_submission_is_refused(
    simulator: HttpSimulator, jatoba: Client, path: str, value: Any, code: str
) -> None:
    answer = jatoba.submit(changed(jatoba.submission(), path, value))
    assert (answer["codigo"], answer["mensagem"].split(":")[0]) == (code, path)
    assert simulator.contracts("jatoba") == []


@pytest.mark.parametrize("kind", ["TELEFONE", "CELULAR"])
def test_a_phone_pix_key_is_code_31(jatoba: Client, kind: str) -> None:
    pix = {"forma": "PIX", "tipoChave": kind, "chave": "11987654321"}
    assert jatoba.submit(changed(jatoba.submission(), "credito", pix))["codigo"] == "31"


def test_a_cpf_pix_key_is_the_clients_own(jatoba: Client) -> None:
    assert jatoba.submit(changed(jatoba.submission(), "credito", {**PIX, "chave": NO_OFFERS}))["codigo"] == "13"
    assert jatoba.submit(changed(jatoba.submission(), "credito", PIX))["sucesso"] is True


def test_an_unknown_offer_is_code_42_and_anothers_is_refused(jatoba: Client) -> None:
    assert jatoba.submit(changed(jatoba.submission(), "idOferta", "unknown"))["codigo"] == "42"
    assert jatoba.submit(changed(jatoba.submission(), "proponente.cpf", TWO_EMPLOYERS))["codigo"] == "13"


def test_an_unknown_proposal_is_code_40_and_a_signed_one_41(simulator: HttpSimulator, jatoba: Client) -> None:
    nothing = {"envioLink": None}
    for answer in (
        jatoba.send("GET", f"{PROPOSALS}/1"),
        jatoba.send("GET", f"{PROPOSALS}?identificadorParceiro=unknown"),
        jatoba.send("POST", f"{PROPOSALS}/1/emissao", nothing),
    ):
        assert (answer["codigo"], answer["sucesso"]) == ("40", False)
    path = f"{PROPOSALS}/{jatoba.submit(jatoba.submission())['dados']['numeroProposta']}"
    jatoba.send("POST", f"{path}/emissao", nothing)
    simulator.complete(FULL_FLOW, "jatoba", "signature")
    assert jatoba.send("POST", f"{path}/emissao", nothing)["codigo"] == "41"
    assert jatoba.send("GET", path)["dados"]["situacao"] == "ASSINADA"


def test_an_app_authorization_may_say_nothing_but_has_to_say_so(jatoba: Client) -> None:
    names = (
        "id",
        "assinadaEm",
        "agenteUsuario",
        "sistemaOperacional",
        "modeloAparelho",
        "nomeAparelho",
        "tipoAparelho",
    )
    app = dict.fromkeys((*names, "latitude", "longitude"))
    assert jatoba.query(changed(QUERY, "termo.autorizacaoApp", app))["sucesso"] is True
    del app["nomeAparelho"]
    assert jatoba.query(changed(QUERY, "termo.autorizacaoApp", app))["codigo"] == "10"
