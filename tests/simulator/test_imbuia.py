"""The dialect of the simulated bank imbuia, as its manual promises it."""

from typing import Any

import pytest

from tests.processes import Simulator
from tests.providers.samples import FULL_FLOW
from tests.simulator.dialect import FORMAT, MISSING, TYPE, VALUE, Caller, Dialect, authorizations

ACCOUNT = {"username": "parceiro-sandbox", "password": "imbuia-sandbox-secret-not-a-secret"}
CODES = {MISSING: "REQ-001", TYPE: "REQ-002", FORMAT: "REQ-003", VALUE: "REQ-004"}
VERSIONS = {"consultas": "consulta_v3", "propostas": "proposta_v2", "biometrias": "biometria_v1"}
VERSIONS |= {"simulacoes": "simulacao_v2", "formalizacao": "formalizacao_v1"}


def headers(token: str, call: str, raw: bytes) -> dict[str, str]:
    versions = [VERSIONS[part] for part in call.partition("?")[0].split("/") if part in VERSIONS]
    return {"Authorization": token, "Accept": f"application/vnd.imbuia.{versions[-1]}+json"}


def no(message: str, code: str, detail: str) -> dict[str, Any]:
    return {"message": message, "details": [{"code": code, "message": detail}]}


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


@pytest.mark.parametrize(("cpf", "outcome"), [("90000000256", "APROVADA"), ("90000002461", "REPROVADA")])
def test_liveness_ends_by_itself_15_s_after_the_query(
    simulator: Simulator, bank: Caller, cpf: str, outcome: str
) -> None:
    told = bank.query(cpf).json()["biometria"]
    for advance_s, state in ((14, "PENDENTE"), (1, outcome)):
        simulator.advance(advance_s)
        assert bank.call(f"GET /marketplace/biometrias/{told['id_biometria']}").json()["situacao"] == state
