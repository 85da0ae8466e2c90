"""No personal data and no secret is in logs, broker messages or Redis: the test searches them after real calls."""

import pytest

from tests.client import FULL_FLOW, Client, query_body
from tests.privacy import overheard
from tests.processes import LiveService, Simulator
from tests.proposals.datasets import dataset, pix

CHAT = "90000000337"
AUCTION = "lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9"
SECRETS = [
    FULL_FLOW,
    CHAT,
    "900.000.001-75",
    "Maria da Silva",
    "Ana da Silva",
    "11987654321",
    "maria@example.com",
    "203.0.113.7",
    "918273645",
    "Desistência por motivo íntimo",
    "cpk_test_sandbox",
    "sandbox_public_key",
    "ipe-sandbox-secret",
    AUCTION,
]


def query(client: Client, simulator: Simulator) -> list[str]:
    """Query in each way. Returns what the banks told of the holder."""
    for path in ("/consultas", "/consultas/stream", "/providers/ipe/consultas"):
        client.post(path, query_body())
        client.post(path, query_body(CHAT))
    link = client.query(CHAT)["providerResults"]["peroba"]["signatureUrl"]
    offer = client.query()["proposals"][0]
    client.post("/consultas", query_body(cpf="90000000176", email="maria@example"))
    simulator.bank("ipe", fault="garbage")
    simulator.bank("jatoba", fault="http_500")
    client.post("/consultas", query_body(prazo=24))
    client.get(f"/auction-proposals/{AUCTION}")
    return [link, link.rpartition("/")[2], offer["employerCnpj"], offer["providerData"]["nativeOfferId"]]


def submit(client: Client, simulator: Simulator) -> None:
    """Submit at banks that fail in different ways, and call the proposals' other routes."""
    for number, bank in enumerate(("ipe", "jatoba", "aroeira")):
        simulator.bank(bank)
        plain, insured = client.query(providers=[bank])["proposals"]
        body = dataset(plain, changes={"recebimento.conta_bancaria.conta": "918273645"})
        simulator.bank(bank, fault=("http_500", "garbage", "half_body")[number], operation="submit", times=1)
        assert client.post("/proposals", body).status_code == 502
        client.post("/proposals", body)
        by_pix = client.post("/proposals", dataset(insured, changes={"recebimento": pix("cpf", FULL_FLOW)}))
        assert by_pix.status_code == 201, by_pix.text
        url = f"/proposals/{by_pix.json()['proposal_id']}"
        client.post(f"{url}/formalize", {"tipo_envio": "sms"})
        simulator.bank(bank, fault="garbage", operation="status")
        client.get(url)
        client.post(f"{url}/cancel", {"motivo": "Desistência por motivo íntimo"})
    client.get(f"/proposals?cpf={FULL_FLOW}")
    client.post("/proposals", {"titular": {"cpf": FULL_FLOW, "nome": "Maria da Silva"}})


@pytest.mark.control("V14", "CMN IV")
def test_no_personal_data_in_logs_or_redis(client: Client, simulator: Simulator, live_service: LiveService) -> None:
    with overheard() as commands:
        told = query(client, simulator)
        submit(client, simulator)
    traffic, logs = "\n".join(commands), live_service.logs()
    for task in ("consultas.query.ask.run", "proposals.tasks.submit"):
        assert task in traffic, "the monitor saw no broker message"
    for path in ("partners/v1/consultas", "partners/v1/proposals"):
        assert path in logs
    for secret in [*SECRETS, *told]:
        assert secret not in logs, f"{secret} in a log line"
        assert secret not in traffic, f"{secret} in Redis"
