"""The dialect of the simulated bank imbuia, as its manual promises it."""

import re
from typing import Any

import pytest
import requests

from tests.processes import Simulator
from tests.providers.samples import FULL_FLOW
from tests.receiver import Receiver, Reply
from tests.simulator.dialect import FORMAT, MISSING, TYPE, VALUE, Caller, Dialect, authorizations

BIOMETRIC = "90000000256"
ACCOUNT = {"username": "parceiro-sandbox", "password": "imbuia-sandbox-secret-not-a-secret"}
CODES = {MISSING: "REQ-001", TYPE: "REQ-002", FORMAT: "REQ-003", VALUE: "REQ-004"}
VERSIONS = {"consultas": "consulta_v3", "propostas": "proposta_v2", "biometrias": "biometria_v1"}
VERSIONS |= {"simulacoes": "simulacao_v2", "formalizacao": "formalizacao_v1"}


def version(call: str) -> str:
    """The media type that a call has to accept."""
    named = [VERSIONS[part] for part in call.partition("?")[0].split("/") if part in VERSIONS]
    return f"application/vnd.imbuia.{named[-1]}+json"


def headers(token: str, call: str, raw: bytes) -> dict[str, str]:
    return {"Authorization": token, "Accept": version(call)}


def no(message: str, code: str, detail: str) -> dict[str, Any]:
    return {"message": message, "details": [{"code": code, "message": detail}]}


def code_of(answer: requests.Response) -> tuple[int, str]:
    """The HTTP status and the bank's code of a refusal."""
    [detail] = answer.json()["details"]
    return answer.status_code, detail["code"]


DIALECT = Dialect(
    name="imbuia",
    login={"path": "/auth/token", "data": ACCOUNT},
    token=lambda body: body["access_token"],
    headers=headers,
    bad_headers=authorizations("wrong", "Bearer {token}"),
    turned_away=(401, no("Nao autorizado", "AUT-002", "token invalido ou expirado")),
    simulation="id_simulacao",
    offered=lambda caller, body: body["condicoes_credito"][0]["id_simulacao"],
    refusal=lambda field, fault: (400, no("Requisicao invalida", CODES[fault], f"{field}: {fault}")),
    may_lack_in_query=(
        "trabalhador.sexo aceite.identificador aceite.dispositivo aceite.dispositivo.agente_usuario "
        "aceite.aplicativo aceite.aplicativo.identificador"
    ),
    may_lack_in_submission="titular.estado_civil",
    submit_faults=[("chave_pix", {"tipo": "CPF", "chave": FULL_FLOW}, VALUE, "dados_bancarios")],
)


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/vnd.imbuia.consulta_v1+json"])
def test_every_route_wants_its_own_version(bank: Caller, accept: str) -> None:
    for call in DIALECT.routes():
        answer = bank.call(call, {}, {"Authorization": bank.token, "Accept": accept})
        assert code_of(answer) == (406, "VER-001")


def test_nothing_is_simulated_before_an_approved_proof(bank: Caller) -> None:
    proof = bank.query(BIOMETRIC).json()["biometria"]["id_biometria"]
    wish = {"simulacao": {"tipo": "POR_VALOR_MAXIMO", "com_seguro": True}}
    assert code_of(bank.call(f"POST /marketplace/biometrias/{proof}/simulacoes", wish)) == (403, "BIO-003")


@pytest.mark.parametrize(("cpf", "outcome"), [(BIOMETRIC, "APROVADA"), ("90000002461", "REPROVADA")])
def test_liveness_ends_by_itself_15_s_after_the_query_and_is_called_back_until_that_is_taken(
    calling: tuple[Simulator, Receiver], cpf: str, outcome: str
) -> None:
    """The link has neither the CPF nor the step's id, but 192 random bits."""
    simulator, service = calling
    answers = iter([Reply(500)])
    service.reply = lambda _: next(answers, Reply())
    bank = Caller(simulator, DIALECT)
    told = bank.query(cpf).json()["biometria"]
    assert re.fullmatch(rf"{simulator.url}/links/[\w-]{{32}}", told["link"])
    assert told["id_biometria"] not in told["link"]

    def state() -> str:
        return str(bank.call(f"GET /marketplace/biometrias/{told['id_biometria']}").json()["situacao"])

    simulator.advance(14)
    assert state() == "PENDENTE"
    simulator.advance(1)
    assert state() == outcome
    first, second = service.wait_for(2)
    assert first.body == second.body
    with pytest.raises(AssertionError, match="409"):
        simulator.complete(cpf, "imbuia", "liveness")
    assert state() == outcome
