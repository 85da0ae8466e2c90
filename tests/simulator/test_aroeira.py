"""The dialect of the simulated bank aroeira, as its manual promises it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
import requests

from tests.simulator.dialect import MISSING, VALUE, Caller, Dialect, Refusal
from tests.simulator.http import HttpSimulator

USER = ("sandbox.parceiro", "aroeira-sandbox-senha-nao-secreta")
#: To simulate the table without insurance of the holder's employment again.
AGAIN = {"codigo_tabela": "60215", "matricula": "100200"}


def no(sentence: str) -> dict[str, Any]:
    return {"erro": True, "mensagem": sentence}


def fault(answer: requests.Response) -> Refusal:
    assert answer.status_code == 200
    body = answer.json()
    if not body["erro"]:
        return None
    prefix, _, sentence = body["mensagem"].partition(" ")
    assert prefix == "Campo"
    field, _, fault = sentence.partition(": ")
    return field, fault


EXPIRED = no("Simulacao vencida")
AMOUNTS = [None, "1234,56", "1.234.56", "1.234,5", "1234.56", "0,00", "-1,00", "R$ 1,00"]
DIALECT = Dialect(
    name="aroeira",
    login={"method": "GET", "path": "/token/gerar", "auth": USER},
    token=lambda body: body["token"],
    told_lifetime_s=lambda body: int(body["validade_segundos"]),
    lifetime_s=3600,
    turned_away=(401, no("Token invalido ou expirado")),
    query="POST /clt/simulacao",
    submit="POST /clt/proposta",
    simulation="id_simulacao",
    offered=lambda caller, body: body["operacoes"][0]["id_simulacao"],
    fresh=AGAIN,
    encode=lambda body: urlencode(body).encode(),
    media_type="application/x-www-form-urlencoded",
    fault=fault,
    no_bodies=[("application/json", b"{}"), ("multipart/form-data; boundary=x", b"--x--")],
    query_faults=[
        ("tipo_evidencia", "2", MISSING, "app_protocolo"),
    ],
    submit_faults=[
        ("naturalidade_cidade", "3550308", VALUE),
        ("naturalidade_uf", "RJ", VALUE, "naturalidade_cidade"),
    ],
)


@pytest.mark.parametrize("mode", ["2", "3"])
def test_an_amount_is_brazilian_text(bank: Caller, mode: str) -> None:
    for value in AMOUNTS:
        amount = {} if value is None else {"valor": value}
        refused = fault(bank.query(changes={"tipo_simulacao": mode, **amount}))
        assert refused is not None
        assert refused[0] == "valor", value


@pytest.mark.parametrize(("table", "registration"), [("99999", "100200"), ("60215", "B-778")])
def test_a_table_that_the_client_is_not_offered_is_not_eligible(bank: Caller, table: str, registration: str) -> None:
    answer = bank.query(changes={"codigo_tabela": table, "matricula": registration})
    assert answer.json() == no("Tabela nao elegivel para o cliente")


def test_only_a_fresh_simulation_of_one_table_can_be_submitted(simulator: HttpSimulator, bank: Caller) -> None:
    merely_asked = bank.query().json()["operacoes"][0]["id_simulacao"]
    form = bank.submission()
    assert bank.submit({**form, "id_simulacao": merely_asked}).json() == EXPIRED
    simulator.advance(10 * 60)
    assert bank.submit(form).json() == EXPIRED
    assert simulator.contracts("aroeira") == []
