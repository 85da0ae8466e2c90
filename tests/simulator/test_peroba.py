"""The dialect of the simulated bank peroba, as its manual promises it."""

from typing import Any

from tests.simulator.dialect import Caller, Dialect

GATEWAY = {"X-Gateway-Key": "peroba-sandbox-gateway-key-not-a-secret"}
LOGIN = {"Usuario": "sandbox-originator", "Senha": "peroba-sandbox-password-not-a-secret"}


def no(sentence: str) -> dict[str, Any]:
    return {"Mensagem": sentence}


DIALECT = Dialect(
    name="peroba",
    login={"path": "/Acesso/Token", "json": LOGIN, "headers": GATEWAY},
    token=lambda body: body["Token"],
    headers=lambda token, call, raw: {**GATEWAY, "Authorization": f"Bearer {token}"},
    bad_headers=[GATEWAY, {**GATEWAY, "Authorization": "Bearer wrong"}, {**GATEWAY, "Authorization": "{token}"}],
    turned_away=(401, no("Token invalido ou expirado.")),
    simulation="CodigoSimulacao",
    offered=lambda caller, body: body["Simulacoes"][0]["CodigoSimulacao"],
    refusal=lambda field, fault: (400, no(f"{field}: {fault}.")),
    body="Corpo",
    may_lack_in_query="Cliente.Genero",
    may_lack_in_submission="Cliente.EstadoCivil Cliente.Nacionalidade",
)


def test_every_route_needs_the_gateways_key_too(bank: Caller) -> None:
    for call in DIALECT.routes():
        answer = bank.call(call, {}, {"Authorization": f"Bearer {bank.token}"})
        assert (answer.status_code, answer.json()) == (403, no("Chave do gateway invalida."))
