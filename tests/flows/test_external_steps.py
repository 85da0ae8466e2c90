"""Steps that holders owe banks, from the query to the webhook at the partner's endpoint and the next query."""

from typing import Any

from standardwebhooks.webhooks import Webhook

from partners.models import Partner
from tests.client import Client
from tests.processes import Simulator
from tests.proposals.datasets import dataset
from tests.receiver import Receiver

BIOMETRIC = "90000000256"


def test_the_biometric_scenario(client: Client, simulator: Simulator, partner: Partner) -> None:
    with Receiver() as receiver:
        partner.webhook_url, partner.webhook_events = receiver.url, ["authorization_result"]
        partner.save()
        secret = partner.rotate_webhook_secret()
        shown = client.query(BIOMETRIC, providers=["imbuia"])["providerResults"]["imbuia"]
        assert (shown["status"], shown["success"], shown["proposals"]) == ("requires_action", True, [])
        assert (shown["action"]["type"], shown["action"]["url"]) == ("biometria", shown["signatureUrl"])
        assert shown["signatureUrl"].startswith(simulator.url)

        simulator.advance(15)  # by then the simulator has finished the step by itself
        [told] = receiver.wait_for(1, 40)
    event = Webhook(secret).verify(told.body, dict(told.headers))
    assert {name: event[name] for name in ("event", "status", "provider", "external_reference", "partner_id")} == {
        "event": "authorization_result",
        "status": "approved",
        "provider": "imbuia",
        "external_reference": BIOMETRIC,
        "partner_id": str(partner.pk),
    }
    assert (len(event["offers"]), event["reason"]) == (2, None)

    again = client.query(BIOMETRIC, providers=["imbuia"])["providerResults"]["imbuia"]
    assert (again["status"], again["requiresSignature"], again["signatureUrl"]) == ("ok", False, None)
    assert [_without_renewed_parts(offer) for offer in again["proposals"]] == [
        _without_renewed_parts(offer) for offer in event["offers"]
    ]

    [offer, _] = event["offers"]
    assert client.submit(dataset(offer, BIOMETRIC))["offer"]["offerId"] == offer["offerId"]


def _without_renewed_parts(offer: dict[str, Any]) -> dict[str, Any]:
    """An offer without the bank's own id and the time of the quote, which every query renews."""
    native = {name: value for name, value in offer["providerData"].items() if name != "nativeOfferId"}
    return {**offer, "providerData": native, "quotedAt": None, "validUntil": None}
