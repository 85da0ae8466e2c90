"""GET /partners/v1/auction-proposals/{proposal_key}. The whole record: tests/flows/test_reference.py."""

import time

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
    for key in (UNKNOWN, "x", "x" * 1000, "a%00b", "%ED%A0%80", "..%2Fdebts", "%20", "ç", "a%20b%3Fc%3Dd%26e", "{}"):
        response = client.get(f"/auction-proposals/{key}")
        assert (response.status_code, response.json()["code"]) == (404, "not_found"), key
    operations = {call["operation"] for call in simulator.calls("ipe")}
    assert operations <= {"token", "auction"}


def test_a_bank_that_fails_hangs_or_is_disabled_is_a_502(client: Client, simulator: Simulator) -> None:
    """The bank's own time-out counts."""
    failed = client.get(f"/auction-proposals/{BANK_FAILS}")
    unavailable = "Banco indisponível no momento. Tente novamente em instantes."
    assert (failed.status_code, failed.json()) == (502, error_body("provider_unavailable", unavailable, retryable=True))
    Provider.objects.filter(name="ipe").update(timeout_s=1)
    simulator.bank("ipe", fault="hang", operation="auction")
    began = time.monotonic()
    assert client.get(f"/auction-proposals/{FOUND}").status_code == 502
    assert time.monotonic() - began < 8
    Provider.objects.filter(name="ipe").update(enabled=False)
    disabled = client.get(f"/auction-proposals/{FOUND}")
    assert (disabled.status_code, disabled.json()["code"]) == (502, "provider_unavailable")
    assert len(simulator.calls("ipe", "auction")) == 2
