"""An operator's pause of one partner at one bank."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from partners.models import Allowance
from tests.client import Client, query_body
from tests.processes import Simulator
from tests.proposals.datasets import dataset

PAUSED = {
    "code": "disabled",
    "source": "service",
    "message": "Banco desativado no momento.",
    "retryable": True,
}


def pause(bank: str, minutes: int) -> None:
    """Pause every partner at `bank` until then."""
    until = timezone.now() + timedelta(minutes=minutes)
    Allowance.objects.filter(provider=bank).update(paused_until=until, pause_reason="auditoria")


def results(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.query(providers=["ipe", "jatoba"])["providerResults"]
    return found


def asked(simulator: Simulator) -> int:
    return len(simulator.calls("jatoba", "query"))


def test_a_repeat_tells_no_offer_of_a_bank_at_which_the_partner_was_paused_since(
    client: Client, stranger: Client, simulator: Simulator
) -> None:
    """The end of the pause opens the bank again, without anybody's doing."""
    assert results(client)["jatoba"]["status"] == "ok"
    calls = asked(simulator)
    Allowance.objects.filter(provider="jatoba", partner__name="Parceiro Sandbox").update(
        paused_until=timezone.now() + timedelta(minutes=5)
    )
    paused = results(client)
    assert (paused["jatoba"]["status"], paused["jatoba"]["reasons"]) == ("error", [PAUSED])
    assert paused["ipe"]["status"] == "ok"
    assert asked(simulator) == calls
    assert results(stranger)["jatoba"]["status"] == "ok", "another partner is not concerned"
    pause("jatoba", -1)
    assert results(client)["jatoba"]["status"] == "ok"


def test_every_route_of_queries_and_the_list_of_banks_tell_the_pause(client: Client, simulator: Simulator) -> None:
    pause("jatoba", 5)
    one = client.query_one("jatoba")
    assert (one["status"], one["error"], one["reasons"]) == ("error", "Banco desativado no momento.", [PAUSED])
    stream = client.post("/consultas/stream", query_body(providers=["jatoba"]))
    assert '"code":"disabled"' in stream.text
    assert asked(simulator) == 0
    assert client.get("/providers/jatoba").json()["status"] == "unavailable"
    assert client.get("/providers/ipe").json()["status"] == "available"


def test_an_offer_of_before_the_pause_is_still_submitted(client: Client) -> None:
    [offer, *_] = results(client)["jatoba"]["proposals"]
    pause("jatoba", 5)
    made = client.submit(dataset(offer))
    assert client.read(f"/proposals/{made['proposal_id']}")["provider"] == "jatoba"
