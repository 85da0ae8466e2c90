"""POST /partners/v1/providers/{name}/consultas."""

from __future__ import annotations

from typing import Any

from consultas.models import Offer, Query
from tests.client import Client, query_body
from tests.processes import Simulator
from webhooks.models import Event

ANYTHING: Any = type("Anything", (), {"__eq__": lambda self, other: True, "__repr__": lambda self: "…"})()


def test_offers_whole(client: Client) -> None:
    assert client.query_one("ipe", with_insurance=False) == {
        "query_id": str(Query.objects.get().pk),
        "partner_reference": None,
        "provider": "ipe",
        "status": "ok",
        "offers": [
            {
                "provider": "ipe",
                "loan_value": 12000.0,
                "installment_value": 488.8,
                "installments": 48,
                "interest_rate": 1.99,
                "total_amount": 23462.4,
                "cet_monthly": 1.99,
                "cet_annual": 23.88,
                "cet_source": "bank",
                "cet_comparable_monthly": ANYTHING,
                "cet_comparable_annual": ANYTHING,
                "iof": 404.76,
                "insurance_value": 0.0,
                "with_insurance": False,
                "table_code": "IPE-CLT-STD",
                "first_due_date": ANYTHING,
                "quoted_at": ANYTHING,
                "valid_until": ANYTHING,
                "employer_name": "Metalúrgica Aurora Ltda",
                "employer_cnpj": "11222333000181",
                "matricula": "100200",
                "adjusted": False,
                "adjustments": [],
            }
        ],
        "vinculos": [
            {
                "matricula": "100200",
                "employer_cnpj": "11222333000181",
                "employer_name": "Metalúrgica Aurora Ltda",
                "job_title": ANYTHING,
                "admission_date": ANYTHING,
                "margin": 1850.0,
            }
        ],
        "proposal_id": None,
        "action": None,
        "error": None,
        "elapsed_ms": ANYTHING,
        "no_proposal_reasons": [],
        "reasons": [],
        "term_auto_authorized": False,
        "provider_data": None,
    }


def test_an_offer_says_what_differs_from_the_request_as_the_query_itself_does(client: Client) -> None:
    """Before the fix, only `GET /consultas/{queryId}` had the adjustments."""
    told = client.query_one("ipe", loan_value=5000, prazo=60, with_insurance=False)
    [offer] = told["offers"]
    assert offer["adjusted"] is True
    assert offer["adjustments"] == ["Prazo de 60 parcelas indisponível; a melhor oferta tem 48 parcelas."]
    [same] = client.get(f"/consultas/{told['query_id']}").json()["proposals"]
    assert (same["adjusted"], same["adjustments"]) == (offer["adjusted"], offer["adjustments"])


def test_only_that_bank_is_asked_and_providers_is_ignored(client: Client, simulator: Simulator) -> None:
    body = client.query_one("ipe", providers=["jatoba"])
    assert body["provider"] == "ipe"
    assert simulator.calls("jatoba") == []


def test_no_offers_says_why(client: Client) -> None:
    body = client.query_one("ipe", "90000001309")
    assert (body["status"], body["offers"], body["error"]) == ("no_offers", [], None)
    assert body["no_proposal_reasons"] == ["margem consignavel insuficiente"]
    assert [reason["code"] for reason in body["reasons"]] == ["no_margin"]


def test_an_infrastructure_failure_is_a_200_with_the_error(client: Client) -> None:
    body = client.query_one("sucupira", "90000001651")
    assert (body["status"], body["offers"]) == ("error", [])
    assert body["error"] == "Banco indisponível no momento. Tente novamente em instantes."


def test_no_offer_is_persisted_and_no_lead_told(client: Client) -> None:
    client.query_one("ipe")
    assert Offer.objects.count() == 0
    assert [event.name for event in Event.objects.all()] == ["query.completed"]


def test_every_call_asks_the_bank(client: Client, simulator: Simulator) -> None:
    client.query_one("ipe")
    client.query_one("ipe")
    assert sum(call["worked"] for call in simulator.calls("ipe", "query")) == 2


def test_outside_the_contract_is_403_and_unknown_404(stranger: Client) -> None:
    outside = stranger.post("/providers/peroba/consultas", query_body())
    unknown = stranger.post("/providers/nenhum/consultas", query_body())
    assert (outside.status_code, outside.json()["code"]) == (403, "provider_not_allowed")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")


def test_a_pending_step_is_an_action(client: Client, simulator: Simulator) -> None:
    body = client.query_one("imbuia", "90000000256")
    assert (body["status"], body["offers"], body["error"]) == ("requires_action", [], None)
    assert body["action"]["type"] == "biometria"
    assert body["action"]["url"].startswith(simulator.url)
    assert body["action"]["detail"]
