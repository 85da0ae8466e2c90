"""The dialect of the simulated bank canela and its strictness, as its manual promises them."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from tests.providers.callbacks import simulator_calling
from tests.providers.manuals import submission_body
from tests.receiver import Receiver
from tests.simulator.http import HttpSimulator
from tests.simulator.ipe_client import FULL_FLOW, NO_OFFERS, STRANGER, changed

SMS_PENDING = "90000000418"
ACCOUNT = {"login": "integracao.sandbox", "senha": "canela-sandbox-senha-nao-secreta"}
PERSON: dict[str, Any] = {
    "cpf": FULL_FLOW,
    "nome": "Maria da Silva",
    "dataNascimento": "1985-03-14T00:00:00-03:00",
    "email": "maria@example.com",
    "telefone": {"ddd": "11", "numero": "987654321"},
}
PLACE = {"latitude": -23.55, "longitude": -46.63, "precisao": None}
QUERY: dict[str, Any] = {
    "tomador": {**PERSON, "sexo": "F"},
    "consentimento": {
        "dataHora": "2026-11-21T09:00:00-03:00",
        "ip": "203.0.113.7",
        "protocolo": "session-1",
        "userAgent": None,
        "geoLocalizacao": PLACE,
        "aplicativo": {"protocolo": "app-1", "geoLocalizacao": {**PLACE}},
    },
    "proposta": {"valorSolicitado": None, "valorParcela": None, "quantidadeParcelas": None, "comSeguro": True},
    "carteiraId": None,
}
OPERATION: dict[str, Any] = submission_body("canela")
CREDIT = "tomador.dadosBancarios"


class CanelaClient:
    """Logs in at once and uses that token for every call."""

    def __init__(self, simulator: HttpSimulator) -> None:
        self.simulator = simulator
        self.token: str = self.login().json()["token"]

    def login(self, **changes: str) -> requests.Response:
        return self.simulator.post("/canela/login", json={**ACCOUNT, **changes})

    def call(self, method: str, path: str, body: Any = None) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return self.simulator.request(method, f"/canela{path}", json=body, headers=headers)

    def query(self, cpf: str = FULL_FLOW, **wish: Any) -> requests.Response:
        body = changed(QUERY, "tomador.cpf", cpf)
        body["proposta"].update(wish)
        return self.call("POST", "/v5/simulacoes/disponiveis", body)

    def submit(self, body: Any) -> requests.Response:
        return self.call("POST", "/v3/operacoes", body)

    def operation(self, cpf: str = FULL_FLOW) -> dict[str, Any]:
        """A valid submission of the first simulation of a fresh query."""
        simulation = self.query(cpf).json()["id"][0]["simulacaoId"]
        return changed(changed(OPERATION, "tomador.cpf", cpf), "simulacaoId", simulation)

    def formalize(self, operation: str, **body: str) -> requests.Response:
        return self.call("POST", f"/v3/operacoes/{operation}/link-formalizacao", body)


@pytest.fixture
def canela(simulator: HttpSimulator) -> CanelaClient:
    return CanelaClient(simulator)


def told(answer: requests.Response) -> tuple[int, dict[str, Any]]:
    return answer.status_code, answer.json()


# --- login and the limit of a token


def test_a_login_gives_a_token_for_two_hours(canela: CanelaClient, simulator: HttpSimulator) -> None:
    body = canela.login().json()
    assert len(body.pop("token")) >= 32
    assert body == {"expiraEm": 7200}
    simulator.advance(7201)
    assert told(canela.query()) == (500, {"mensagem": "token invalido"})


@pytest.mark.parametrize("changes", [{"login": "wrong"}, {"senha": "wrong"}])
def test_bad_credentials_are_500_and_not_401(canela: CanelaClient, changes: dict[str, str]) -> None:
    assert told(canela.login(**changes)) == (500, {"mensagem": "usuario ou senha invalidos"})


ROUTES = [
    ("POST", "/v5/simulacoes/disponiveis"),
    ("GET", "/v5/autorizacoes/x"),
    ("PUT", "/v5/autorizacoes/x/simulacoes"),
    ("POST", "/v3/operacoes"),
    ("GET", "/v3/operacoes?identificadorExterno=x"),
    ("GET", "/v3/operacoes/x/detalhe"),
    ("POST", "/v3/operacoes/x/link-formalizacao"),
]


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "{token}", "Basic {token}"])
def test_every_other_route_answers_500_without_a_good_token(canela: CanelaClient, authorization: str | None) -> None:
    headers = {"Authorization": authorization.format(token=canela.token)} if authorization else {}
    for method, path in ROUTES:
        answer = canela.simulator.request(method, f"/canela{path}", json={}, headers=headers)
        assert told(answer) == (500, {"mensagem": "token invalido"})
    assert not any(call["worked"] for call in canela.simulator.calls("canela") if call["operation"] != "token")


def test_a_token_serves_30_requests_a_minute_and_each_token_its_own(
    canela: CanelaClient, simulator: HttpSimulator
) -> None:
    other = CanelaClient(simulator)
    assert [canela.query().status_code for _ in range(30)] == [200] * 30
    refused = canela.query()
    assert told(refused) == (429, {"mensagem": "limite de 30 requisicoes por minuto excedido"})
    assert refused.headers["Retry-After"] == "60"
    assert simulator.calls("canela", "query")[-1]["worked"] is False
    assert other.query().status_code == 200
    simulator.advance(61)
    assert canela.query().status_code == 200


# --- simulation


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("tomador.cpf", "900.000.001-75", "formato invalido"),
        ("tomador.cpf", ..., "campo obrigatorio nao informado"),
        ("tomador.dataNascimento", "1985-03-14", "formato invalido"),
        ("tomador.dataNascimento", "1985-03-14T00:00:00Z", "formato invalido"),
        ("tomador.dataNascimento", "1985-03-14T12:00:00-03:00", "formato invalido"),
        ("tomador.dataNascimento", "1985-02-30T00:00:00-03:00", "formato invalido"),
        ("tomador.sexo", "Feminino", "valor nao permitido"),
        ("tomador.telefone.ddd", 11, "tipo invalido"),
        ("consentimento.dataHora", "2026-11-21T12:00:00", "formato invalido"),
        ("consentimento.ip", "localhost", "formato invalido"),
        ("consentimento.ip", None, "campo obrigatorio nao informado"),
        ("consentimento.deviceModel", 8, "tipo invalido"),
        ("consentimento.geoLocalizacao.latitude", "-23.55", "tipo invalido"),
        ("consentimento.geoLocalizacao.longitude", 181, "valor nao permitido"),
        ("consentimento.geoLocalizacao.precisao", -1, "valor nao permitido"),
        ("consentimento.aplicativo.geoLocalizacao.latitude", ..., "campo obrigatorio nao informado"),
        ("proposta.valorSolicitado", "5000.00", "tipo invalido"),
        ("proposta.valorParcela", 200.555, "formato invalido"),
        ("proposta.quantidadeParcelas", 0, "valor nao permitido"),
        ("proposta.comSeguro", ..., "campo obrigatorio nao informado"),
        ("carteiraId", 7, "tipo invalido"),
    ],
)
def test_a_field_of_the_simulation_that_is_wrong_is_422(
    canela: CanelaClient, path: str, value: Any, message: str
) -> None:
    answer = canela.call("POST", "/v5/simulacoes/disponiveis", changed(QUERY, path, value))
    fault = {"campo": path, "mensagem": message}
    assert told(answer) == (422, {"mensagem": "dados invalidos", "pendencias": [fault]})


def test_a_body_that_is_no_json_object_is_422(canela: CanelaClient) -> None:
    headers = {"Authorization": f"Bearer {canela.token}"}
    for body, media_type in ((b"a=1", "application/x-www-form-urlencoded"), (b"[]", "application/json")):
        answer = canela.simulator.post(
            "/canela/v5/simulacoes/disponiveis", data=body, headers={**headers, "Content-Type": media_type}
        )
        assert answer.status_code == 422
        assert answer.json()["pendencias"][0]["campo"] == "corpo"


def test_evidence_that_was_not_collected_is_null_or_left_out(canela: CanelaClient) -> None:
    for consent in (
        {"dataHora": "2026-11-21T12:00:00+00:00", "ip": "2001:db8::1"},
        {**QUERY["consentimento"], "protocolo": None, "geoLocalizacao": None, "aplicativo": None},
    ):
        answer = canela.call("POST", "/v5/simulacoes/disponiveis", {**QUERY, "consentimento": consent})
        assert answer.status_code == 200


# --- the SMS


# --- operations


def test_nothing_is_simulated_before_the_holder_said_yes(canela: CanelaClient) -> None:
    path = f"/v5/autorizacoes/{canela.query(SMS_PENDING).json()['autorizacao']['autorizacaoId']}"
    wish = {"proposta": {"comSeguro": False, "quantidadeParcelas": 12}}
    assert canela.call("PUT", f"{path}/simulacoes", wish).status_code == 403


def test_an_sms_that_nobody_answered_is_not_called_back() -> None:
    with Receiver() as service, simulator_calling(service) as simulator:
        CanelaClient(simulator).query(SMS_PENDING)
        simulator.advance(72 * 3600 + 1)
        canela = CanelaClient(simulator)
        second = canela.query(SMS_PENDING).json()["autorizacao"]["autorizacaoId"]
        simulator.complete(SMS_PENDING, "canela", "sms")
        [request] = service.wait_for(1)
        assert request.json()["autorizacaoId"] == second
        assert len(service.received) == 1


def test_an_operation_without_the_holders_answer_is_403(canela: CanelaClient) -> None:
    operation = changed(OPERATION, "tomador.cpf", SMS_PENDING) | {"simulacaoId": "x"}
    assert canela.submit(operation).json()["autorizacao"] is None
    reference = canela.query(SMS_PENDING).json()["autorizacao"]["autorizacaoId"]
    status, body = told(canela.submit(operation))
    assert (status, body["autorizacao"]["autorizacaoId"]) == (403, reference)
    assert canela.simulator.contracts("canela") == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("identificadorExterno", "x" * 65),
        ("tomador.sexo", "F"),
        ("tomador.nomePai", "João"),
        ("tomador.estadoCivil", "casado"),
        ("tomador.vinculoEmpregaticio", ...),
        ("tomador.vinculoEmpregaticio.cargo", None),
        ("tomador.vinculoEmpregaticio.nomeEmpregador", " "),
        ("tomador.vinculoEmpregaticio.renda", 4500),
        ("tomador.vinculoEmpregaticio.registroEmpregaticio", "100200"),
        ("tomador.endereco.cep", "01310-100"),
        (f"{CREDIT}.formaCredito", "2"),
        (f"{CREDIT}.formaCredito", 4),
        (f"{CREDIT}.agencia", "1234-5"),
        (f"{CREDIT}.conta", ...),
        (f"{CREDIT}.chavePix", FULL_FLOW),
        ("ip", "x"),
        ("envioLink", "sms"),
    ],
)
def test_a_field_of_the_operation_that_is_wrong_is_422(
    canela: CanelaClient, simulator: HttpSimulator, path: str, value: Any
) -> None:
    status, body = told(canela.submit(changed(canela.operation(), path, value)))
    assert (status, body["pendencias"][0]["campo"]) == (422, path)
    assert simulator.contracts("canela") == []


@pytest.mark.parametrize(
    ("kind", "key", "status"),
    [
        (1, FULL_FLOW, 201),
        (1, STRANGER, 422),
        (2, "11222333000181", 422),
        (3, "maria@example.com", 201),
        (4, "+5511987654321", 201),
        (4, "11987654321", 422),
        (5, "123e4567-e89b-42d3-a456-426614174000", 201),
        (5, "123e4567", 422),
        ("1", FULL_FLOW, 422),
    ],
)
def test_pix_keys(canela: CanelaClient, kind: Any, key: str, status: int) -> None:
    pix = {"formaCredito": 3, "tipoChavePixId": kind, "chavePix": key}
    assert canela.submit(changed(canela.operation(), CREDIT, pix)).status_code == status


def test_a_pix_key_beside_an_account_is_refused(canela: CanelaClient) -> None:
    both = {**OPERATION["tomador"]["dadosBancarios"], "formaCredito": 3, "tipoChavePixId": 1, "chavePix": FULL_FLOW}
    status, body = told(canela.submit(changed(canela.operation(), CREDIT, both)))
    assert (status, body["pendencias"][0]["campo"]) == (422, f"{CREDIT}.codigoBanco")


def test_an_unknown_simulation_and_another_holders_are_refused(canela: CanelaClient) -> None:
    unknown = canela.submit({**canela.operation(), "simulacaoId": "x"})
    assert told(unknown) == (404, {"mensagem": "simulacao nao encontrada"})
    assert canela.submit(changed(canela.operation(), "tomador.cpf", NO_OFFERS)).status_code == 422


def test_a_channel_that_does_not_exist_is_422(canela: CanelaClient, simulator: HttpSimulator) -> None:
    number = canela.submit(canela.operation()).json()["operacaoId"]
    simulator.advance(3.1)
    assert canela.formalize(number, envioLink="EMAIL").status_code == 422


def test_unknown_authorizations_and_operations_are_404(canela: CanelaClient) -> None:
    assert told(canela.call("GET", "/v5/autorizacoes/x")) == (404, {"mensagem": "autorizacao nao encontrada"})
    assert told(canela.call("GET", "/v3/operacoes/x/detalhe")) == (404, {"mensagem": "operacao nao encontrada"})
    assert canela.formalize("x").status_code == 404
