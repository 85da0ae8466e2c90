"""GET /partners/v1/auction-proposals/{proposal_key}. The whole record: tests/flows/test_reference.py."""

import time

from partners.models import Partner
from providers.models import Provider
from tests.client import Client, error_body
from tests.processes import Simulator

FOUND = "lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9"
UNKNOWN = "lk_0000000000000000000000000000000000"
BANK_FAILS = "lk_5Fz8cRw1Lh6yNt3QxV0aMkGp7DsEuBj2"


def test_it_may_be_called_again_after_its_expiry_too_and_touches_nothing(client: Client, simulator: Simulator) -> None:
    first = client.get(f"/auction-proposals/{FOUND}").json()
    simulator.advance(7 * 24 * 3600)
    again = client.get(f"/auction-proposals/{FOUND}")
    assert (again.status_code, again.json()["proposal_key"]) == (200, first["proposal_key"])
    operations = {call["operation"] for call in simulator.calls("ipe")}
    assert operations <= {"token", "auction"}


def test_an_unknown_key_is_404(client: Client) -> None:
    for key in (UNKNOWN, "x", "x" * 1000, "a%00b", "%ED%A0%80", "..%2F..", "%20", "ç"):
        response = client.get(f"/auction-proposals/{key}")
        assert (response.status_code, response.json()["code"]) == (404, "not_found"), key


def test_a_failing_bank_is_502(client: Client) -> None:
    response = client.get(f"/auction-proposals/{BANK_FAILS}")
    assert response.status_code == 502
    assert response.json() == error_body(
        "provider_unavailable", "Banco indisponível no momento. Tente novamente em instantes.", retryable=True
    )


def test_the_banks_own_time_out_counts(client: Client, simulator: Simulator) -> None:
    Provider.objects.filter(name="ipe").update(timeout_s=1)
    simulator.bank("ipe", fault="hang", operation="auction")
    began = time.monotonic()
    assert client.get(f"/auction-proposals/{FOUND}").status_code == 502
    assert time.monotonic() - began < 8


def test_without_the_own_bank_in_the_contract_it_is_403(client: Client, partner: Partner, simulator: Simulator) -> None:
    partner.allow_only(["jatoba"])
    response = client.get(f"/auction-proposals/{FOUND}")
    assert (response.status_code, response.json()["code"]) == (403, "provider_not_allowed")
    assert simulator.calls("ipe", "auction") == []


def test_a_disabled_bank_is_502(client: Client, simulator: Simulator) -> None:
    Provider.objects.filter(name="ipe").update(enabled=False)
    response = client.get(f"/auction-proposals/{FOUND}")
    assert (response.status_code, response.json()["code"]) == (502, "provider_unavailable")
    assert simulator.calls("ipe", "auction") == []
