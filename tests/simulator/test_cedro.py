"""The dialect of the simulated bank cedro, as its manual promises it."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from tests.providers.manuals import RANDOM_KEY, submission_body
from tests.providers.samples import FULL_FLOW, STRANGER
from tests.simulator.dialect import (
    FORMAT,
    TYPE,
    VALUE,
    Caller,
    Dialect,
    Refusal,
    authorizations,
    bearer,
)
from tests.simulator.http import HttpSimulator

CONFIRMATION = "90000001902"
CONSULTS = "/v1/private-consignment/consults"
OPERATIONS = "/v1/private-consignment/operations"
PASSWORD = {
    "grant_type": "password",
    "client_id": "sandbox-app",
    "username": "originator@sandbox.example",
    "password": "cedro-sandbox-secret-not-a-secret",
}
REFERENCES = submission_body("cedro")["references"]
WRONG = {"detail": "credenciais invalidas"}


def fault(answer: requests.Response) -> Refusal:
    if answer.status_code < 300:
        return None
    assert answer.status_code == 422, answer.text
    [fault] = answer.json()["detail"]
    place, *field = fault["loc"]
    return ".".join(field) if place == "body" else ".".join(fault["loc"]), fault["msg"]


def offered(caller: Caller, consult: Any) -> str:
    """The first poll comes too early."""
    path = f"GET {CONSULTS}/{consult['id']}"
    assert caller.call(path).json()["status"] == "CONSENT_APPROVED"
    return caller.call(path).json()["simulations"][0]["simulationId"]  # type: ignore[no-any-return]


DIALECT = Dialect(
    name="cedro",
    login={"path": "/oauth/token", "data": PASSWORD},
    token=lambda body: body["access_token"],
    granted=lambda body: {
        "access_token": body["access_token"],
        "refresh_token": body["refresh_token"],
        "token_type": "Bearer",
        "expires_in": 900,
        "refresh_expires_in": 28800,
    },
    lifetime_s=900,
    wrong_logins=[
        ({"data": {**PASSWORD, **wrong}}, 400, WRONG)
        for wrong in (
            {"password": "wrong"},
            {"username": "wrong"},
            {"client_id": "wrong"},
            {"grant_type": "refresh_token", "refresh_token": "wrong"},
        )
    ],
    headers=bearer,
    bad_headers=authorizations("Bearer wrong", "{token}"),
    routes=[
        f"POST {CONSULTS}",
        f"GET {CONSULTS}/x",
        f"POST {OPERATIONS}",
        f"GET {OPERATIONS}/x",
        f"GET {OPERATIONS}/by-external-id/x",
        f"POST {OPERATIONS}/x/formalization",
    ],
    turned_away=(401, {"detail": "token invalido ou expirado"}),
    query=f"POST {CONSULTS}",
    submit=f"POST {OPERATIONS}",
    query_cpf="borrowerDocumentNumber",
    submit_cpf="borrower.individual_document_number",
    simulation="simulation_id",
    offered=offered,
    fault=fault,
    body="",
    no_bodies=[("application/x-www-form-urlencoded", b"a=b"), ("application/json", b"{"), ("application/json", b"[]")],
    may_lack_in_query={
        "gender",
        "originatorCode",
        "consent.sessionReference",
        "consent.location.accuracy",
        "consent.device.platform",
        "consent.device.userAgent",
        "consent.device.model",
        "consent.appConsent.consentId",
    },
    may_lack_in_submission={"borrower.father_name"},
    query_faults=[
        ("borrowerDocumentNumber", "900.000.001-75", FORMAT),
        ("birthDate", "14/03/1985", FORMAT),
        ("birthDate", "1985-02-30", FORMAT),
        ("gender", "F", VALUE),
        ("gender", None, TYPE),
        ("signerPhone.countryCode", "055", FORMAT),
        ("consent.acceptedAt", "2026-11-21T12:00:00.000Z", FORMAT),
        ("consent.ipAddress", "localhost", FORMAT),
        ("consent.device.model", None, TYPE),
        ("consent.location.latitude", 91, VALUE),
        ("consent.location.accuracy", -1, VALUE),
    ],
    submit_faults=[
        ("references", REFERENCES[:1], VALUE),
        ("references", REFERENCES * 2, VALUE),
        ("borrower.marital_status", "casado", VALUE),
        ("borrower.father_name", "João", FORMAT),
        ("borrower.father_name", None, TYPE),
        ("borrower.address.postal_code", "01310-100", FORMAT),
        ("bank.account_number", "56.789-0", FORMAT),
        ("bank.account_type", "corrente", VALUE),
        ("bank.transfer_method", "doc", VALUE),
        ("acceptance.ip_address", "x", FORMAT),
        ("external_id", "x" * 65, FORMAT),
    ],
    taken=[{"consent": {"acceptedAt": "2026-11-21T12:00:00Z", "ipAddress": "2001:db8::1"}}],
    pix=lambda kind, key: {"bank": {"transfer_method": "pix", "pix_key_type": kind, "pix_key": key}},
    pix_keys=[
        ("cpf", FULL_FLOW, None),
        ("cpf", STRANGER, ("bank.pix_key", VALUE)),
        ("phone", "5511987654321", None),
        ("phone", "+5511987654321", ("bank.pix_key", FORMAT)),
        ("phone", "11987654321", ("bank.pix_key", FORMAT)),
        ("email", "maria@example.com", None),
        ("random", RANDOM_KEY, None),
        ("random", "123e4567", ("bank.pix_key", FORMAT)),
        ("evp", RANDOM_KEY, ("bank.pix_key_type", VALUE)),
    ],
    unknown=[
        (f"GET {CONSULTS}/x", None, 404, {"detail": "consulta nao encontrada"}),
        (f"GET {OPERATIONS}/x", None, 404, {"detail": "operacao nao encontrada"}),
        (f"GET {OPERATIONS}/by-external-id/x", None, 404, {"detail": "operacao nao encontrada"}),
        (f"POST {OPERATIONS}/x/formalization", {}, 404, {"detail": "operacao nao encontrada"}),
    ],
    unknown_simulation=(404, {"detail": "simulacao nao encontrada"}),
)


@pytest.fixture
def cedro(simulator: HttpSimulator) -> Caller:
    return Caller(simulator, DIALECT)


def test_a_refresh_token_gives_another_token(cedro: Caller) -> None:
    refresh = cedro.log_in().json()["refresh_token"]
    form = {"grant_type": "refresh_token", "client_id": "sandbox-app", "refresh_token": refresh}
    renewed = cedro.log_in(data=form).json()["access_token"]
    assert renewed != cedro.token
    cedro.token = renewed
    assert cedro.call(f"GET {OPERATIONS}/x").status_code == 404


def test_an_access_token_is_no_refresh_token_and_both_end(cedro: Caller, simulator: HttpSimulator) -> None:
    body = cedro.log_in().json()
    for given, advance_s in ((body["access_token"], 0), (body["refresh_token"], 28801)):
        simulator.advance(advance_s)
        refused = cedro.log_in(data={**PASSWORD, "grant_type": "refresh_token", "refresh_token": given})
        assert (refused.status_code, refused.json()) == (400, WRONG)
    assert cedro.call(f"GET {OPERATIONS}/x").status_code == 401


@pytest.mark.parametrize(
    ("parameters", "refused"),
    [
        ("operationAmount=5000", ("query.operationAmount", FORMAT)),
        ("operationAmount=0.00", ("query.operationAmount", VALUE)),
        ("operationAmount=1.00&installmentAmount=1.00", ("query.installmentAmount", VALUE)),
        ("numberOfInstallments=0", ("query.numberOfInstallments", FORMAT)),
        ("withInsurance=True", ("query.withInsurance", VALUE)),
    ],
)
def test_a_wish_that_is_wrong_is_422(cedro: Caller, parameters: str, refused: Refusal) -> None:
    assert fault(cedro.call(f"GET {CONSULTS}/{cedro.query().json()['id']}?{parameters}")) == refused


def test_an_operation_without_the_confirmation_is_403(cedro: Caller) -> None:
    cedro.query(CONFIRMATION)
    answer = cedro.submit(submission_body("cedro", {DIALECT.submit_cpf: CONFIRMATION, "simulation_id": "sim_1"}))
    assert (answer.status_code, answer.json()) == (403, {"detail": "consulta nao autorizada pelo tomador"})


def test_a_channel_that_does_not_exist_is_422(cedro: Caller) -> None:
    contract = cedro.submit(cedro.submission()).json()["id"]
    assert fault(cedro.call(f"POST {OPERATIONS}/{contract}/formalization", {"channel": "email"})) == ("channel", VALUE)


def test_a_refused_token_does_not_wait_for_a_slow_scenario(simulator: HttpSimulator, cedro: Caller) -> None:
    """Otherwise a caller with an expired token would wait for the holder's 8 s twice."""
    simulator.bank("cedro", fault="expired_token", operation="query", times=1)
    answers = [cedro.query("90000001732"), cedro.query("90000001732")]  # expired by the fault; then unknown
    assert [answer.status_code for answer in answers] == [401, 401]
    assert max(answer.elapsed.total_seconds() for answer in answers) < 5
