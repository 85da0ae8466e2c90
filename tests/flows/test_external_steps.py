"""Steps that holders owe banks, from the query to the webhook at the partner's endpoint and the next query."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from consultas.models import Query, Step
from foundation.encryption import blind_index
from partners.models import Partner
from tests.client import Client
from tests.processes import Simulator
from tests.proposals.datasets import dataset
from tests.receiver import Received, Receiver

BIOMETRIC = "90000000256"
CHAT, SMS = "90000000337", "90000000418"
WAIT_S = 40


@dataclass(frozen=True)
class Endpoint:
    """The partner's webhook endpoint and its secret."""

    receiver: Receiver
    secret: str

    def results(self, count: int) -> list[Received]:
        """The first `count` deliveries. Each must be an `authorization_result` with two valid signatures."""
        received = self.receiver.wait_for(count, WAIT_S)
        for each in received:
            assert Webhook(self.secret).verify(each.body, dict(each.headers))["event"] == "authorization_result"
            expected = hmac.new(self.secret.encode(), each.body, hashlib.sha256).hexdigest()
            assert hmac.compare_digest(each.headers["x-service-signature"], expected)
        return received


@pytest.fixture
def endpoint(partner: Partner) -> Iterator[Endpoint]:
    """Gets only events of external steps, because queries of these holders also have leads."""
    with Receiver() as receiver:
        partner.webhook_url, partner.webhook_events = receiver.url, ["authorization_result"]
        partner.save()
        yield Endpoint(receiver, partner.rotate_webhook_secret())


def result(client: Client, bank: str, cpf: str) -> dict[str, Any]:
    return client.query(cpf, providers=[bank])["providerResults"][bank]  # type: ignore[no-any-return]


def test_the_biometric_scenario(client: Client, simulator: Simulator, endpoint: Endpoint, partner: Partner) -> None:
    shown = result(client, "imbuia", BIOMETRIC)
    assert (shown["status"], shown["success"], shown["proposals"]) == ("requires_action", True, [])
    assert (shown["action"]["type"], shown["action"]["url"]) == ("biometria", shown["signatureUrl"])
    assert shown["signatureUrl"].startswith(simulator.url)

    simulator.advance(15)  # by then the simulator has finished the step by itself
    [told] = endpoint.results(1)
    event = told.json()
    assert {name: event[name] for name in ("event", "status", "provider", "external_reference", "partner_id")} == {
        "event": "authorization_result",
        "status": "approved",
        "provider": "imbuia",
        "external_reference": BIOMETRIC,
        "partner_id": str(partner.pk),
    }
    assert (len(event["offers"]), event["reason"]) == (2, None)

    again = result(client, "imbuia", BIOMETRIC)
    assert (again["status"], again["requiresSignature"], again["signatureUrl"]) == ("ok", False, None)
    assert [_without_renewed_parts(offer) for offer in again["proposals"]] == [
        _without_renewed_parts(offer) for offer in event["offers"]
    ]

    [offer, _] = event["offers"]
    assert client.submit(dataset(offer, BIOMETRIC))["offer"]["offerId"] == offer["offerId"]


def test_two_banks_that_finish_for_one_holder_are_two_events(
    client: Client, simulator: Simulator, endpoint: Endpoint
) -> None:
    """No holder of the catalogue owes steps to two banks. So the test gives two holders' steps to one holder in the
    service's rows."""
    result(client, "peroba", CHAT)
    result(client, "canela", SMS)
    for query in Query.objects.all():
        query.request |= {"cpf": CHAT}
        query.save()
    Step.objects.update(cpf_index=blind_index("cpf", CHAT))

    simulator.complete(CHAT, "peroba", "chat")
    simulator.complete(SMS, "canela", "sms")
    first, second = endpoint.results(2)
    assert {each.json()["provider"] for each in (first, second)} == {"peroba", "canela"}
    assert all(len(each.json()["offers"]) == 2 for each in (first, second))
    _differ_by_id_alone(first, second)


def _without_renewed_parts(offer: dict[str, Any]) -> dict[str, Any]:
    """An offer without the bank's own id and the time of the quote, which every query renews."""
    native = {name: value for name, value in offer["providerData"].items() if name != "nativeOfferId"}
    return {**offer, "providerData": native, "quotedAt": None, "validUntil": None}


def _differ_by_id_alone(first: Received, second: Received) -> None:
    """Both have the pair that the contract names; only the `webhook-id` differs."""
    one, other = (json.loads(each.body) for each in (first, second))
    assert (one["external_reference"], one["event"]) == (other["external_reference"], other["event"])
    assert first.id != second.id
