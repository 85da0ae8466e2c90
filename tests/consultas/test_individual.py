"""POST /partners/v1/providers/{name}/consultas."""

import re
from typing import Any

from consultas.models import Query
from tests.client import Client
from tests.processes import Simulator


def in_snake_case(shown: dict[str, Any]) -> dict[str, Any]:
    return {re.sub("[A-Z]", lambda upper: f"_{upper[0].lower()}", name): value for name, value in shown.items()}


def test_offers_whole(client: Client) -> None:
    """The bank's part of the aggregated reply, in the route's own spelling. The offers are not stored."""
    told = client.query_one("ipe", with_insurance=False)
    bank = in_snake_case(client.get(f"/consultas/{told['query_id']}").json()["providerResults"]["ipe"])
    [offer] = map(in_snake_case, bank.pop("proposals"))
    assert (offer.pop("offer_id"), offer.pop("provider_data")["withInsurance"]) == (None, False)
    assert (bank.pop("success"), bank.pop("requires_signature"), bank.pop("signature_url")) == (True, False, None)
    assert told == {
        **bank,
        "query_id": str(Query.objects.get().pk),
        "partner_reference": None,
        "offers": [offer],
        "vinculos": [in_snake_case(each) for each in bank["vinculos"]],
        "proposal_id": None,
        "provider_data": None,
    }
    assert (offer["loan_value"], offer["matricula"], told["vinculos"][0]["margin"]) == (12000.0, "100200", 1850.0)


def test_no_offer_and_a_failure_are_a_200_that_says_why(client: Client) -> None:
    away = "Banco indisponível no momento. Tente novamente em instantes."
    for bank, cpf, status, error, reasons, code in (
        ("ipe", "90000001309", "no_offers", None, ["margem consignavel insuficiente"], "no_margin"),
        ("sucupira", "90000001651", "error", away, [], "unavailable"),
    ):
        body = client.query_one(bank, cpf)
        told = [body[name] for name in ("status", "offers", "error", "no_proposal_reasons")]
        assert told == [status, [], error, reasons]
        assert [reason["code"] for reason in body["reasons"]] == [code]


def test_an_offer_says_what_differs_from_the_request_as_the_query_itself_does(client: Client) -> None:
    """Before the fix, only `GET /consultas/{queryId}` had the adjustments."""
    told = client.query_one("ipe", loan_value=5000, prazo=60, with_insurance=False)
    [offer] = told["offers"]
    assert offer["adjusted"] is True
    assert offer["adjustments"] == ["Prazo de 60 parcelas indisponível; a melhor oferta tem 48 parcelas."]
    [same] = client.get(f"/consultas/{told['query_id']}").json()["proposals"]
    assert (same["adjusted"], same["adjustments"]) == (offer["adjusted"], offer["adjustments"])


def test_every_call_asks_that_bank_and_no_other(client: Client, simulator: Simulator) -> None:
    for _ in range(2):
        assert client.query_one("ipe", providers=["jatoba"])["provider"] == "ipe"
    assert len(simulator.worked("ipe", "query")) == 2
    assert simulator.calls("jatoba") == []
