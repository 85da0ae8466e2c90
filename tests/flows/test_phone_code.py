"""A holder confirms by the code that the service's own worker sent to the simulated phone."""

import html
import re

import requests

from partners.models import Partner
from tests.client import FULL_FLOW, Client
from tests.processes import Simulator, wait_until

PHONE = "11987654321"
CODE = re.compile(r"<p>(\d{6}) é o seu código para autorizar")


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
