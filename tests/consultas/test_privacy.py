"""No personal data and no secret is in logs, broker messages or Redis: the test searches them after real calls."""

from __future__ import annotations

import pytest

from tests.client import Client, query_body
from tests.privacy import overheard
from tests.processes import LiveService, Simulator

SECRETS = [
    "90000000175",
    "90000000337",
    "900.000.001-75",
    "Maria Teste da Silva",
    "11987654321",
    "maria.teste@example.com",
    "203.0.113.7",
    "cpk_test_sandbox",
    "sandbox_public_key",
    "ipe-sandbox-secret",
]


@pytest.mark.control("V14", "CMN IV")
def test_no_personal_data_in_logs_or_redis(client: Client, simulator: Simulator, live_service: LiveService) -> None:
    with overheard() as commands:
        for path in ("/consultas", "/consultas/stream", "/providers/ipe/consultas"):
            client.post(path, query_body())
            client.post(path, query_body("90000000337"))
        link = client.query("90000000337")["providerResults"]["peroba"]["signatureUrl"]
        offer = client.query()["proposals"][0]
        client.post("/consultas", query_body(cpf="90000000176", email="maria.teste@example"))
        simulator.bank("ipe", fault="garbage")
        simulator.bank("jatoba", fault="http_500")
        client.post("/consultas", query_body(prazo=24))
        client.get("/auction-proposals/lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9")
    traffic = "\n".join(commands)
    assert "consultas.tasks.run_query" in traffic, "the monitor saw no broker message"
    logs = live_service.logs()
    assert "partners/v1/consultas" in logs
    of_the_holder = [link, link.rpartition("/")[2], offer["employerCnpj"], offer["providerData"]["nativeOfferId"]]
    for secret in [*SECRETS, *of_the_holder, "lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9"]:
        assert secret not in logs, f"{secret} in a log line"
        assert secret not in traffic, f"{secret} in Redis"
