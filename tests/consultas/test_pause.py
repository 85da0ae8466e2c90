"""An operator's pause of one partner at one bank, and a bank's window."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from consultas.models import Query
from partners.models import Allowance
from providers.models import Provider
from tests.client import Client, query_body
from tests.processes import Simulator
from tests.proposals.datasets import dataset
from tests.providers.test_maintenance import a_window

PAUSED = {
    "code": "disabled",
    "source": "service",
    "message": "Banco desativado no momento.",
    "retryable": True,
}


def results(client: Client) -> dict[str, Any]:
    return client.query(providers=["ipe", "jatoba"])["providerResults"]


def test_every_route_tells_the_pause_a_repeat_shows_no_offer_and_an_earlier_one_is_still_submitted(
    client: Client, stranger: Client, simulator: Simulator
) -> None:
    """The end of the pause opens the bank again, without anybody's doing."""
    [offer, *_] = results(client)["jatoba"]["proposals"]
    calls = len(simulator.calls("jatoba", "query"))
    own = Allowance.objects.filter(provider="jatoba", partner__name="Parceiro Sandbox")
    own.update(paused_until=timezone.now() + timedelta(minutes=5), pause_reason="auditoria")
    paused, one = results(client), client.query_one("jatoba")
    for told in (paused["jatoba"], one):
        assert (told["status"], told["error"], told["reasons"]) == ("error", PAUSED["message"], [PAUSED])
    [kept] = [each for each in Query.objects.latest("created_at").stored_answers() if each.provider == "jatoba"]
    until = timezone.localtime(own.get().paused_until)
    assert kept.operator_words == f"Até {until:%d/%m/%Y %H:%M}: auditoria", "operators read the pause itself"
    assert paused["ipe"]["status"] == "ok"
    stream = client.post("/consultas/stream", query_body(providers=["jatoba"]))
    assert '"code":"disabled"' in stream.text
    assert len(simulator.calls("jatoba", "query")) == calls
    statuses = {bank: client.read(f"/providers/{bank}")["status"] for bank in ("ipe", "jatoba")}
    assert statuses == {"ipe": "available", "jatoba": "unavailable"}
    assert results(stranger)["jatoba"]["status"] == "ok", "another partner is not concerned"
    made = client.submit(dataset(offer))
    assert client.read(f"/proposals/{made['proposal_id']}")["provider"] == "jatoba"
    own.update(paused_until=timezone.now() - timedelta(minutes=1))
    assert results(client)["jatoba"]["status"] == "ok"
    window = a_window(Provider.objects.get(name="cedro"))
    window.save()
    closed = client.query(providers=["ipe", "cedro"])["providerResults"]["cedro"]
    assert [(each["code"], str(window) in each["message"]) for each in closed["reasons"]] == [("bank_closed", True)]
