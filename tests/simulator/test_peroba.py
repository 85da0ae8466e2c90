"""The dialect of the simulated bank peroba, as its manual promises it."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from tests.providers.manuals import query_body, submission_body
from tests.providers.samples import HOLDERS
from tests.simulator.dialect import FORMAT, MISSING, TYPE, VALUE, Caller, Dialect, Refusal
from tests.simulator.http import HttpSimulator

GATEWAY = {"X-Gateway-Key": "peroba-sandbox-gateway-key-not-a-secret"}
LOGIN = {"Usuario": "sandbox-originator", "Senha": "peroba-sandbox-password-not-a-secret"}
LOANS = "/ConsignadoPrivado"
CHAT_PENDING = HOLDERS["chat_pending"]
ROUTES = [
    f"POST {LOANS}/Consultas",
    f"POST {LOANS}/Consultas/x",
    f"POST {LOANS}/Propostas",
    f"GET {LOANS}/Propostas?IdentificadorExterno=x",
    f"GET {LOANS}/Propostas/x",
    f"POST {LOANS}/Propostas/x/Formalizacao",
]
WISH = {name: query_body("peroba")[name] for name in ("Simulacao", "Carteira")}


def no(sentence: str) -> dict[str, Any]:
    return {"Mensagem": sentence}


def fault(answer: requests.Response) -> Refusal:
    if answer.status_code < 300:
        return None
    assert answer.status_code == 400, answer.text
    [sentence] = answer.json().values()
    field, _, fault = sentence.removesuffix(".").partition(": ")
    return field, fault


UNKNOWN = no("Proposta nao encontrada.")
DIALECT = Dialect(
    name="peroba",
    login={"path": "/Acesso/Token", "json": LOGIN, "headers": GATEWAY},
    token=lambda body: body["Token"],
    granted=lambda body: {"Mensagem": None, "Token": body["Token"], "ValidadeMinutos": 480},
    granted_with=201,
    lifetime_s=480 * 60,
    wrong_logins=[
        ({"json": {**LOGIN, "Senha": "wrong"}}, 401, no("Usuario ou senha invalidos.")),
        ({"json": {**LOGIN, "Usuario": "wrong"}}, 401, no("Usuario ou senha invalidos.")),
        ({"json": {"Usuario": "x"}}, 400, no("Senha: campo obrigatorio nao informado.")),
        ({"headers": {}}, 403, no("Chave do gateway invalida.")),
        ({"headers": {"X-Gateway-Key": b"\xe9"}}, 403, no("Chave do gateway invalida.")),
    ],
    headers=lambda token, call, raw: {**GATEWAY, "Authorization": f"Bearer {token}"},
    bad_headers=[GATEWAY, {**GATEWAY, "Authorization": "Bearer wrong"}, {**GATEWAY, "Authorization": "{token}"}],
    routes=ROUTES,
    turned_away=(401, no("Token invalido ou expirado.")),
    query=f"POST {LOANS}/Consultas",
    submit=f"POST {LOANS}/Propostas",
    query_cpf="Cliente.Cpf",
    submit_cpf="Cliente.Cpf",
    simulation="CodigoSimulacao",
    offered=lambda caller, body: body["Simulacoes"][0]["CodigoSimulacao"],
    fault=fault,
    body="Corpo",
    no_bodies=[("application/x-www-form-urlencoded", b"Cpf=90000000175")],
    may_lack_in_query={"Cliente.Genero"},
    may_lack_in_submission={"Cliente.EstadoCivil", "Cliente.Nacionalidade"},
    query_faults=[
        ("Cliente", ..., MISSING),
        ("Cliente.Cpf", "900.000.001-75", FORMAT),
        ("Cliente.DataNascimento", "14/03/1985", FORMAT),
        ("Cliente.Genero", "F", VALUE),
        ("Cliente.Email", "maria", FORMAT),
        ("Cliente.Celular", "11987654321", TYPE),
        ("Cliente.Celular.Ddd", "011", FORMAT),
        ("Aceite.EnderecoIp", "300.1.1.1", FORMAT),
        ("Aceite.DataHora", "2026-11-21T12:00:00.000Z", FORMAT),
        ("Aceite.Latitude", "-90.01", VALUE),
        ("Aceite.Navegador", ..., MISSING),
        ("Aceite.PrecisaoMetros", 10, TYPE),
        ("Simulacao.ValorLiberado", 5000, TYPE),
        ("Simulacao.ValorLiberado", "5000", FORMAT),
        ("Simulacao.ValorParcela", "0.00", VALUE),
        ("Simulacao.QuantidadeParcelas", "24", TYPE),
        ("Simulacao.ComSeguro", None, MISSING),
        ("Carteira", ..., MISSING),
    ],
    submit_faults=[
        ("IdentificadorExterno", "x" * 65, FORMAT),
        ("Cliente.Genero", None, MISSING),
        ("Cliente.NomeMae", None, MISSING),
        ("Cliente.NomePai", "João", FORMAT),
        ("Cliente.EstadoCivil", "casado", VALUE),
        ("Cliente.Endereco.Cep", "01310-100", FORMAT),
        ("Cliente.Endereco.Uf", "sp", FORMAT),
        ("Pagamento", ..., MISSING),
        ("Pagamento.Agencia", "1234-5", FORMAT),
        ("Pagamento.DigitoConta", None, MISSING),
        ("Pagamento.TipoConta", "corrente", VALUE),
        ("Aceite.EnderecoIp", None, MISSING),
        ("EnvioAssinatura", "sms", VALUE),
    ],
    unknown=[
        (f"POST {LOANS}/Consultas/unknown", WISH, 404, no("Consulta nao encontrada.")),
        (f"GET {LOANS}/Propostas/unknown", None, 404, UNKNOWN),
        (f"GET {LOANS}/Propostas?IdentificadorExterno=unknown", None, 404, UNKNOWN),
    ],
    unknown_simulation=(404, no("Simulacao nao encontrada.")),
)


@pytest.fixture
def peroba(simulator: HttpSimulator) -> Caller:
    return Caller(simulator, DIALECT)


def test_every_route_needs_the_gateways_key_too(peroba: Caller) -> None:
    for call in ROUTES:
        answer = peroba.call(call, {}, {"Authorization": f"Bearer {peroba.token}"})
        assert (answer.status_code, answer.json()) == (403, no("Chave do gateway invalida."))


def test_a_submission_without_authorization_is_202(peroba: Caller) -> None:
    link = peroba.query(CHAT_PENDING).json()["Mensagem"]
    answer = peroba.submit(submission_body("peroba", {"Cliente.Cpf": CHAT_PENDING}))
    assert (answer.status_code, answer.json()) == (202, no(link))
    assert peroba.simulator.contracts("peroba") == []
