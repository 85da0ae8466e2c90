"""POST /partners/v1/consultas."""

from unittest.mock import ANY
from uuid import UUID

import msgspec

from consultas import shapes
from consultas.models import Offer, Query
from partners.models import Partner
from tests.client import FULL_FLOW, Client, query_body
from tests.processes import Simulator
from tests.webhooks.deliveries import told
from webhooks.models import Event


def test_a_banks_offers_and_their_lead_whole(client: Client, partner: Partner, simulator: Simulator) -> None:
    """As the reference's example, but with a second offer."""
    response = client.post("/consultas", query_body(providers=["ipe"]))
    body = response.json()
    plain = {
        **msgspec.to_builtins(shapes.Offer.example()),
        **dict.fromkeys(("offerId", "cetComparableMonthly", "cetComparableAnnual"), ANY),
        **dict.fromkeys(("firstDueDate", "quotedAt", "validUntil"), ANY),
        "providerData": {"nativeOfferId": ANY, "withInsurance": False, "cetMonthlyPercent": "1.99"},
    }
    insured = {
        **plain,
        "installmentValue": 498.58,
        "totalAmount": 23931.84,
        "cetMonthly": 2.07,
        "cetAnnual": 24.84,
        "insuranceValue": 469.44,
        "withInsurance": True,
        "tableCode": "IPE-CLT-INS",
        "providerData": {"nativeOfferId": ANY, "withInsurance": True, "cetMonthlyPercent": "2.07"},
    }
    example = msgspec.to_builtins(shapes.AggregatedResponse.example())
    [bank] = example["providerResults"].values()
    bank |= {"proposals": [plain, insured], "elapsedMs": ANY}
    example |= {"queryId": str(Query.objects.get().pk), "partnerReference": None, "proposals": [plain, insured]}
    assert body == {**example, **dict.fromkeys(("elapsedMs", "timestamp", "simulationGroupId"), ANY)}
    told_by_bank, [employer] = body["providerResults"]["ipe"], body["employers"]
    assert told_by_bank["termAutoAuthorized"] is False
    assert [*employer] == ["cnpj", "name", "matricula", "provider", "margin"]
    assert [*told_by_bank["vinculos"][0]][3:] == ["jobTitle", "admissionDate", "margin"]
    assert {UUID(offer["offerId"]) for offer in body["proposals"]} == set(Offer.objects.values_list("id", flat=True))
    assert body["timestamp"].endswith("Z")
    assert UUID(body["simulationGroupId"])
    assert [call["request_id"] for call in simulator.worked("ipe", "query")] == [response.headers["X-Request-Id"]]
    assert told("lead", partner=partner) == [
        {
            "partner_id": str(partner.id),
            "external_reference": body["simulationGroupId"],
            "event": "lead",
            "cpf": FULL_FLOW,
            "simulation_group_id": body["simulationGroupId"],
            "query_id": body["queryId"],
            "partner_reference": None,
            "providers": [{"provider": "ipe", "status": "ok", "offers": 2}],
            "best_offer": plain,
            "timestamp": ANY,
        }
    ]


def test_the_same_offer_keeps_its_id_and_gets_fresh_native_identifiers(client: Client) -> None:
    first = client.query(providers=["ipe"], loan_value=5000, prazo=24)
    again = client.query(providers=["ipe"], loan_value=5000, prazo=24)
    other = client.query(providers=["ipe"], loan_value=6000, prazo=24)
    ids = [[offer["offerId"] for offer in body["proposals"]] for body in (first, again, other)]
    assert ids[0] == ids[1]
    assert not set(ids[0]) & set(ids[2])
    natives = [body["proposals"][0]["providerData"]["nativeOfferId"] for body in (first, again)]
    assert natives[0] != natives[1], "a query with parameters is never a repeat"
    assert Offer.objects.get(pk=ids[0][0]).native_offer_id == natives[1]
    assert first["simulationGroupId"] != again["simulationGroupId"]


def test_no_offers_is_a_success_that_says_why(client: Client) -> None:
    body = client.query("90000001309")
    assert body["proposals"] == []
    assert body["simulationGroupId"] is None
    for result in body["providerResults"].values():
        assert (result["status"], result["success"], result["error"]) == ("no_offers", True, None)
        assert "margem consignavel insuficiente" in result["noProposalReasons"][0]
        [reason] = result["reasons"]
        assert (reason["code"], reason["source"], reason["retryable"]) == ("no_margin", "bank", False)
        assert reason["message"] == result["noProposalReasons"][0]
    assert set(Event.objects.values_list("name", flat=True)) == {"query.completed"}


# --- repeats ----------------------------------------------------------------------------------------------------


def test_a_repeat_never_hides_an_offer_that_became_available(client: Client, simulator: Simulator) -> None:
    simulator.bank("ipe", fault="http_503", operation="query", times=1)
    first = client.query(providers=["ipe", "jatoba"])
    assert first["providerResults"]["ipe"]["status"] == "error"
    again = client.query(providers=["ipe", "jatoba"])
    assert again["providerResults"]["ipe"]["status"] == "ok"
    assert again["simulationGroupId"] == first["simulationGroupId"]
    assert len(simulator.worked("jatoba", "query")) == 1
    assert Event.objects.filter(name="lead").count() == 1
