"""The flow of a chat channel: a session, the holder's acceptance on the page, a query with its evidence; and a holder
who confirms by the code that the service's own worker sent to the simulated phone."""

import html
import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote_plus

import pytest
import requests

from authorizations.models import EvidenceUse
from partners.models import Partner
from providers import registry
from providers.models import Provider
from tests.client import FULL_FLOW, Client
from tests.processes import LiveService, Simulator, wait_until
from tests.proposals.datasets import dataset

ACCEPTANCE = {
    "accepted": True,
    "geolocation": {"lat": -15.793889, "lng": -47.882778, "accuracy": 12},
    "geolocation_status": "granted",
    "device": {"userAgent": "ignored", "platform": "Android 15", "deviceModel": "Moto G84", "language": "pt-BR"},
}
PHONE = "11987654321"
CODE = re.compile(r"<p>(\d{6}) é o seu código para autorizar")
USER_AGENT = "Mozilla/5.0 (Linux; Android 15) HolderBrowser/1.0"


def accepted_session(client: Client, cpf: str = FULL_FLOW) -> str:
    """The id of a session that the holder accepted through the public route."""
    opened = client.post("/authorizations", {"cpf": cpf, "nome": "Maria da Silva", "telefone": PHONE})
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
        authorization_id=authorization_id, client_ip="203.0.113.99", geolocation={"lat": 71.98, "lng": 98.71}
    )
    assert {name: result["status"] for name, result in body["providerResults"].items()} == dict.fromkeys(
        registry.names(), "ok"
    )
    assert len(body["proposals"]) == 2 * len(registry.names())
    for bank in body["providerResults"]:
        [call] = simulator.worked(bank, "query")
        # Some banks take form data, some write a decimal comma.
        sent = f"{call['body']} {unquote_plus(call['body']).replace(',', '.')}"
        without_place = registry.get(bank).bodies.without_place  # type: ignore[union-attr]
        assert "127.0.0.1" in sent, f"{bank}: the session's IP"
        assert "203.0.113.99" not in sent, f"{bank}: the body's IP"
        assert ("-15.793889" in sent) is ("geolocation" not in without_place), f"{bank}: the session's location"
        assert ("Moto G84" in sent) is ("device_model" not in without_place), f"{bank}: the session's device"
        assert [each for each in ("71.98", "98.71") if each in sent] == [], f"{bank}: the body's location"
    uses = EvidenceUse.objects.values_list("provider", "call")
    assert sorted(uses) == sorted((bank, "query") for bank in body["providerResults"])


@pytest.mark.parametrize(("cpf", "bank"), [(FULL_FLOW, "ipe"), ("90000000337", "peroba")], ids=["repeat", "open step"])
def test_what_asks_no_bank_is_no_use_of_the_evidence(client: Client, cpf: str, bank: str) -> None:
    authorization_id = accepted_session(client, cpf)
    for _ in range(2):
        client.query(cpf, authorization_id=authorization_id, client_ip=None, providers=[bank])
    assert EvidenceUse.objects.count() == 1


def test_a_bank_that_was_not_called_relied_on_nothing(client: Client, simulator: Simulator) -> None:
    """Before the fix, the dossier stated calls that never happened: uses were recorded before the banks were chosen."""
    Provider.objects.filter(name="ipe").update(enabled=False)
    Provider.objects.filter(name="jatoba").update(circuit="open")
    locked_out = Provider.objects.get(name="imbuia")
    locked_out.credentials = dict.fromkeys(locked_out.credentials, "wrong")
    locked_out.save()
    authorization_id = accepted_session(client)
    banks = ["ipe", "jatoba", "imbuia", "aroeira"]
    client.query(authorization_id=authorization_id, client_ip=None, providers=banks)
    assert [bank for bank in banks if simulator.calls(bank, "query")] == ["aroeira"]
    assert [(use.provider, use.call) for use in EvidenceUse.objects.all()] == [("aroeira", "query")]


def test_a_use_is_noted_before_the_bank_hears_of_it_and_again_where_it_is_asked_again(
    client: Client, simulator: Simulator, live_service: LiveService
) -> None:
    authorization_id = accepted_session(client)
    client.query(providers=["ipe"], prazo=12)  # so that the login at the bank is done
    simulator.bank("ipe", latency_ms=4000, operation="query")
    asked = len(simulator.calls("ipe", "query"))
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(
            client.query, authorization_id=authorization_id, client_ip=None, geolocation=None, providers=["ipe"]
        )
        wait_until(lambda: len(simulator.calls("ipe", "query")) > asked, 10, "the bank was asked")
        assert EvidenceUse.objects.filter(provider="ipe").count() == 1
        live_service.programs.restart("banks")
        assert len(waiting.result(60)["proposals"]) == 2
    assert EvidenceUse.objects.filter(provider="ipe").count() == 2


def test_a_submission_that_never_went_out_is_no_use_of_the_evidence(client: Client) -> None:
    authorization_id = accepted_session(client)
    asked = client.query(authorization_id=authorization_id, client_ip=None, providers=["ipe"])
    body = dataset(asked["proposals"][0])
    Provider.objects.filter(name="ipe").update(circuit="open")
    assert client.post("/proposals", body).status_code == 502
    assert not EvidenceUse.objects.filter(call="submit").exists()
    Provider.objects.filter(name="ipe").update(circuit="auto")
    assert client.post("/proposals", body).status_code == 201
    assert EvidenceUse.objects.filter(call="submit", provider="ipe").count() == 1


def test_the_code_arrives_on_the_simulated_phone_and_opens_the_acceptance(client: Client, simulator: Simulator) -> None:
    Partner.objects.update(sms_code=True)
    opened = client.post("/authorizations", {"cpf": FULL_FLOW, "nome": "Maria Teste", "telefone": PHONE}).json()
    public = f"{client.base}/authorizations/public/{opened['authorization_id']}"
    with requests.Session() as holder:

        def post(route: str, **fields: str) -> str:
            token = re.search(r'name="page" value="([^"]*)"', holder.get(public, timeout=10).text)
            assert token
            return holder.post(f"{public}/{route}", data={"page": html.unescape(token[1]), **fields}, timeout=10).text

        assert "Código enviado" in post("code")
        wait_until(lambda: CODE.search(simulator.phone(PHONE)) is not None, 10, "the code is on the phone")
        found = CODE.search(simulator.phone(PHONE))
        assert found
        assert "Autorização registrada" in post("accept", accepted="true", code=found[1])
    evidence = client.get(f"/authorizations/{opened['authorization_id']}").json()["evidence"]
    assert evidence["phone_confirmation"]["number"] == "(11) *****-4321"
