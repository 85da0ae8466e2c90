"""The dialect of the simulated bank cedro, as its manual promises it."""

from typing import Any

from tests.providers.manuals import submission_body
from tests.simulator.dialect import TYPE, VALUE, Caller, Dialect, Refusal, authorizations

CONSULTS = "/v1/private-consignment/consults"
PASSWORD = {
    "grant_type": "password",
    "client_id": "sandbox-app",
    "username": "originator@sandbox.example",
    "password": "cedro-sandbox-secret-not-a-secret",
}
REFERENCES = submission_body("cedro")["references"]


def wrong(field: str, fault: str) -> Refusal:
    return 422, {"detail": [{"loc": ["body", *(field.split(".") if field else ())], "msg": fault}]}


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
    refusal=wrong,
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
