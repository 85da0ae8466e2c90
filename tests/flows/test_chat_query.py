"""A chat channel's story: a session, the holder's acceptance on the page, a query that carries its evidence."""

from __future__ import annotations

import json

import pytest
import requests

from authorizations.models import EvidenceUse
from tests.client import FULL_FLOW, Client, query_body
from tests.processes import Simulator

ACCEPTANCE = {
    "accepted": True,
    "geolocation": {"lat": -15.793889, "lng": -47.882778, "accuracy": 12},
    "geolocation_status": "granted",
    "device": {"userAgent": "ignored", "platform": "Android 15", "deviceModel": "Moto G84", "language": "pt-BR"},
}
USER_AGENT = "Mozilla/5.0 (Linux; Android 15) HolderBrowser/1.0"


def accepted_session(client: Client, cpf: str = FULL_FLOW) -> str:
    """The id of a session that the holder accepted through the public route."""
    opened = client.post("/authorizations", {"cpf": cpf, "nome": "Maria Teste da Silva", "telefone": "11987654321"})
    assert opened.status_code == 201, opened.text
    authorization_id = opened.json()["authorization_id"]
    accept = requests.post(
        f"{client.base}/authorizations/public/{authorization_id}/accept",
        json=ACCEPTANCE,
        headers={"User-Agent": USER_AGENT},
        timeout=10,
    )
    assert accept.status_code == 200, accept.text
    return authorization_id  # type: ignore[no-any-return]


def test_the_sessions_evidence_reaches_every_bank_and_the_bodys_own_does_not(
    client: Client, simulator: Simulator
) -> None:
    authorization_id = accepted_session(client)
    body = client.query(
        authorization_id=authorization_id, client_ip="203.0.113.99", geolocation={"lat": 1.5, "lng": 2.5}
    )
    assert {name: result["status"] for name, result in body["providerResults"].items()} == dict.fromkeys(
        body["providerResults"], "ok"
    )
    for bank in body["providerResults"]:
        (call,) = [each for each in simulator.calls(bank, "query") if each["worked"]]
        sent = requests.utils.unquote(call["body"]).replace(",", ".") if bank == "aroeira" else call["body"]
        assert "127.0.0.1" in sent, f"{bank}: the session's IP"
        assert "203.0.113.99" not in sent, f"{bank}: the body's IP"
        assert "-15.793889" in sent, f"{bank}: the session's location"
        assert "Moto G84" in sent.replace("+", " "), f"{bank}: the session's device"
        assert "2.5" not in sent.replace(str(call), ""), f"{bank}: the body's location"
    uses = EvidenceUse.objects.values_list("provider", "call")
    assert sorted(uses) == sorted((bank, "query") for bank in body["providerResults"])


def test_a_repeat_that_asks_no_bank_is_no_use_of_the_evidence(client: Client) -> None:
    authorization_id = accepted_session(client)
    for _ in range(2):
        client.query(authorization_id=authorization_id, client_ip=None, providers=["ipe"])
    assert EvidenceUse.objects.count() == 1


@pytest.mark.parametrize("whose", ["another CPF", "another partner", "not accepted"])
def test_a_session_that_does_not_fit_is_refused(client: Client, stranger: Client, whose: str) -> None:
    authorization_id = accepted_session(client, "90000000507" if whose == "another CPF" else FULL_FLOW)
    if whose == "not accepted":
        opened = client.post(
            "/authorizations", {"cpf": "90000000680", "nome": "Outra Pessoa", "telefone": "11987654321"}
        )
        authorization_id = opened.json()["authorization_id"]
    caller = stranger if whose == "another partner" else client
    cpf = "90000000680" if whose == "not accepted" else FULL_FLOW
    response = caller.post("/consultas", query_body(cpf, authorization_id=authorization_id))
    assert (response.status_code, response.json()["field"]) == (422, "authorization_id")
    assert authorization_id not in json.dumps(response.json())
