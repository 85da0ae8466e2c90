"""The dialect of the simulated bank canela and its strictness, as its manual promises them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import requests

from tests.providers.callbacks import simulator_calling
from tests.providers.simulator.http import HttpSimulator
from tests.providers.simulator.ipe_client import FULL_FLOW, IN_PROGRESS, NO_OFFERS, STRANGER, changed
from tests.receiver import Received, Receiver, Reply

SMS_PENDING = "90000000418"
DESK_REFUSED = "90000002038"
ACCOUNT = {"login": "integracao.sandbox", "senha": "canela-sandbox-senha-nao-secreta"}
CALLBACK_SECRET = b"canela-callback-segredo-nao-secreto"
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
OPERATION: dict[str, Any] = {
    "identificadorExterno": "reference-1",
    "simulacaoId": "",
    "tomador": {
        **PERSON,
        "sexo": "Feminino",
        "nomeMae": "Ana da Silva",
        "nomePai": None,
        "estadoCivil": "Casado(a)",
        "vinculoEmpregaticio": {"cargo": "Operador de Produção", "nomeEmpregador": "Metalúrgica Aurora Ltda"},
        "endereco": {
            "cep": "01310100",
            "rua": "Avenida Paulista",
            "numero": "1000",
            "complemento": None,
            "bairro": "Bela Vista",
            "cidade": "São Paulo",
            "estado": "SP",
        },
        "dadosBancarios": {
            "formaCredito": 2,
            "codigoBanco": "001",
            "agencia": "1234",
            "digitoAgencia": None,
            "conta": "567890",
            "digitoConta": "1",
        },
    },
    "ip": "203.0.113.7",
    "envioLink": None,
}
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

    def situation(self, operation: str) -> str:
        return self.call("GET", f"/v3/operacoes/{operation}/detalhe").json()["situacao"]  # type: ignore[no-any-return]

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


def test_a_simulation_answers_a_list_under_the_key_id(canela: CanelaClient) -> None:
    body = canela.query().json(parse_float=Decimal)
    assert body.keys() == {"id"}
    plain, insured = body["id"]
    for simulation in (plain, insured):
        assert len(simulation.pop("simulacaoId")) == 36
        assert simulation.pop("primeiroVencimento").endswith("-07T00:00:00-03:00")
    common = {
        "valorLiquido": Decimal("11200.00"),
        "quantidadeParcelas": 48,
        "taxa": Decimal("2.09"),
        "vinculo": {
            "registroEmpregaticio": "100200",
            "cnpjEmpregador": "11222333000181",
            "nomeEmpregador": "Metalúrgica Aurora Ltda",
            "cargo": "Operador de Produção",
            "dataAdmissao": "2019-03-11T00:00:00-03:00",
        },
    }
    assert plain == common | {
        "tabelaId": "CNL-4810",
        "seguro": False,
        "valorParcela": Decimal("467.41"),
        "valorTotal": Decimal("22435.68"),
        "cet": Decimal("2.09"),
    }
    assert insured == common | {
        "tabelaId": "CNL-4811",
        "seguro": True,
        "valorParcela": Decimal("476.76"),
        "valorTotal": Decimal("22884.48"),
        "cet": Decimal("2.17"),
    }


@pytest.mark.parametrize(
    ("cpf", "reason"),
    [(NO_OFFERS, "margem consignavel insuficiente"), (STRANGER, "cliente sem oferta disponivel")],
)
def test_who_is_not_eligible_is_400_with_the_reason(canela: CanelaClient, cpf: str, reason: str) -> None:
    assert told(canela.query(cpf)) == (400, {"mensagem": reason, "motivo": "SEM_OFERTA"})


def test_a_simulation_by_amount_and_by_installment(canela: CanelaClient) -> None:
    [found] = canela.query(valorSolicitado=5000.5, valorParcela=1, quantidadeParcelas=13, comSeguro=False).json()["id"]
    assert (found["valorLiquido"], found["quantidadeParcelas"]) == (5000.5, 12)
    for found in canela.query(valorParcela=200, quantidadeParcelas=24).json()["id"]:
        assert abs(found["valorParcela"] - 200) <= 0.011


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


def test_a_holder_who_is_not_known_gets_one_sms_and_no_link(canela: CanelaClient, simulator: HttpSimulator) -> None:
    status, body = told(canela.query(SMS_PENDING))
    authorization = body.pop("autorizacao")
    assert (status, body) == (403, {"mensagem": "consulta nao autorizada pelo titular"})
    assert authorization.keys() == {"autorizacaoId", "situacao", "validade"}
    assert authorization["situacao"] == "ENVIADA"
    left = datetime.fromisoformat(authorization["validade"]) - datetime.now(UTC)
    assert timedelta(hours=71) < left <= timedelta(hours=72)
    assert canela.query(SMS_PENDING).json()["autorizacao"] == authorization
    assert told(canela.call("GET", f"/v5/autorizacoes/{authorization['autorizacaoId']}")) == (200, authorization)
    phone = simulator.get(f"/phone/{SMS_PENDING}").text
    assert phone.count('class="message sms"') == 1
    assert "/links/" not in phone.partition('id="messages"')[2]
    assert [call["cpf"] for call in simulator.calls("canela", "poll")] == [SMS_PENDING]


def test_simulations_come_only_after_the_holder_said_yes(canela: CanelaClient, simulator: HttpSimulator) -> None:
    path = f"/v5/autorizacoes/{canela.query(SMS_PENDING).json()['autorizacao']['autorizacaoId']}"
    wish = {"proposta": {"comSeguro": False, "quantidadeParcelas": 12}}
    assert canela.call("PUT", f"{path}/simulacoes", wish).status_code == 403
    simulator.complete(SMS_PENDING, "canela", "sms")
    assert canela.call("GET", path).json()["situacao"] == "AUTORIZADA"
    [found] = canela.call("PUT", f"{path}/simulacoes", wish).json()["id"]
    assert found["quantidadeParcelas"] == 12
    assert canela.query(SMS_PENDING).status_code == 200
    assert simulator.get(f"/phone/{SMS_PENDING}").text.count('class="message sms"') == 1


@pytest.mark.parametrize("word", ["NEGADA", "VENCIDA"])
def test_a_refused_or_expired_one_stays_so_and_the_next_query_sends_another(
    canela: CanelaClient, simulator: HttpSimulator, word: str
) -> None:
    first = canela.query(SMS_PENDING).json()["autorizacao"]["autorizacaoId"]
    if word == "NEGADA":
        simulator.complete(SMS_PENDING, "canela", "sms", "refused")
    else:
        simulator.advance(72 * 3600 + 1)
        canela = CanelaClient(simulator)
    assert canela.call("GET", f"/v5/autorizacoes/{first}").json()["situacao"] == word
    assert simulator.get(f"/phone/{SMS_PENDING}").text.count('class="message sms"') == 1
    second = canela.query(SMS_PENDING).json()["autorizacao"]
    assert (second["situacao"], second["autorizacaoId"] != first) == ("ENVIADA", True)
    assert simulator.get(f"/phone/{SMS_PENDING}").text.count('class="message sms"') == 2


def signature(request: Received) -> str:
    """What the manual says that the header has to be."""
    moment = request.json()["dataHora"]
    digest = hmac.new(CALLBACK_SECRET, f"{moment}\n".encode() + request.body, hashlib.sha512).digest()
    return f"t={moment}, v={base64.b64encode(digest).decode()}"


def test_the_answer_to_the_sms_is_told_by_a_signed_callback_until_it_is_taken() -> None:
    replies = iter((Reply(503), Reply(204), Reply(204)))
    with Receiver(lambda _: next(replies)) as service, simulator_calling(service) as simulator:
        canela = CanelaClient(simulator)
        approved = canela.query(SMS_PENDING).json()["autorizacao"]["autorizacaoId"]
        simulator.complete(SMS_PENDING, "canela", "sms")
        first, repeated = service.wait_for(2)
        simulator.reset()
        canela = CanelaClient(simulator)
        refused = canela.query(SMS_PENDING).json()["autorizacao"]["autorizacaoId"]
        simulator.complete(SMS_PENDING, "canela", "sms", "refused")
        last = service.wait_for(3)[2]
    assert (first.path, first.headers["content-type"]) == ("/partners/v1/bank-callbacks/canela", "application/json")
    assert first.json().keys() == {"aviso", "dataHora", "autorizacaoId", "situacao"}
    for request, reference, word in ((first, approved, "AUTORIZADA"), (last, refused, "NEGADA")):
        body = request.json()
        assert (body["aviso"], body["autorizacaoId"], body["situacao"]) == ("SMS_RESPONDIDO", reference, word)
        assert request.headers["canela-assinatura"] == signature(request)
        assert abs(datetime.fromisoformat(body["dataHora"]) - datetime.now(UTC)) < timedelta(seconds=60)
    assert (repeated.body, repeated.headers["canela-assinatura"]) == (first.body, signature(first))


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


# --- operations


def test_an_operation_without_the_holders_answer_is_403(canela: CanelaClient) -> None:
    operation = changed(OPERATION, "tomador.cpf", SMS_PENDING) | {"simulacaoId": "x"}
    assert canela.submit(operation).json()["autorizacao"] is None
    reference = canela.query(SMS_PENDING).json()["autorizacao"]["autorizacaoId"]
    status, body = told(canela.submit(operation))
    assert (status, body["autorizacao"]["autorizacaoId"]) == (403, reference)
    assert canela.simulator.contracts("canela") == []


def test_an_operation_is_created_once_per_reference(canela: CanelaClient, simulator: HttpSimulator) -> None:
    first = canela.submit(canela.operation())
    assert first.status_code == 201
    body = first.json()
    assert body.keys() == {"operacaoId", "identificadorExterno", "situacao", "dataCriacao", "formalizacao"}
    assert (body["situacao"], body["identificadorExterno"], body["formalizacao"]) == (
        "Em mesa de crédito",
        "reference-1",
        None,
    )
    assert body["dataCriacao"].endswith("-03:00")
    assert canela.submit(canela.operation()).json() == body
    assert canela.call("GET", "/v3/operacoes?identificadorExterno=reference-1").json() == {"id": [body]}
    assert canela.call("GET", "/v3/operacoes?identificadorExterno=x").json() == {"id": []}
    assert len(simulator.contracts("canela")) == 1


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


def test_a_contract_in_progress_is_400_with_a_sentence(canela: CanelaClient) -> None:
    refused = {"mensagem": "Ja existe contrato em andamento para este cliente.", "motivo": "POLITICA"}
    assert told(canela.submit(canela.operation(IN_PROGRESS))) == (400, refused)


def test_the_desk_approves_after_three_seconds_and_only_then_there_is_a_link(
    canela: CanelaClient, simulator: HttpSimulator
) -> None:
    number = canela.submit(canela.operation()).json()["operacaoId"]
    assert told(canela.formalize(number)) == (409, {"mensagem": "operacao nao permitida: Em mesa de crédito"})
    simulator.advance(3.1)
    assert canela.call("GET", f"/v3/operacoes/{number}/detalhe").json()["formalizacao"] is None
    issued = canela.formalize(number, envioLink="SMS").json()
    assert issued["situacao"] == "Pendente de assinatura"
    assert issued["formalizacao"].keys() == {"link", "validade"}
    assert canela.formalize(number).json() == issued
    assert issued["formalizacao"]["link"] in simulator.get(f"/phone/{FULL_FLOW}").text
    assert canela.formalize(number, envioLink="EMAIL").status_code == 422
    simulator.complete(FULL_FLOW, "canela", "signature")
    assert canela.situation(number) == "Em averbação"
    simulator.advance(5)
    assert canela.situation(number) == "Creditada"
    assert canela.formalize(number).status_code == 409


def test_a_desk_that_refuses(canela: CanelaClient, simulator: HttpSimulator) -> None:
    number = canela.submit(canela.operation(DESK_REFUSED)).json()["operacaoId"]
    simulator.advance(3.1)
    assert canela.situation(number) == "Negada"
    assert canela.formalize(number).status_code == 409


def test_unknown_authorizations_and_operations_are_404(canela: CanelaClient) -> None:
    assert told(canela.call("GET", "/v5/autorizacoes/x")) == (404, {"mensagem": "autorizacao nao encontrada"})
    assert told(canela.call("GET", "/v3/operacoes/x/detalhe")) == (404, {"mensagem": "operacao nao encontrada"})
    assert canela.formalize("x").status_code == 404
