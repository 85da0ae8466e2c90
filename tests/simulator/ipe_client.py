"""A caller of the simulated bank ipe, with which the tests of all that banks share are told."""

from typing import Any

import requests

from tests.processes import Simulator
from tests.providers.samples import FULL_FLOW
from tests.simulator.dialect import Caller
from tests.simulator.test_ipe import DIALECT, PAYROLL


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
