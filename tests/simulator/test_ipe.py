"""The dialect of the simulated bank ipe, as its manual promises it, and a caller with which the tests of all that banks
share are told."""

from typing import Any

import requests

from tests.processes import Simulator
from tests.providers.samples import FULL_FLOW
from tests.simulator.dialect import FORMAT, MISSING, TYPE, VALUE, Caller, Dialect, Refusal

PAYROLL = "/v1/private_payroll"
CODES = {
    MISSING: ("IPE000010", "Required field missing"),
    TYPE: ("IPE000011", "Wrong type"),
    FORMAT: ("IPE000012", "Wrong format"),
    VALUE: ("IPE000013", "Value not allowed"),
}
CLIENT = ("sandbox-originator", "ipe-sandbox-secret-not-a-secret")


def told(code: str, title: str, translation: str) -> dict[str, str]:
    return {"code": code, "title": title, "translation": translation}


def refusal(field: str, fault: str) -> Refusal:
    code, title = CODES[fault]
    return 400, told(code, f"{title}: {field}", f"{'corpo' if field == 'request body' else field}: {fault}")


DIALECT = Dialect(
    name="ipe",
    login={"path": "/oauth2/token", "auth": CLIENT, "data": {"grant_type": "client_credentials"}},
    token=lambda body: body["access_token"],
    turned_away=(401, told("IPE000401", "Invalid or expired token", "Token inválido ou expirado.")),
    simulation="simulation_key",
    offered=lambda caller, body: body["simulations"][0]["simulation_key"],
    refusal=refusal,
    body="request body",
    may_lack_in_query="borrower.gender",
)


class IpeClient(Caller):
    def __init__(self, simulator: Simulator) -> None:
        super().__init__(simulator, DIALECT)

    def post(self, path: str, body: Any) -> requests.Response:
        return self.call(f"POST {PAYROLL}{path}", body)

    def get(self, path: str) -> requests.Response:
        return self.call(f"GET {PAYROLL}{path}")

    def debt(self, cpf: str = FULL_FLOW, reference: str = "reference-1") -> dict[str, Any]:
        """Query and submit. Returns the debt."""
        answer = self.submit(self.submission({"requester_identifier_key": reference}, cpf))
        assert answer.status_code == 201, answer.text
        return answer.json()  # type: ignore[no-any-return]

    def issue(self, debt: dict[str, Any]) -> requests.Response:
        return self.post(f"/debts/{debt['debt_key']}/issue", {"signature_delivery": None})

    def status(self, debt: dict[str, Any]) -> dict[str, Any]:
        return self.get(f"/debts/{debt['debt_key']}").json()  # type: ignore[no-any-return]
