"""The dialect of the simulated bank canela, as its manual promises it."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from tests.providers.callbacks import simulator_calling
from tests.providers.manuals import RANDOM_KEY, submission_body
from tests.providers.samples import FULL_FLOW, HOLDERS, STRANGER
from tests.receiver import Receiver
from tests.simulator.dialect import FORMAT, MISSING, NO_BEARER, TYPE, VALUE, Caller, Dialect, Refusal, bearer
from tests.simulator.http import HttpSimulator

SMS_PENDING = HOLDERS["sms_pending"]
ACCOUNT = {"login": "integracao.sandbox", "senha": "canela-sandbox-senha-nao-secreta"}
CREDIT = "tomador.dadosBancarios"


def no(sentence: str) -> dict[str, Any]:
    return {"mensagem": sentence}


def fault(answer: requests.Response) -> Refusal:
    if answer.status_code < 300:
        return None
    body = answer.json()
    assert answer.status_code == 422, body
    [fault] = body.pop("pendencias")
    assert body == no("dados invalidos")
    return fault["campo"], fault["mensagem"]


DIALECT = Dialect(
    name="canela",
    login={"path": "/login", "json": ACCOUNT},
    token=lambda body: body["token"],
    granted=lambda body: {"token": body["token"], "expiraEm": 7200},
    lifetime_s=7200,
    wrong_logins=[({"json": {**ACCOUNT, wrong: "wrong"}}, 500, no("usuario ou senha invalidos")) for wrong in ACCOUNT],
    headers=bearer,
    bad_headers=NO_BEARER,
    routes=[
        "POST /v5/simulacoes/disponiveis",
        "GET /v5/autorizacoes/x",
        "PUT /v5/autorizacoes/x/simulacoes",
        "POST /v3/operacoes",
        "GET /v3/operacoes?identificadorExterno=x",
        "GET /v3/operacoes/x/detalhe",
        "POST /v3/operacoes/x/link-formalizacao",
    ],
    turned_away=(500, no("token invalido")),
    query="POST /v5/simulacoes/disponiveis",
    submit="POST /v3/operacoes",
    query_cpf="tomador.cpf",
    submit_cpf="tomador.cpf",
    simulation="simulacaoId",
    offered=lambda caller, body: body["id"][0]["simulacaoId"],
    fault=fault,
    body="corpo",
    no_bodies=[("application/x-www-form-urlencoded", b"a=1"), ("application/json", b"[]")],
    may_lack_in_query={"tomador.sexo", "consentimento.protocolo", "consentimento.aplicativo.protocolo"},
    may_lack_in_submission={"tomador.estadoCivil"},
    query_faults=[
        ("tomador.cpf", "900.000.001-75", FORMAT),
        ("tomador.dataNascimento", "1985-03-14", FORMAT),
        ("tomador.dataNascimento", "1985-03-14T00:00:00Z", FORMAT),
        ("tomador.dataNascimento", "1985-03-14T12:00:00-03:00", FORMAT),
        ("tomador.dataNascimento", "1985-02-30T00:00:00-03:00", FORMAT),
        ("tomador.sexo", "Feminino", VALUE),
        ("consentimento.dataHora", "2026-11-21T12:00:00", FORMAT),
        ("consentimento.ip", "localhost", FORMAT),
        ("consentimento.ip", None, MISSING),
        ("consentimento.deviceModel", 8, TYPE),
        ("consentimento.geoLocalizacao.longitude", 181, VALUE),
        ("consentimento.geoLocalizacao.precisao", -1, VALUE),
        ("proposta.valorSolicitado", "5000.00", TYPE),
        ("proposta.valorParcela", 200.555, FORMAT),
        ("proposta.quantidadeParcelas", 0, VALUE),
        ("carteiraId", 7, TYPE),
    ],
    submit_faults=[
        ("identificadorExterno", "x" * 65, FORMAT),
        ("tomador.sexo", "F", VALUE),
        ("tomador.nomePai", "João", FORMAT),
        ("tomador.estadoCivil", "casado", VALUE),
        ("tomador.vinculoEmpregaticio", ..., MISSING),
        ("tomador.vinculoEmpregaticio.cargo", None, MISSING),
        ("tomador.vinculoEmpregaticio.renda", 4500, VALUE),
        ("tomador.vinculoEmpregaticio.registroEmpregaticio", "100200", VALUE),
        ("tomador.endereco.cep", "01310-100", FORMAT),
        (f"{CREDIT}.formaCredito", 4, VALUE),
        (f"{CREDIT}.agencia", "1234-5", FORMAT),
        (f"{CREDIT}.chavePix", FULL_FLOW, VALUE),
        ("ip", "x", FORMAT),
        ("envioLink", "sms", VALUE),
    ],
    taken=[
        {"consentimento": {"dataHora": "2026-11-21T12:00:00+00:00", "ip": "2001:db8::1"}},
        {f"consentimento.{name}": None for name in ("protocolo", "geoLocalizacao", "aplicativo")},
    ],
    pix=lambda kind, key: {CREDIT: {"formaCredito": 3, "tipoChavePixId": kind, "chavePix": key}},
    pix_keys=[
        (1, FULL_FLOW, None),
        (1, STRANGER, (f"{CREDIT}.chavePix", VALUE)),
        (2, "11222333000181", (f"{CREDIT}.tipoChavePixId", VALUE)),
        (3, "maria@example.com", None),
        (4, "+5511987654321", None),
        (4, "11987654321", (f"{CREDIT}.chavePix", FORMAT)),
        (5, RANDOM_KEY, None),
        (5, "123e4567", (f"{CREDIT}.chavePix", FORMAT)),
        ("1", FULL_FLOW, (f"{CREDIT}.tipoChavePixId", TYPE)),
    ],
    unknown=[
        ("GET /v5/autorizacoes/x", None, 404, no("autorizacao nao encontrada")),
        ("GET /v3/operacoes/x/detalhe", None, 404, no("operacao nao encontrada")),
        ("POST /v3/operacoes/x/link-formalizacao", {}, 404, no("operacao nao encontrada")),
    ],
    unknown_simulation=(404, no("simulacao nao encontrada")),
)


@pytest.fixture
def canela(simulator: HttpSimulator) -> Caller:
    return Caller(simulator, DIALECT)


def test_a_token_serves_30_requests_a_minute_and_each_token_its_own(canela: Caller, simulator: HttpSimulator) -> None:
    other = Caller(simulator, DIALECT)
    assert [canela.query().status_code for _ in range(30)] == [200] * 30
    refused = canela.query()
    assert (refused.status_code, refused.json()) == (429, no("limite de 30 requisicoes por minuto excedido"))
    assert refused.headers["Retry-After"] == "60"
    assert simulator.calls("canela", "query")[-1]["worked"] is False
    assert other.query().status_code == 200
    simulator.advance(61)
    assert canela.query().status_code == 200


def test_nothing_is_simulated_before_the_holder_said_yes(canela: Caller) -> None:
    path = f"/v5/autorizacoes/{canela.query(SMS_PENDING).json()['autorizacao']['autorizacaoId']}/simulacoes"
    wish = {"proposta": {"comSeguro": False, "quantidadeParcelas": 12}}
    assert canela.call(f"PUT {path}", wish).status_code == 403


def test_an_sms_that_nobody_answered_is_not_called_back() -> None:
    with Receiver() as service, simulator_calling(service) as simulator:
        Caller(simulator, DIALECT).query(SMS_PENDING)
        simulator.advance(72 * 3600 + 1)
        second = Caller(simulator, DIALECT).query(SMS_PENDING).json()["autorizacao"]["autorizacaoId"]
        simulator.complete(SMS_PENDING, "canela", "sms")
        [request] = service.wait_for(1)
        assert request.json()["autorizacaoId"] == second
        assert len(service.received) == 1


def test_an_operation_without_the_holders_answer_is_403(canela: Caller) -> None:
    operation = submission_body("canela", {"tomador.cpf": SMS_PENDING, "simulacaoId": "x"})
    assert canela.submit(operation).json()["autorizacao"] is None
    reference = canela.query(SMS_PENDING).json()["autorizacao"]["autorizacaoId"]
    refused = canela.submit(operation)
    assert (refused.status_code, refused.json()["autorizacao"]["autorizacaoId"]) == (403, reference)
    assert canela.simulator.contracts("canela") == []


def test_a_pix_key_beside_an_account_is_refused(canela: Caller) -> None:
    account = submission_body("canela")["tomador"]["dadosBancarios"]
    both = {**account, "formaCredito": 3, "tipoChavePixId": 1, "chavePix": FULL_FLOW}
    assert fault(canela.submit(canela.submission({CREDIT: both}))) == (f"{CREDIT}.codigoBanco", VALUE)


def test_a_channel_that_does_not_exist_is_422(canela: Caller, simulator: HttpSimulator) -> None:
    number = canela.submit(canela.submission()).json()["operacaoId"]
    simulator.advance(3.1)
    answer = canela.call(f"POST /v3/operacoes/{number}/link-formalizacao", {"envioLink": "EMAIL"})
    assert fault(answer) == ("envioLink", VALUE)
