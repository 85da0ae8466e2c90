"""The dialect of the simulated bank aroeira, as its manual promises it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
import requests

from tests.providers.manuals import RANDOM_KEY
from tests.providers.samples import FULL_FLOW, HOLDERS
from tests.simulator.dialect import FORMAT, MISSING, NO_BEARER, VALUE, Caller, Dialect, Refusal, bearer
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
UNKNOWN = no("Proposta nao localizada")
AMOUNTS = [None, "1234,56", "1.234.56", "1.234,5", "1234.56", "0,00", "-1,00", "R$ 1,00"]
DIALECT = Dialect(
    name="aroeira",
    login={"method": "GET", "path": "/token/gerar", "auth": USER},
    token=lambda body: body["token"],
    granted=lambda body: {
        "erro": False,
        "mensagem": "Token gerado com sucesso",
        "token": body["token"],
        "validade_segundos": "3600",
    },
    lifetime_s=3600,
    wrong_logins=[({"auth": ("sandbox.parceiro", "wrong")}, 401, no("Usuario ou senha invalidos"))],
    headers=bearer,
    bad_headers=NO_BEARER,
    routes=[
        "POST /clt/simulacao",
        "POST /clt/proposta",
        "GET /clt/proposta/localizar?codigo_externo=x",
        "GET /clt/proposta/andamento?ade=1",
        "POST /clt/proposta/formalizacao",
        "GET /combos/cidades",
    ],
    turned_away=(401, no("Token invalido ou expirado")),
    query="POST /clt/simulacao",
    submit="POST /clt/proposta",
    query_cpf="cpf",
    submit_cpf="cpf",
    simulation="id_simulacao",
    offered=lambda caller, body: body["operacoes"][0]["id_simulacao"],
    fresh=AGAIN,
    encode=lambda body: urlencode(body).encode(),
    media_type="application/x-www-form-urlencoded",
    repeats=True,
    fault=fault,
    body="corpo",
    no_bodies=[("application/json", b"{}"), ("multipart/form-data; boundary=x", b"--x--")],
    query_faults=[
        ("cpf", "900.000.001-75", FORMAT),
        ("nome", "", MISSING),
        ("data_nascimento", "1985-03-14", FORMAT),
        ("data_nascimento", "31/02/1985", FORMAT),
        ("data_nascimento", "1/3/1985", FORMAT),
        ("celular", "11987654321", FORMAT),
        ("celular", "(11) 987654321", FORMAT),
        ("sexo", "2", VALUE),
        ("sexo", "", MISSING),
        ("tipo_simulacao", "0", VALUE),
        ("prazo", "0", FORMAT),
        ("prazo", "12,5", FORMAT),
        ("seguro", "true", VALUE),
        ("tipo_evidencia", "3", VALUE),
        ("tipo_evidencia", "2", MISSING, "app_protocolo"),
        ("aceite_ip", "localhost", FORMAT),
        ("aceite_hora", "9:00", FORMAT),
        ("aceite_latitude", "-23.55", FORMAT),
        ("aceite_latitude", "-91", VALUE),
        ("aceite_longitude", "181,5", VALUE),
    ],
    submit_faults=[
        ("codigo_externo", "x" * 65, FORMAT),
        ("nome_pai", "José", FORMAT),
        ("estado_civil", "casado", VALUE),
        ("nacionalidade", "Brasileira", VALUE),
        ("naturalidade_cidade", "São Paulo", FORMAT),
        ("naturalidade_cidade", "3550308", VALUE),
        ("naturalidade_uf", "RJ", VALUE, "naturalidade_cidade"),
        ("rg_emissao", "2005-06-01", FORMAT),
        ("cep", "01310-100", FORMAT),
        ("uf", "sp", FORMAT),
        ("complemento", "", MISSING),
        ("forma_credito", "TED", VALUE),
        ("agencia", "1234-5", FORMAT),
        ("conta", "56.789", FORMAT),
        ("tipo_conta", "corrente", VALUE),
    ],
    pix=lambda kind, key: {"forma_credito": "X", "tipo_chave_pix": kind, "chave_pix": key},
    pix_keys=[
        ("1", FULL_FLOW, None),
        ("1", HOLDERS["no_offers"], ("chave_pix", VALUE)),
        ("2", "(11) 98765-4321", None),
        ("2", "+5511987654321", ("chave_pix", FORMAT)),
        ("3", "maria@example.com", None),
        ("4", RANDOM_KEY, None),
        ("4", "123", ("chave_pix", FORMAT)),
    ],
    unknown=[
        ("GET /clt/proposta/localizar?codigo_externo=unknown", None, 200, no("Nenhuma proposta localizada")),
        ("GET /clt/proposta/andamento?ade=1", None, 200, UNKNOWN),
        ("POST /clt/proposta/formalizacao", {"ade": "1", "envio": "N"}, 200, UNKNOWN),
    ],
    unknown_simulation=(200, EXPIRED),
)


@pytest.fixture
def aroeira(simulator: HttpSimulator) -> Caller:
    return Caller(simulator, DIALECT)


@pytest.mark.parametrize("mode", ["2", "3"])
def test_an_amount_is_brazilian_text(aroeira: Caller, mode: str) -> None:
    for value in AMOUNTS:
        amount = {} if value is None else {"valor": value}
        refused = fault(aroeira.query(changes={"tipo_simulacao": mode, **amount}))
        assert refused is not None
        assert refused[0] == "valor", value


def test_one_table_of_one_link_is_simulated_again(aroeira: Caller) -> None:
    answer = aroeira.query(changes={**AGAIN, "tipo_simulacao": "2", "valor": "3.000,50", "prazo": "12"})
    [operation] = answer.json()["operacoes"]
    assert (operation["codigo_tabela"], operation["valor_liquido"], operation["prazo"]) == ("60215", "3.000,50", "12")


@pytest.mark.parametrize(("table", "registration"), [("99999", "100200"), ("60215", "B-778")])
def test_a_table_that_the_client_is_not_offered_is_not_eligible(aroeira: Caller, table: str, registration: str) -> None:
    answer = aroeira.query(changes={"codigo_tabela": table, "matricula": registration})
    assert answer.json() == no("Tabela nao elegivel para o cliente")


def test_only_a_fresh_simulation_of_one_table_can_be_submitted(simulator: HttpSimulator, aroeira: Caller) -> None:
    merely_asked = aroeira.query().json()["operacoes"][0]["id_simulacao"]
    form = aroeira.submission()
    assert aroeira.submit({**form, "id_simulacao": merely_asked}).json() == EXPIRED
    simulator.advance(10 * 60)
    assert aroeira.submit(form).json() == EXPIRED
    assert simulator.contracts("aroeira") == []


def test_both_proposals_of_a_repeated_reference_are_found(aroeira: Caller) -> None:
    form = aroeira.submission()
    made = [aroeira.submit(form).json()["proposta"]["ade"] for _ in range(2)]
    assert [contract["contract"] for contract in aroeira.simulator.contracts("aroeira")] == made
    found = aroeira.call("GET /clt/proposta/localizar?codigo_externo=reference-1").json()["propostas"]
    assert [each["ade"] for each in found] == made


def test_the_cities_have_codes_of_the_banks_own(aroeira: Caller) -> None:
    cities = aroeira.call("GET /combos/cidades").json()["cidades"]
    assert ["3648", "SAO PAULO", "SP"] in cities
    assert len({code for code, _, _ in cities}) == len(cities)
    assert len({state for _, _, state in cities}) == 27
