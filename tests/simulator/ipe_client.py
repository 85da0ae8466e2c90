"""A caller of the simulated bank ipe, written from its manual and independent of the service's adapter."""

from __future__ import annotations

from typing import Any

import requests

from tests.providers.manuals import changed, query_body, submission_body
from tests.simulator.http import HttpSimulator

CLIENT = ("sandbox-originator", "ipe-sandbox-secret-not-a-secret")
PAYROLL = "/ipe/v1/private_payroll"
FULL_FLOW = "90000000175"
STRANGE_STATUS = "90000002542"
UNSIGNED = "90000002704"
ALL_SLOW = "90000001813"
STRANGER = "52998224725"

QUERY: dict[str, Any] = query_body("ipe")
SUBMISSION: dict[str, Any] = submission_body("ipe")


class IpeClient:
    """Takes a token at once and uses it for every call."""

    def __init__(self, simulator: HttpSimulator) -> None:
        self.simulator = simulator
        self.token = self.take_token().json()["access_token"]

    def take_token(self, client: tuple[str, str] = CLIENT, grant: str = "client_credentials") -> requests.Response:
        return self.simulator.post("/ipe/oauth2/token", auth=client, data={"grant_type": grant})

    def post(self, path: str, body: Any, **kwargs: Any) -> requests.Response:
        return self.simulator.post(PAYROLL + path, json=body, headers=self._headers(), **kwargs)

    def get(self, path: str) -> requests.Response:
        return self.simulator.get(PAYROLL + path, headers=self._headers())

    def query(self, cpf: str = FULL_FLOW, **simulation: Any) -> requests.Response:
        body = changed(QUERY, {"borrower.document_number": cpf})
        body["simulation"].update(simulation)
        return self.post("/simulations", body)

    def submission(self, cpf: str = FULL_FLOW, reference: str = "reference-1", **top: Any) -> dict[str, Any]:
        """A valid submission of the first offer of a fresh query."""
        body = changed(SUBMISSION, {"borrower.document_number": cpf})
        key = self.query(cpf).json()["simulations"][0]["simulation_key"]
        return {**body, "simulation_key": key, "requester_identifier_key": reference, **top}

    def submit(self, cpf: str = FULL_FLOW, reference: str = "reference-1", **top: Any) -> dict[str, Any]:
        """Query and submit. Returns the debt."""
        answer = self.post("/debts", self.submission(cpf, reference, **top))
        assert answer.status_code == 201, answer.text
        return answer.json()

    def issue(self, debt: dict[str, Any], delivery: str | None = None) -> requests.Response:
        return self.post(f"/debts/{debt['debt_key']}/issue", {"signature_delivery": delivery})

    def status(self, debt: dict[str, Any]) -> dict[str, Any]:
        return self.get(f"/debts/{debt['debt_key']}").json()

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}
