"""The dialect of the simulated bank peroba, as its manual promises it."""

from __future__ import annotations

from typing import Any

import requests

from tests.simulator.dialect import Caller, Dialect, Refusal

GATEWAY = {"X-Gateway-Key": "peroba-sandbox-gateway-key-not-a-secret"}
LOGIN = {"Usuario": "sandbox-originator", "Senha": "peroba-sandbox-password-not-a-secret"}
LOANS = "/ConsignadoPrivado"


def no(sentence: str) -> dict[str, Any]:
    return {"Mensagem": sentence}


def fault(answer: requests.Response) -> Refusal:
    if answer.status_code < 300:
        return None
    assert answer.status_code == 400, answer.text
    [sentence] = answer.json().values()
    field, _, fault = sentence.removesuffix(".").partition(": ")
    return field, fault


DIALECT = Dialect(
    name="peroba",
    login={"path": "/Acesso/Token", "json": LOGIN, "headers": GATEWAY},
    token=lambda body: body["Token"],
    told_lifetime_s=lambda body: 60 * body["ValidadeMinutos"],
    lifetime_s=480 * 60,
    wrong_logins=[
        ({"json": {"Usuario": "x"}}, 400, no("Senha: campo obrigatorio nao informado.")),
        ({"headers": {}}, 403, no("Chave do gateway invalida.")),
        ({"headers": {"X-Gateway-Key": b"\xe9"}}, 403, no("Chave do gateway invalida.")),
    ],
    headers=lambda token, call, raw: {**GATEWAY, "Authorization": f"Bearer {token}"},
    bad_headers=[GATEWAY, {**GATEWAY, "Authorization": "Bearer wrong"}, {**GATEWAY, "Authorization": "{token}"}],
    turned_away=(401, no("Token invalido ou expirado.")),
    query=f"POST {LOANS}/Consultas",
    submit=f"POST {LOANS}/Propostas",
    simulation="CodigoSimulacao",
    offered=lambda caller, body: body["Simulacoes"][0]["CodigoSimulacao"],
    fault=fault,
    body="Corpo",
    may_lack_in_query="Cliente.Genero",
    may_lack_in_submission="Cliente.EstadoCivil Cliente.Nacionalidade",
)


def test_every_route_needs_the_gateways_key_too(bank: Caller) -> None:
    for call in DIALECT.routes():
        answer = bank.call(call, {}, {"Authorization": f"Bearer {bank.token}"})
        assert (answer.status_code, answer.json()) == (403, no("Chave do gateway invalida."))
