"""A contract's end at the bank, seen over HTTP at ipe."""

import pytest

from tests.processes import Simulator
from tests.providers.samples import HOLDERS
from tests.simulator.ipe_client import FULL_FLOW, IpeClient


def ledger_status(simulator: Simulator) -> str:
    [contract] = simulator.contracts("ipe")
    return str(contract["status"])


def test_a_holder_who_never_signs_lets_the_contract_expire(simulator: Simulator, ipe: IpeClient) -> None:
    debt = ipe.debt(HOLDERS["unsigned"])
    ipe.issue(debt)
    simulator.advance(55)
    assert ipe.status(debt)["status"] == "waiting_signature"
    simulator.advance(10)
    assert ipe.status(debt)["status"] == "signature_expired"
    assert ledger_status(simulator) == "expired"
    assert ipe.issue(debt).status_code == 409


def test_a_strange_word_is_told_until_the_contract_is_issued(simulator: Simulator, ipe: IpeClient) -> None:
    debt = ipe.debt(HOLDERS["strange_status"])
    assert ipe.status(debt)["status"] == "em_orbita"
    assert ledger_status(simulator) == "created"
    assert ipe.issue(debt).json()["status"] == "waiting_signature"


def test_a_cancelled_contract_stays_cancelled(simulator: Simulator, ipe: IpeClient) -> None:
    debt = ipe.debt()
    ipe.issue(debt)
    for _ in range(2):
        answer = ipe.post(f"/debts/{debt['debt_key']}/cancel", {"reason": "desistência"})
        assert (answer.status_code, answer.json()["status"]) == (200, "canceled")
    simulator.advance(60)
    assert ledger_status(simulator) == "cancelled"
    with pytest.raises(AssertionError, match="409"):
        simulator.complete(FULL_FLOW, "ipe", "signature")


def test_the_control_ends_the_newest_open_signature(simulator: Simulator, ipe: IpeClient) -> None:
    debts = [ipe.debt(reference=f"reference-{number}") for number in (1, 2)]
    for debt in debts:
        ipe.issue(debt)
    simulator.complete(FULL_FLOW, "ipe", "signature")
    assert [ipe.status(debt)["status"] for debt in debts] == ["waiting_signature", "pending_reservation"]
