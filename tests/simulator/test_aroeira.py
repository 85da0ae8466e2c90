"""The dialect of the simulated bank aroeira, as its manual promises it."""

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.processes import Simulator
from tests.simulator.dialect import MISSING, VALUE, Caller, Dialect

USER = ("sandbox.parceiro", "aroeira-sandbox-senha-nao-secreta")
#: To simulate the table without insurance of the holder's employment again.
AGAIN = {"codigo_tabela": "60215", "matricula": "100200"}


def no(sentence: str) -> dict[str, Any]:
    return {"erro": True, "mensagem": sentence}


EXPIRED = no("Simulacao vencida")
AMOUNTS = [None, "1234,56", "1.234.56", "1.234,5", "1234.56", "0,00", "-1,00", "R$ 1,00"]
DIALECT = Dialect(
    name="aroeira",
    login={"method": "GET", "path": "/token/gerar", "auth": USER},
    token=lambda body: body["token"],
    turned_away=(401, no("Token invalido ou expirado")),
    simulation="id_simulacao",
    offered=lambda caller, body: body["operacoes"][0]["id_simulacao"],
    fresh=AGAIN,
    encode=lambda body: urlencode(body).encode(),
    media_type="application/x-www-form-urlencoded",
    refusal=lambda field, fault: (200, no(f"Campo {field}: {fault}")),
    no_bodies=[("application/json", b"{}"), ("multipart/form-data; boundary=x", b"--x--")],
    query_faults=[("tipo_evidencia", "2", MISSING, "app_protocolo")],
    submit_faults=[
        ("naturalidade_cidade", "3550308", VALUE),
        ("naturalidade_uf", "RJ", VALUE, "naturalidade_cidade"),
    ],
)


@pytest.mark.parametrize("mode", ["2", "3"])
def test_an_amount_is_brazilian_text(bank: Caller, mode: str) -> None:
    for value in AMOUNTS:
        amount = {} if value is None else {"valor": value}
        refused = bank.query(changes={"tipo_simulacao": mode, **amount}).json()
        assert refused["mensagem"].startswith("Campo valor: "), value


def test_only_a_fresh_simulation_of_one_table_can_be_submitted(simulator: Simulator, bank: Caller) -> None:
    merely_asked = bank.query().json()["operacoes"][0]["id_simulacao"]
    form = bank.submission()
    assert bank.submit({**form, "id_simulacao": merely_asked}).json() == EXPIRED
    simulator.advance(10 * 60)
    assert bank.submit(form).json() == EXPIRED
    assert simulator.contracts("aroeira") == []
