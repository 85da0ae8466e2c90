"""The dialect of the simulated bank imbuia, as its manual promises it."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from tests.providers.manuals import RANDOM_KEY, submission_body
from tests.providers.samples import FULL_FLOW, STRANGER
from tests.simulator.dialect import FORMAT, MISSING, TYPE, VALUE, Caller, Dialect, Refusal, authorizations
from tests.simulator.http import HttpSimulator

BIOMETRIC = "90000000256"
ACCOUNT = {"username": "parceiro-sandbox", "password": "imbuia-sandbox-secret-not-a-secret"}
CODES = {"REQ-001": MISSING, "REQ-002": TYPE, "REQ-003": FORMAT, "REQ-004": VALUE}
VERSIONS = {"consultas": "consulta_v3", "propostas": "proposta_v2", "biometrias": "biometria_v1"}
VERSIONS |= {"simulacoes": "simulacao_v2", "formalizacao": "formalizacao_v1"}
ROUTES = [
    "POST /marketplace/consultas",
    "GET /marketplace/biometrias/x",
    "POST /marketplace/biometrias/x/simulacoes",
    "POST /marketplace/propostas",
    "GET /marketplace/propostas?identificador_parceiro=x",
    "GET /marketplace/propostas/x",
    "POST /marketplace/propostas/x/formalizacao",
]


def version(call: str) -> str:
    """The media type that a call has to accept."""
    named = [VERSIONS[part] for part in call.partition("?")[0].split("/") if part in VERSIONS]
    return f"application/vnd.imbuia.{named[-1]}+json"


def headers(token: str, call: str, raw: bytes) -> dict[str, str]:
    return {"Authorization": token, "Accept": version(call)}


def no(message: str, code: str, detail: str) -> dict[str, Any]:
    return {"message": message, "details": [{"code": code, "message": detail}]}


def fault(answer: requests.Response) -> Refusal:
    if answer.status_code < 300:
        return None
    body = answer.json()
    assert answer.status_code == 400
    assert body.keys() == {"message", "details"}
    [detail] = body["details"]
    return detail["message"].partition(": ")[0], CODES[detail["code"]]


def code_of(answer: requests.Response) -> tuple[int, str]:
    """The HTTP status and the bank's code of a refusal."""
    [detail] = answer.json()["details"]
    return answer.status_code, detail["code"]


DIALECT = Dialect(
    name="imbuia",
    login={"path": "/auth/token", "data": ACCOUNT},
    token=lambda body: body["access_token"],
    granted=lambda body: {"access_token": body["access_token"], "expires_in_seconds": 1199},
    lifetime_s=1199,
    wrong_logins=[
        ({"data": {**ACCOUNT, wrong: "wrong"}}, 401, no("Nao autorizado", "AUT-001", "usuario ou senha invalidos"))
        for wrong in ACCOUNT
    ],
    headers=headers,
    bad_headers=authorizations("wrong", "Bearer {token}"),
    routes=ROUTES,
    turned_away=(401, no("Nao autorizado", "AUT-002", "token invalido ou expirado")),
    query="POST /marketplace/consultas",
    submit="POST /marketplace/propostas",
    query_cpf="trabalhador.cpf",
    submit_cpf="titular.cpf",
    simulation="id_simulacao",
    offered=lambda caller, body: body["condicoes_credito"][0]["id_simulacao"],
    fault=fault,
    body="corpo",
    no_bodies=[("application/x-www-form-urlencoded", b"a=1"), ("application/json", b"[]")],
    may_lack_in_query={
        "trabalhador.sexo",
        "aceite.identificador",
        "aceite.dispositivo.agente_usuario",
        "aceite.aplicativo.identificador",
    },
    may_lack_in_submission={"titular.estado_civil"},
    query_faults=[
        ("trabalhador.cpf", "900.000.001-75", FORMAT),
        ("trabalhador.data_nascimento", "14/03/1985", FORMAT),
        ("trabalhador.sexo", "F", VALUE),
        ("aceite.data_hora", "2026-11-21 12:00:00", FORMAT),
        ("aceite.ip", "localhost", FORMAT),
        ("aceite.localizacao", None, MISSING),
        ("aceite.localizacao.situacao", "NEGADA", VALUE),
        ("aceite.localizacao.longitude", 181, VALUE),
        ("aceite.dispositivo.modelo", 8, TYPE),
        ("simulacao.tipo", "MAXIMO", VALUE),
        ("simulacao.valor", 100, VALUE),
        ("simulacao.prazo", "24", TYPE),
        ("simulacao.prazo", 0, VALUE),
    ],
    submit_faults=[
        ("titular.naturalidade", ..., MISSING),
        ("titular.naturalidade.cidade", None, MISSING),
        ("titular.naturalidade.uf", "São Paulo", FORMAT),
        ("titular.sexo", None, MISSING),
        ("titular.nome_pai", "João", FORMAT),
        ("titular.estado_civil", "casado", VALUE),
        ("endereco.cep", "01310-100", FORMAT),
        ("dados_bancarios.tipo_conta", "corrente", VALUE),
        ("dados_bancarios.numero_conta", "56.789-0", FORMAT),
        ("dados_bancarios", ..., MISSING),
        ("aceite.ip", "x", FORMAT),
        ("envio_link", "sms", VALUE),
        ("identificador_parceiro", "x" * 65, FORMAT),
        ("chave_pix", {"tipo": "CPF", "chave": FULL_FLOW}, VALUE, "dados_bancarios"),
    ],
    taken=[
        {
            "aceite": {
                "data_hora": "2026-11-21T12:00:00Z",
                "ip": "2001:db8::1",
                "localizacao": {"situacao": "NAO_COLETADA"},
            }
        }
    ],
    pix=lambda kind, key: {"dados_bancarios": ..., "chave_pix": {"tipo": kind, "chave": key}},
    pix_keys=[
        ("CPF", FULL_FLOW, None),
        ("CPF", STRANGER, ("chave_pix.chave", VALUE)),
        ("CELULAR", "11987654321", None),
        ("CELULAR", "+5511987654321", ("chave_pix.chave", FORMAT)),
        ("EMAIL", "maria@example.com", None),
        ("EVP", RANDOM_KEY, None),
        ("EVP", "123e4567", ("chave_pix.chave", FORMAT)),
        ("ALEATORIA", RANDOM_KEY, ("chave_pix.tipo", VALUE)),
    ],
    unknown=[
        (
            "GET /marketplace/biometrias/x",
            None,
            404,
            no("Recurso nao encontrado", "BIO-004", "biometria nao encontrada"),
        ),
        ("GET /marketplace/propostas/x", None, 404, no("Recurso nao encontrado", "PRO-004", "proposta nao encontrada")),
        (
            "POST /marketplace/propostas/x/formalizacao",
            {},
            404,
            no("Recurso nao encontrado", "PRO-004", "proposta nao encontrada"),
        ),
    ],
    unknown_simulation=(404, no("Recurso nao encontrado", "SIM-004", "simulacao nao encontrada")),
)


@pytest.fixture
def imbuia(simulator: HttpSimulator) -> Caller:
    return Caller(simulator, DIALECT)


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/vnd.imbuia.consulta_v1+json"])
def test_every_route_wants_its_own_version(imbuia: Caller, accept: str) -> None:
    for call in ROUTES:
        answer = imbuia.call(call, {}, {"Authorization": imbuia.token, "Accept": accept})
        assert code_of(answer) == (406, "VER-001")


def test_nothing_is_simulated_before_an_approved_proof(imbuia: Caller) -> None:
    proof = imbuia.query(BIOMETRIC).json()["biometria"]["id_biometria"]
    wish = {"simulacao": {"tipo": "POR_VALOR_MAXIMO", "com_seguro": True}}
    assert code_of(imbuia.call(f"POST /marketplace/biometrias/{proof}/simulacoes", wish)) == (403, "BIO-003")


def test_a_proposal_without_the_proof_is_403(imbuia: Caller) -> None:
    imbuia.query(BIOMETRIC)
    answer = imbuia.submit(submission_body("imbuia", {"titular.cpf": BIOMETRIC, "id_simulacao": "x"}))
    assert code_of(answer) == (403, "BIO-003")


def test_a_channel_that_does_not_exist_is_400(imbuia: Caller) -> None:
    number = imbuia.submit(imbuia.submission()).json()["numero_proposta"]
    answer = imbuia.call(f"POST /marketplace/propostas/{number}/formalizacao", {"envio_link": "EMAIL"})
    assert code_of(answer) == (400, "REQ-004")
