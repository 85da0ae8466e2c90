"""The dialect of the simulated bank aroeira and its strictness, as its manual promises them."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from tests.providers.manuals import submission_body
from tests.simulator.http import HttpSimulator
from tests.simulator.ipe_client import FULL_FLOW, NO_OFFERS

USER = ("sandbox.parceiro", "aroeira-sandbox-senha-nao-secreta")

CLIENT = {
    "nome": "Maria da Silva",
    "cpf": FULL_FLOW,
    "data_nascimento": "14/03/1985",
    "celular": "(11) 98765-4321",
    "email": "maria@example.com",
}
QUERY = {
    **CLIENT,
    "tipo_simulacao": "1",
    "seguro": "S",
    "tipo_evidencia": "1",
    "aceite_ip": "203.0.113.7",
    "aceite_data": "21/11/2026",
    "aceite_hora": "09:00:00",
}
SUBMISSION: dict[str, Any] = submission_body("aroeira")


def changed(form: dict[str, str], **changes: str | None) -> dict[str, str]:
    """The form with fields replaced; None leaves one out."""
    return {name: value for name, value in {**form, **changes}.items() if value is not None}


class Client:
    """A caller with a token, written from the manual."""

    def __init__(self, simulator: HttpSimulator) -> None:
        self.simulator = simulator
        self.token = self.log_in().json()["token"]

    def log_in(self, user: tuple[str, str] = USER) -> requests.Response:
        return self.simulator.get("/aroeira/token/gerar", auth=user)

    def send(self, method: str, path: str, form: dict[str, str] | None = None, **kwargs: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = self.simulator.request(method, f"/aroeira{path}", data=form, headers=headers, **kwargs)
        assert answer.status_code == 200
        return answer.json()

    def query(self, **changes: str | None) -> dict[str, Any]:
        return self.send("POST", "/clt/simulacao", changed(QUERY, **changes))

    def again(self, cpf: str = FULL_FLOW, **changes: str | None) -> dict[str, Any]:
        """Simulate the table without insurance of the holder's employment again."""
        return self.query(cpf=cpf, codigo_tabela="60215", matricula="100200", **changes)

    def submission(self, cpf: str = FULL_FLOW) -> dict[str, str]:
        return changed(SUBMISSION, cpf=cpf, id_simulacao=self.again(cpf)["operacoes"][0]["id_simulacao"])

    def submit(self, form: dict[str, str]) -> dict[str, Any]:
        return self.send("POST", "/clt/proposta", form)


@pytest.fixture
def aroeira(simulator: HttpSimulator) -> Client:
    return Client(simulator)


def test_a_token_is_given_for_an_hour(simulator: HttpSimulator, aroeira: Client) -> None:
    granted = aroeira.log_in().json()
    assert len(granted.pop("token")) >= 32
    assert granted == {"erro": False, "mensagem": "Token gerado com sucesso", "validade_segundos": "3600"}
    wrong = aroeira.log_in(("sandbox.parceiro", "wrong"))
    assert (wrong.status_code, wrong.json()["erro"]) == (401, True)
    simulator.advance(3600 - 5)
    assert aroeira.query()["erro"] is False
    simulator.advance(10)
    headers = {"Authorization": f"Bearer {aroeira.token}"}
    assert simulator.post("/aroeira/clt/simulacao", data=QUERY, headers=headers).status_code == 401


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "{token}", "Basic {token}"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/clt/simulacao"),
        ("POST", "/clt/proposta"),
        ("GET", "/clt/proposta/localizar?codigo_externo=x"),
        ("GET", "/clt/proposta/andamento?ade=1"),
        ("POST", "/clt/proposta/formalizacao"),
        ("GET", "/combos/cidades"),
    ],
)
def test_every_route_needs_the_token(
    simulator: HttpSimulator, aroeira: Client, authorization: str | None, method: str, path: str
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.format(token=aroeira.token)}
    answer = simulator.request(method, f"/aroeira{path}", headers=headers)
    assert answer.status_code == 401
    assert answer.json() == {"erro": True, "mensagem": "Token invalido ou expirado"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cpf", "900.000.001-75"),
        ("nome", None),
        ("nome", ""),
        ("data_nascimento", "1985-03-14"),
        ("data_nascimento", "31/02/1985"),
        ("data_nascimento", "1/3/1985"),
        ("celular", "11987654321"),
        ("celular", "(11) 987654321"),
        ("sexo", "2"),
        ("sexo", ""),
        ("tipo_simulacao", "0"),
        ("prazo", "0"),
        ("prazo", "12,5"),
        ("seguro", "true"),
        ("tipo_evidencia", "3"),
        ("aceite_ip", "localhost"),
        ("aceite_data", None),
        ("aceite_hora", "9:00"),
        ("aceite_latitude", "-23.55"),
        ("aceite_latitude", "-91"),
        ("aceite_longitude", "181,5"),
    ],
)
def test_a_wrong_field_of_a_simulation_is_refused(aroeira: Client, field: str, value: str | None) -> None:
    answer = aroeira.query(**{field: value})
    assert answer["erro"] is True
    assert answer["mensagem"].startswith(f"Campo {field}: ")


@pytest.mark.parametrize("value", [None, "1234,56", "1.234.56", "1.234,5", "1234.56", "0,00", "-1,00", "R$ 1,00"])
@pytest.mark.parametrize("mode", ["2", "3"])
def test_an_amount_is_brazilian_text(aroeira: Client, mode: str, value: str | None) -> None:
    answer = aroeira.query(tipo_simulacao=mode, valor=value)
    assert answer["erro"] is True
    assert answer["mensagem"].startswith("Campo valor: ")


def test_a_body_that_is_no_form_is_refused(aroeira: Client) -> None:
    for sent in ({"json": QUERY}, {"files": {"cpf": (None, FULL_FLOW)}}):
        assert aroeira.send("POST", "/clt/simulacao", **sent)["mensagem"].startswith("Campo corpo: ")


def test_one_table_of_one_link_is_simulated_again(aroeira: Client) -> None:
    [operation] = aroeira.again(tipo_simulacao="2", valor="3.000,50", prazo="12")["operacoes"]
    assert (operation["codigo_tabela"], operation["valor_liquido"], operation["prazo"]) == ("60215", "3.000,50", "12")


@pytest.mark.parametrize(("table", "registration"), [("99999", "100200"), ("60215", "B-778")])
def test_a_table_that_the_client_is_not_offered_is_not_eligible(aroeira: Client, table: str, registration: str) -> None:
    answer = aroeira.query(codigo_tabela=table, matricula=registration)
    assert answer == {"erro": True, "mensagem": "Tabela nao elegivel para o cliente"}


def test_only_a_fresh_simulation_of_one_table_can_be_submitted(simulator: HttpSimulator, aroeira: Client) -> None:
    merely_asked = aroeira.query()["operacoes"][0]["id_simulacao"]
    form = aroeira.submission()
    expired = {"erro": True, "mensagem": "Simulacao vencida"}
    assert aroeira.submit(changed(form, id_simulacao=merely_asked)) == expired
    assert aroeira.submit(changed(form, id_simulacao="unknown")) == expired
    simulator.advance(10 * 60)
    assert aroeira.submit(form) == expired
    assert simulator.contracts("aroeira") == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("codigo_externo", "x" * 65),
        ("sexo", None),
        ("nome_mae", None),
        ("nome_pai", "José"),
        ("estado_civil", "casado"),
        ("nacionalidade", "Brasileira"),
        ("naturalidade_cidade", "São Paulo"),
        ("naturalidade_cidade", "3550308"),
        ("naturalidade_uf", "RJ"),
        ("rg_orgao", None),
        ("rg_emissao", "2005-06-01"),
        ("cep", "01310-100"),
        ("uf", "sp"),
        ("complemento", ""),
        ("forma_credito", "TED"),
        ("agencia", "1234-5"),
        ("conta", "56.789"),
        ("tipo_conta", "corrente"),
        ("aceite_ip", None),
        ("envio", None),
    ],
)
def test_a_wrong_field_of_a_submission_is_refused(
    simulator: HttpSimulator, aroeira: Client, field: str, value: str | None
) -> None:
    answer = aroeira.submit(changed(aroeira.submission(), **{field: value}))
    assert answer["erro"] is True
    refused = "naturalidade_cidade" if field == "naturalidade_uf" else field
    assert answer["mensagem"].startswith(f"Campo {refused}: ")
    assert simulator.contracts("aroeira") == []


@pytest.mark.parametrize(
    ("kind", "key", "taken"),
    [
        ("1", FULL_FLOW, True),
        ("1", NO_OFFERS, False),
        ("2", "(11) 98765-4321", True),
        ("2", "+5511987654321", False),
        ("3", "maria@example.com", True),
        ("4", "123e4567-e89b-12d3-a456-426614174000", True),
        ("4", "123", False),
    ],
)
def test_a_pix_key_has_the_form_of_its_kind(aroeira: Client, kind: str, key: str, taken: bool) -> None:
    answer = aroeira.submit(changed(aroeira.submission(), forma_credito="X", tipo_chave_pix=kind, chave_pix=key))
    assert answer["erro"] is not taken
    assert taken or answer["mensagem"].startswith("Campo chave_pix: ")


def test_the_evidence_of_an_app_has_to_be_complete(aroeira: Client) -> None:
    assert aroeira.query(tipo_evidencia="2")["mensagem"].startswith("Campo app_protocolo: ")


def test_a_simulation_of_another_client_is_refused(aroeira: Client) -> None:
    assert aroeira.submit(changed(aroeira.submission(), cpf=NO_OFFERS))["mensagem"].startswith("Campo cpf: ")


def test_a_repeated_reference_makes_a_second_proposal(simulator: HttpSimulator, aroeira: Client) -> None:
    form = aroeira.submission()
    made = [aroeira.submit(form)["proposta"]["ade"] for _ in range(2)]
    assert [contract["contract"] for contract in simulator.contracts("aroeira")] == made
    found = aroeira.send("GET", "/clt/proposta/localizar?codigo_externo=reference-1")
    assert [each["ade"] for each in found["propostas"]] == made


def test_what_is_unknown_is_an_error_with_its_own_words(aroeira: Client) -> None:
    found = aroeira.send("GET", "/clt/proposta/localizar?codigo_externo=unknown")
    assert found == {"erro": True, "mensagem": "Nenhuma proposta localizada"}
    unknown = {"erro": True, "mensagem": "Proposta nao localizada"}
    assert aroeira.send("GET", "/clt/proposta/andamento?ade=1") == unknown
    assert aroeira.send("POST", "/clt/proposta/formalizacao", {"ade": "1", "envio": "N"}) == unknown


def test_the_cities_have_codes_of_the_banks_own(aroeira: Client) -> None:
    cities = aroeira.send("GET", "/combos/cidades")["cidades"]
    assert ["3648", "SAO PAULO", "SP"] in cities
    assert len({code for code, _, _ in cities}) == len(cities)
    assert len({state for _, _, state in cities}) == 27
