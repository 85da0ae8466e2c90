"""The dialect of the simulated bank cedro and its strictness, as its manual promises them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
import requests

from tests.providers.manuals import query_body, submission_body
from tests.simulator.http import HttpSimulator
from tests.simulator.ipe_client import FULL_FLOW, NO_OFFERS, STRANGER, changed

CONFIRMATION = "90000001902"
CONSULTS = "/cedro/v1/private-consignment/consults"
OPERATIONS = "/cedro/v1/private-consignment/operations"
PASSWORD = {
    "grant_type": "password",
    "client_id": "sandbox-app",
    "username": "originator@sandbox.example",
    "password": "cedro-sandbox-secret-not-a-secret",
}
CONSULT: dict[str, Any] = query_body("cedro")
OPERATION: dict[str, Any] = submission_body("cedro")


class CedroClient:
    """Takes a token at once and uses it for every call."""

    def __init__(self, simulator: HttpSimulator) -> None:
        self.simulator = simulator
        self.headers = {"Authorization": f"Bearer {self.token().json()['access_token']}"}

    def token(self, **changes: str) -> requests.Response:
        return self.simulator.post("/cedro/oauth/token", data={**PASSWORD, **changes})

    def post(self, path: str, body: Any) -> requests.Response:
        return self.simulator.post(path, json=body, headers=self.headers)

    def get(self, path: str, **parameters: str) -> requests.Response:
        return self.simulator.get(path, params=parameters, headers=self.headers)

    def consult(self, cpf: str = FULL_FLOW) -> str:
        """Begin a consult. Returns its id."""
        return self.post(CONSULTS, changed(CONSULT, "borrowerDocumentNumber", cpf)).json()["id"]  # type: ignore[no-any-return]

    def look(self, consult: str, **parameters: str) -> dict[str, Any]:
        answer = self.get(f"{CONSULTS}/{consult}", **parameters)
        assert answer.status_code == 200, answer.text
        return answer.json(parse_float=Decimal)  # type: ignore[no-any-return]

    def finished(self, cpf: str = FULL_FLOW, **parameters: str) -> dict[str, Any]:
        """A consult's answer, after the first poll, which comes too early."""
        consult = self.consult(cpf)
        assert self.look(consult)["status"] == "CONSENT_APPROVED"
        return self.look(consult, **parameters)

    def operation(self, cpf: str = FULL_FLOW) -> dict[str, Any]:
        """A valid operation on the first simulation of a fresh consult."""
        simulation = self.finished(cpf)["simulations"][0]["simulationId"]
        return changed(changed(OPERATION, "borrower.individual_document_number", cpf), "simulation_id", simulation)


@pytest.fixture
def cedro(simulator: HttpSimulator) -> CedroClient:
    return CedroClient(simulator)


def fault_of(answer: requests.Response) -> tuple[str, str]:
    """The dotted path of the field that a 422 names, and its fault."""
    assert answer.status_code == 422, answer.text
    [fault] = answer.json()["detail"]
    return ".".join(fault["loc"]), fault["msg"]


def test_a_token_comes_with_a_refresh_token_that_gives_another(cedro: CedroClient) -> None:
    body = cedro.token().json()
    refresh = body.pop("refresh_token")
    access = body.pop("access_token")
    assert body == {"token_type": "Bearer", "expires_in": 900, "refresh_expires_in": 28800}
    renewed = cedro.simulator.post(
        "/cedro/oauth/token",
        data={"grant_type": "refresh_token", "client_id": "sandbox-app", "refresh_token": refresh},
    )
    cedro.headers["Authorization"] = f"Bearer {renewed.json()['access_token']}"
    assert renewed.json()["access_token"] != access
    assert cedro.get(f"{OPERATIONS}/x").status_code == 404


@pytest.mark.parametrize(
    "changes",
    [
        {"password": "wrong"},
        {"username": "wrong"},
        {"client_id": "wrong"},
        {"grant_type": "refresh_token", "refresh_token": "wrong"},
    ],
)
def test_wrong_credentials_are_400(cedro: CedroClient, changes: dict[str, str]) -> None:
    answer = cedro.token(**changes)
    assert (answer.status_code, answer.json()) == (400, {"detail": "credenciais invalidas"})


def test_an_access_token_is_no_refresh_token_and_both_end(cedro: CedroClient, simulator: HttpSimulator) -> None:
    body = cedro.token().json()
    for given, advance_s in ((body["access_token"], 0), (body["refresh_token"], 28801)):
        simulator.advance(advance_s)
        assert cedro.token(grant_type="refresh_token", refresh_token=given).status_code == 400
    assert cedro.get(f"{OPERATIONS}/x").status_code == 401


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "{token}"])
def test_every_other_route_needs_the_bearer_token(cedro: CedroClient, authorization: str | None) -> None:
    token = cedro.headers["Authorization"].removeprefix("Bearer ")
    headers = {} if authorization is None else {"Authorization": authorization.format(token=token)}
    for method, path in (
        ("POST", CONSULTS),
        ("GET", f"{CONSULTS}/x"),
        ("POST", OPERATIONS),
        ("GET", f"{OPERATIONS}/x"),
        ("GET", f"{OPERATIONS}/by-external-id/x"),
        ("POST", f"{OPERATIONS}/x/formalization"),
    ):
        answer = cedro.simulator.request(method, path, json={}, headers=headers)
        assert (answer.status_code, answer.json()) == (401, {"detail": "token invalido ou expirado"})


@pytest.mark.parametrize(
    ("parameters", "fault"),
    [
        ({"operationAmount": "5000"}, ("query.operationAmount", "formato invalido")),
        ({"operationAmount": "0.00"}, ("query.operationAmount", "valor nao permitido")),
        (
            {"operationAmount": "1.00", "installmentAmount": "1.00"},
            ("query.installmentAmount", "valor nao permitido"),
        ),
        ({"numberOfInstallments": "0"}, ("query.numberOfInstallments", "formato invalido")),
        ({"withInsurance": "True"}, ("query.withInsurance", "valor nao permitido")),
    ],
)
def test_a_wish_that_is_wrong_is_422(cedro: CedroClient, parameters: dict[str, str], fault: tuple[str, str]) -> None:
    assert fault_of(cedro.get(f"{CONSULTS}/{cedro.consult()}", **parameters)) == fault


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        ("borrowerDocumentNumber", "900.000.001-75", "formato invalido"),
        ("borrowerDocumentNumber", ..., "campo obrigatorio nao informado"),
        ("birthDate", "14/03/1985", "formato invalido"),
        ("birthDate", "1985-02-30", "formato invalido"),
        ("gender", "F", "valor nao permitido"),
        ("gender", None, "tipo invalido"),
        ("signerPhone.countryCode", "055", "formato invalido"),
        ("signerPhone.phoneNumber", 987654321, "tipo invalido"),
        ("consent.acceptedAt", "2026-11-21T12:00:00.000Z", "formato invalido"),
        ("consent.ipAddress", "localhost", "formato invalido"),
        ("consent.device.model", None, "tipo invalido"),
        ("consent.location.latitude", 91, "valor nao permitido"),
        ("consent.location.longitude", ..., "campo obrigatorio nao informado"),
        ("consent.location.accuracy", -1, "valor nao permitido"),
        ("consent.appConsent.longitude", ..., "campo obrigatorio nao informado"),
    ],
)
def test_a_field_of_the_consult_that_is_wrong_is_422(cedro: CedroClient, path: str, value: Any, fault: str) -> None:
    assert fault_of(cedro.post(CONSULTS, changed(CONSULT, path, value))) == (f"body.{path}", fault)


def test_evidence_that_was_not_collected_is_left_out(cedro: CedroClient) -> None:
    bare = {"acceptedAt": CONSULT["consent"]["acceptedAt"], "ipAddress": "2001:db8::1"}
    body = {**CONSULT, "consent": bare}
    assert cedro.post(CONSULTS, body).status_code == 202


def test_a_body_that_is_no_json_object_is_422(cedro: CedroClient) -> None:
    for sent in ({"data": CONSULT}, {"data": b"{", "headers": {"Content-Type": "application/json"}}, {"json": []}):
        headers = {**cedro.headers, **sent.pop("headers", {})}  # type: ignore[dict-item]
        answer = cedro.simulator.post(CONSULTS, headers=headers, **sent)
        assert fault_of(answer)[0] == "body"


def test_an_operation_without_the_confirmation_is_403(cedro: CedroClient) -> None:
    cedro.consult(CONFIRMATION)
    body = changed(OPERATION, "borrower.individual_document_number", CONFIRMATION)
    answer = cedro.post(OPERATIONS, changed(body, "simulation_id", "sim_1"))
    assert (answer.status_code, answer.json()) == (403, {"detail": "consulta nao autorizada pelo tomador"})


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        ("references", OPERATION["references"][:1], "valor nao permitido"),
        ("references", OPERATION["references"] * 2, "valor nao permitido"),
        ("references", ..., "campo obrigatorio nao informado"),
        ("borrower.marital_status", "casado", "valor nao permitido"),
        ("borrower.political_exposition", "false", "tipo invalido"),
        ("borrower.father_name", "João", "formato invalido"),
        ("borrower.father_name", None, "tipo invalido"),
        ("borrower.gender", ..., "campo obrigatorio nao informado"),
        ("borrower.address.postal_code", "01310-100", "formato invalido"),
        ("bank.account_number", "56.789-0", "formato invalido"),
        ("bank.account_type", "corrente", "valor nao permitido"),
        ("bank.transfer_method", "doc", "valor nao permitido"),
        ("acceptance.ip_address", "x", "formato invalido"),
        ("external_id", "x" * 65, "formato invalido"),
    ],
)
def test_a_field_of_the_operation_that_is_wrong_is_422(
    cedro: CedroClient, simulator: HttpSimulator, path: str, value: Any, fault: str
) -> None:
    assert fault_of(cedro.post(OPERATIONS, changed(cedro.operation(), path, value))) == (f"body.{path}", fault)
    assert simulator.contracts("cedro") == []


@pytest.mark.parametrize(
    ("kind", "key", "status"),
    [
        ("cpf", FULL_FLOW, 201),
        ("cpf", STRANGER, 422),
        ("phone", "5511987654321", 201),
        ("phone", "+5511987654321", 422),
        ("phone", "11987654321", 422),
        ("email", "maria@example.com", 201),
        ("random", "123e4567-e89b-42d3-a456-426614174000", 201),
        ("random", "123e4567", 422),
        ("evp", "123e4567-e89b-42d3-a456-426614174000", 422),
    ],
)
def test_pix_keys(cedro: CedroClient, kind: str, key: str, status: int) -> None:
    pix = {"transfer_method": "pix", "pix_key_type": kind, "pix_key": key}
    assert cedro.post(OPERATIONS, {**cedro.operation(), "bank": pix}).status_code == status


def test_an_unknown_simulation_and_another_borrowers_are_refused(cedro: CedroClient) -> None:
    unknown = cedro.post(OPERATIONS, changed(cedro.operation(), "simulation_id", "sim_1"))
    assert (unknown.status_code, unknown.json()) == (404, {"detail": "simulacao nao encontrada"})
    other = changed(cedro.operation(), "borrower.individual_document_number", NO_OFFERS)
    assert fault_of(cedro.post(OPERATIONS, other))[0] == "body.borrower.individual_document_number"


def test_a_channel_that_does_not_exist_is_422(cedro: CedroClient) -> None:
    path = f"{OPERATIONS}/{cedro.post(OPERATIONS, cedro.operation()).json()['id']}/formalization"
    assert fault_of(cedro.post(path, {"channel": "email"})) == ("body.channel", "valor nao permitido")


def test_unknown_consults_and_operations_are_404(cedro: CedroClient) -> None:
    for method, path in (
        ("GET", f"{CONSULTS}/x"),
        ("GET", f"{OPERATIONS}/x"),
        ("GET", f"{OPERATIONS}/by-external-id/x"),
        ("POST", f"{OPERATIONS}/x/formalization"),
    ):
        answer = cedro.simulator.request(method, path, json={} if method == "POST" else None, headers=cedro.headers)
        assert answer.status_code == 404
        assert isinstance(answer.json()["detail"], str)


def test_a_refused_token_does_not_wait_for_a_slow_scenario(simulator: HttpSimulator, cedro: CedroClient) -> None:
    """Otherwise a caller with an expired token would wait for the holder's 8 s twice."""
    slow = changed(CONSULT, "borrowerDocumentNumber", "90000001732")
    simulator.bank("cedro", fault="expired_token", operation="query", times=1)
    answers = [cedro.post(CONSULTS, slow), cedro.post(CONSULTS, slow)]  # expired by the fault; then unknown
    assert [answer.status_code for answer in answers] == [401, 401]
    assert max(answer.elapsed.total_seconds() for answer in answers) < 5
