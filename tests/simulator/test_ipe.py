"""The dialect of the simulated bank ipe and its strictness, as its manual promises them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.http import HttpSimulator
from tests.simulator.ipe_client import (
    FULL_FLOW,
    PAYROLL,
    QUERY,
    STRANGER,
    TWO_EMPLOYERS,
    IpeClient,
    changed,
)

FOUND = "lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9"
BANK_FAILS = "lk_5Fz8cRw1Lh6yNt3QxV0aMkGp7DsEuBj2"
AUTHENTICITY = "authorization_term.signature.authenticity"


def test_a_token_is_given_for_20_minutes(ipe: IpeClient) -> None:
    body = ipe.take_token().json()
    assert len(body.pop("access_token")) >= 32
    assert body == {"token_type": "Bearer", "expires_in": 1200}


@pytest.mark.parametrize("client", [("sandbox-originator", "wrong"), ("wrong", "ipe-sandbox-secret-not-a-secret")])
def test_wrong_client_credentials_are_401(ipe: IpeClient, client: tuple[str, str]) -> None:
    answer = ipe.take_token(client)
    assert (answer.status_code, answer.json()["code"]) == (401, "IPE000400")


def test_the_token_route_takes_a_form_and_one_grant_only(simulator: HttpSimulator, ipe: IpeClient) -> None:
    assert ipe.take_token(grant="password").json()["code"] == "IPE000013"
    assert simulator.post("/ipe/oauth2/token", json={"grant_type": "client_credentials"}).status_code == 400


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "{token}", "Basic {token}"])
def test_every_other_route_needs_the_bearer_token(
    simulator: HttpSimulator, ipe: IpeClient, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.format(token=ipe.token)}
    for method, path in (
        ("POST", "/simulations"),
        ("POST", "/debts"),
        ("GET", "/debts?requester_identifier_key=x"),
        ("GET", "/debts/x"),
        ("POST", "/debts/x/issue"),
        ("POST", "/debts/x/cancel"),
        ("GET", f"/auction_proposals/{FOUND}"),
    ):
        answer = simulator.request(method, simulator.url + PAYROLL + path, json={}, headers=headers)
        assert answer.status_code == 401
        assert answer.json() == {
            "code": "IPE000401",
            "title": "Invalid or expired token",
            "translation": "Token inválido ou expirado.",
        }


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("borrower", ..., "IPE000010"),
        ("borrower", [], "IPE000011"),
        ("borrower.name", "  ", "IPE000010"),
        ("borrower.name", "a\ud800", "IPE000012"),
        ("borrower.name", "a\0", "IPE000012"),
        ("borrower.document_number", "900.000.001-75", "IPE000012"),
        ("borrower.document_number", 90000000175, "IPE000011"),
        ("borrower.birth_date", "1985-03-14", "IPE000012"),
        ("borrower.birth_date", "1985-03-14T00:00:00.000Z", "IPE000012"),
        ("borrower.birth_date", "1985-02-30T00:00:00.000000Z", "IPE000012"),
        ("borrower.email", "maria", "IPE000012"),
        ("borrower.gender", "F", "IPE000013"),
        ("borrower.phone.country_code", "55", "IPE000012"),
        ("borrower.phone.number", "98765-4321", "IPE000012"),
        (f"{AUTHENTICITY}.ip_address", "300.1.1.1", "IPE000012"),
        (f"{AUTHENTICITY}.timestamp", "2026-11-21T12:00:00Z", "IPE000012"),
        (f"{AUTHENTICITY}.session_id", ..., "IPE000010"),
        (f"{AUTHENTICITY}.user_agent", ..., "IPE000010"),
        (f"{AUTHENTICITY}.device_model", ..., "IPE000010"),
        (f"{AUTHENTICITY}.geolocation", ..., "IPE000010"),
        (f"{AUTHENTICITY}.geolocation.latitude", "-23.5", "IPE000011"),
        (f"{AUTHENTICITY}.geolocation.longitude", 181, "IPE000013"),
        ("simulation.disbursed_amount", ..., "IPE000010"),
        ("simulation.disbursed_amount", "5000.00", "IPE000011"),
        ("simulation.disbursed_amount", 5000.001, "IPE000012"),
        ("simulation.disbursed_amount", 0, "IPE000013"),
        ("simulation.number_of_installments", 12.0, "IPE000011"),
        ("simulation.number_of_installments", True, "IPE000011"),
        ("simulation.with_insurance", 1, "IPE000011"),
    ],
)
def test_a_query_with_a_wrong_field_is_400_and_names_it(ipe: IpeClient, field: str, value: Any, code: str) -> None:
    answer = ipe.post("/simulations", changed(QUERY, field, value))
    body = answer.json()
    assert (answer.status_code, body["code"]) == (400, code)
    assert body["title"].endswith(f": {field}")
    assert body["translation"].startswith(f"{field}: ")


def test_evidence_that_was_not_collected_is_null(ipe: IpeClient) -> None:
    body = changed(QUERY, f"{AUTHENTICITY}.geolocation", None)
    assert ipe.post("/simulations", changed(body, f"{AUTHENTICITY}.session_id", None)).status_code == 200


def test_a_body_of_another_media_type_is_400(simulator: HttpSimulator, ipe: IpeClient) -> None:
    headers = {"Authorization": f"Bearer {ipe.token}"}
    assert simulator.post(f"{PAYROLL}/simulations", data={"a": "b"}, headers=headers).json()["code"] == "IPE000011"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("requester_identifier_key", ...),
        ("requester_identifier_key", "x" * 65),
        ("borrower.gender", None),
        ("borrower.mother_name", ...),
        ("borrower.father_name", "João"),
        ("borrower.marital_status", "casado"),
        ("borrower.is_pep", "false"),
        ("borrower.document_identification", ...),
        ("borrower.document_identification.issue_date", "01/06/2005"),
        ("borrower.address.postal_code", "01310-100"),
        ("borrower.address.state", "São Paulo"),
        ("disbursement.method", "ted"),
        ("disbursement.bank_account.branch_number", "1234-5"),
        ("disbursement.bank_account.account_number", "567.890"),
        ("disbursement.bank_account.account_type", "corrente"),
        ("acceptance.ip_address", "localhost"),
        ("signature_delivery", "pombo"),
    ],
)
def test_a_submission_with_a_wrong_field_is_400_and_names_it(
    simulator: HttpSimulator, ipe: IpeClient, field: str, value: Any
) -> None:
    answer = ipe.post("/debts", changed(ipe.submission(), field, value))
    assert answer.status_code == 400
    assert answer.json()["title"].endswith(f": {field}")
    assert simulator.contracts("ipe") == []


@pytest.mark.parametrize(
    ("key_type", "key", "status"),
    [
        ("document_number", FULL_FLOW, 201),
        ("document_number", STRANGER, 400),
        ("phone_number", "+5511987654321", 201),
        ("phone_number", "11987654321", 400),
        ("email", "maria@example.com", 201),
        ("random_key", "0d5f6f1e-3d0a-4f0e-9f5c-1c2d3e4f5a6b", 201),
        ("random_key", "random", 400),
        ("cpf", FULL_FLOW, 400),
    ],
)
def test_pix_keys(ipe: IpeClient, key_type: str, key: str, status: int) -> None:
    disbursement = {"method": "pix", "pix": {"key_type": key_type, "key": key}}
    assert ipe.post("/debts", ipe.submission(disbursement=disbursement)).status_code == status


def test_an_unknown_simulation_is_404(ipe: IpeClient) -> None:
    answer = ipe.post("/debts", ipe.submission(simulation_key="unknown"))
    assert (answer.status_code, answer.json()["code"]) == (404, "IPE000404")


def test_a_simulation_of_another_holder_is_400(ipe: IpeClient) -> None:
    body = changed(ipe.submission(), "borrower.document_number", TWO_EMPLOYERS)
    answer = ipe.post("/debts", body)
    assert answer.json()["title"] == "Value not allowed: borrower.document_number"


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", "/issue"), ("POST", "/cancel")])
def test_an_unknown_debt_is_404(ipe: IpeClient, method: str, path: str) -> None:
    answer = ipe.get(f"/debts/x{path}") if method == "GET" else ipe.post(f"/debts/x{path}", {})
    assert (answer.status_code, answer.json()["code"]) == (404, "IPE000404")


@pytest.mark.parametrize(
    ("key", "status"), [("lk_0000000000000000000000000000000000", 404), ("x", 404), (BANK_FAILS, 503)]
)
def test_auction_keys_that_give_nothing(ipe: IpeClient, key: str, status: int) -> None:
    assert ipe.get(f"/auction_proposals/{key}").status_code == status
