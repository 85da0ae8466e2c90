"""The dialect of the simulated bank cedro, as its manual promises it."""

from typing import Any

import pytest

from tests.processes import Simulator
from tests.providers.manuals import submission_body
from tests.simulator.dialect import FORMAT, TYPE, VALUE, Caller, Dialect, Refusal, authorizations

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


def wrong(place: str, field: str, fault: str) -> Refusal:
    return 422, {"detail": [{"loc": [place, *(field.split(".") if field else ())], "msg": fault}]}


def offered(caller: Caller, consult: Any) -> str:
    """The first poll comes too early."""
    path = f"GET {CONSULTS}/{consult['id']}"
    assert caller.call(path).json()["status"] == "CONSENT_APPROVED"
    return caller.call(path).json()["simulations"][0]["simulationId"]  # type: ignore[no-any-return]


DIALECT = Dialect(
    name="cedro",
    login={"path": "/oauth/token", "data": PASSWORD},
    token=lambda body: body["access_token"],
    bad_headers=authorizations("Bearer wrong", "{token}"),
    turned_away=(401, {"detail": "token invalido ou expirado"}),
    simulation="simulation_id",
    offered=offered,
    refusal=lambda field, fault: wrong("body", field, fault),
    body="",
    may_lack_in_query=(
        "gender originatorCode consent.sessionReference consent.location.accuracy consent.location "
        "consent.appConsent consent.device consent.device.platform consent.device.userAgent "
        "consent.device.model consent.appConsent.consentId"
    ),
    may_lack_in_submission="borrower.father_name",
    query_faults=[("gender", None, TYPE)],
    submit_faults=[
        ("references", REFERENCES[:1], VALUE),
        ("references", REFERENCES * 2, VALUE),
        ("borrower.father_name", None, TYPE),
    ],
)


def test_an_access_token_is_no_refresh_token_and_both_end(bank: Caller, simulator: Simulator) -> None:
    body = bank.log_in().json()
    for given, advance_s in ((body["access_token"], 0), (body["refresh_token"], 28801)):
        simulator.advance(advance_s)
        refused = bank.log_in(data={**PASSWORD, "grant_type": "refresh_token", "refresh_token": given})
        assert (refused.status_code, refused.json()) == (400, WRONG)
    assert bank.call(f"GET {OPERATIONS}/x").status_code == 401


@pytest.mark.parametrize(
    ("parameters", "refused"),
    [
        ("operationAmount=5000", ("operationAmount", FORMAT)),
        ("operationAmount=0.00", ("operationAmount", VALUE)),
        ("operationAmount=1.00&installmentAmount=1.00", ("installmentAmount", VALUE)),
        ("numberOfInstallments=0", ("numberOfInstallments", FORMAT)),
        ("withInsurance=True", ("withInsurance", VALUE)),
    ],
)
def test_a_wish_that_is_wrong_is_422(bank: Caller, parameters: str, refused: tuple[str, str]) -> None:
    answer = bank.call(f"GET {CONSULTS}/{bank.query().json()['id']}?{parameters}")
    assert (answer.status_code, answer.json()) == wrong("query", *refused)


def test_a_refused_token_does_not_wait_for_a_slow_scenario(simulator: Simulator, bank: Caller) -> None:
    """Otherwise a caller with an expired token would wait for the holder's 8 s twice."""
    simulator.bank("cedro", fault="expired_token", operation="query", times=1)
    answers = [bank.query("90000001732"), bank.query("90000001732")]  # expired by the fault; then unknown
    assert [answer.status_code for answer in answers] == [401, 401]
    assert max(answer.elapsed.total_seconds() for answer in answers) < 5
