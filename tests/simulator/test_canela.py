"""The dialect of the simulated bank canela, as its manual promises it."""

from typing import Any

from tests.processes import Simulator
from tests.providers.manuals import submission_body
from tests.providers.samples import FULL_FLOW, HOLDERS
from tests.receiver import Receiver
from tests.simulator.dialect import VALUE, Caller, Dialect

SMS_PENDING = HOLDERS["sms_pending"]
ACCOUNT = {"login": "integracao.sandbox", "senha": "canela-sandbox-senha-nao-secreta"}
CREDIT = "tomador.dadosBancarios"
PIX_BESIDE_ACCOUNT = submission_body("canela")["tomador"]["dadosBancarios"] | {
    "formaCredito": 3,
    "tipoChavePixId": 1,
    "chavePix": FULL_FLOW,
}


def no(sentence: str) -> dict[str, Any]:
    return {"mensagem": sentence}


DIALECT = Dialect(
    name="canela",
    login={"path": "/login", "json": ACCOUNT},
    token=lambda body: body["token"],
    turned_away=(500, no("token invalido")),
    simulation="simulacaoId",
    offered=lambda caller, body: body["id"][0]["simulacaoId"],
    refusal=lambda field, fault: (422, {**no("dados invalidos"), "pendencias": [{"campo": field, "mensagem": fault}]}),
    may_lack_in_query=(
        "tomador.sexo consentimento.protocolo consentimento.geoLocalizacao consentimento.aplicativo "
        "consentimento.aplicativo.protocolo consentimento.aplicativo.geoLocalizacao"
    ),
    may_lack_in_submission="tomador.estadoCivil",
    submit_faults=[
        ("tomador.sexo", "F", VALUE),
        ("tomador.vinculoEmpregaticio.renda", 4500, VALUE),
        ("tomador.vinculoEmpregaticio.registroEmpregaticio", "100200", VALUE),
        (f"{CREDIT}.formaCredito", 4, VALUE),
        (f"{CREDIT}.chavePix", FULL_FLOW, VALUE),
        (CREDIT, {"formaCredito": 3, "tipoChavePixId": 2, "chavePix": "1"}, VALUE, f"{CREDIT}.tipoChavePixId"),
        (CREDIT, PIX_BESIDE_ACCOUNT, VALUE, f"{CREDIT}.codigoBanco"),
    ],
)


def test_a_token_serves_30_requests_a_minute_and_each_token_its_own(bank: Caller, simulator: Simulator) -> None:
    other = Caller(simulator, DIALECT)
    assert [bank.query().status_code for _ in range(30)] == [200] * 30
    refused = bank.query()
    assert (refused.status_code, refused.json()) == (429, no("limite de 30 requisicoes por minuto excedido"))
    assert refused.headers["Retry-After"] == "60"
    assert simulator.calls("canela", "query")[-1]["worked"] is False
    assert other.query().status_code == 200
    simulator.advance(61)
    assert bank.query().status_code == 200


def test_nothing_is_simulated_before_the_holder_said_yes(bank: Caller) -> None:
    path = f"/v5/autorizacoes/{bank.query(SMS_PENDING).json()['autorizacao']['autorizacaoId']}/simulacoes"
    wish = {"proposta": {"comSeguro": False, "quantidadeParcelas": 12}}
    assert bank.call(f"PUT {path}", wish).status_code == 403


def test_an_operation_before_any_query_names_no_authorization(bank: Caller) -> None:
    refused = bank.submit(submission_body("canela", {"tomador.cpf": SMS_PENDING, "simulacaoId": "x"}))
    assert (refused.status_code, refused.json()["autorizacao"]) == (403, None)


def test_an_sms_that_nobody_answered_is_not_called_back(calling: tuple[Simulator, Receiver]) -> None:
    simulator, service = calling
    Caller(simulator, DIALECT).query(SMS_PENDING)
    simulator.advance(72 * 3600 + 1)
    second = Caller(simulator, DIALECT).query(SMS_PENDING).json()["autorizacao"]["autorizacaoId"]
    simulator.complete(SMS_PENDING, "canela", "sms")
    [request] = service.wait_for(1)
    assert request.json()["autorizacaoId"] == second
    assert len(service.received) == 1
