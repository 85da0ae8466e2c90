"""No personal data of a submission is in logs, broker messages or Redis: the test searches them after real calls."""

from __future__ import annotations

import pytest

from tests.client import FULL_FLOW, Client
from tests.privacy import overheard
from tests.processes import LiveService, Simulator
from tests.proposals.datasets import dataset, pix

SECRETS = [
    FULL_FLOW,
    "900.000.001-75",
    "Maria Teste da Silva",
    "Ana Teste da Silva",
    "11987654321",
    "maria.teste@example.com",
    "918273645",
    "Desistência por motivo íntimo",
    "cpk_test_sandbox",
]


@pytest.mark.control("V14")
def test_no_personal_data_in_logs_or_redis(client: Client, simulator: Simulator, live_service: LiveService) -> None:
    with overheard() as commands:
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
        client.post("/proposals", {"titular": {"cpf": FULL_FLOW, "nome": "Maria Teste da Silva"}})
    traffic = "\n".join(commands)
    assert "proposals.tasks.submit" in traffic, "the monitor saw no broker message"
    logs = live_service.logs()
    assert "partners/v1/proposals" in logs
    for secret in SECRETS:
        assert secret not in logs, f"{secret} in a log line"
        assert secret not in traffic, f"{secret} in Redis"
