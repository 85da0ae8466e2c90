"""A contract's states at the bank, seen over HTTP at ipe."""

from __future__ import annotations

import re

import pytest

from tests.simulator.http import HttpSimulator
from tests.simulator.ipe_client import FULL_FLOW, STRANGE_STATUS, UNSIGNED, IpeClient


def ledger_status(simulator: HttpSimulator) -> str:
    [contract] = simulator.contracts("ipe")
    return str(contract["status"])


def test_from_submission_to_disbursement(simulator: HttpSimulator, ipe: IpeClient) -> None:
    debt = ipe.submit()
    assert (debt["status"], debt["signature"]) == ("pending_formalization", None)
    issued = ipe.issue(debt).json()
    assert issued["status"] == "waiting_signature"
    assert re.fullmatch(rf"{simulator.url}/links/[\w-]{{32}}", issued["signature"]["url"])
    simulator.complete(FULL_FLOW, "ipe", "signature")
    signed = ipe.status(debt)
    assert (signed["status"], signed["signature"]) == ("pending_reservation", None)
    simulator.advance(5)
    assert ipe.status(debt)["status"] == "disbursed"
    assert ledger_status(simulator) == "disbursed"


def test_a_holder_who_refuses_to_sign_ends_the_contract(simulator: HttpSimulator, ipe: IpeClient) -> None:
    debt = ipe.submit()
    ipe.issue(debt)
    simulator.complete(FULL_FLOW, "ipe", "signature", "refused")
    assert ipe.status(debt)["status"] == "refused"
    assert ledger_status(simulator) == "rejected"
    assert ipe.issue(debt).status_code == 409


def test_a_holder_who_never_signs_lets_the_contract_expire(simulator: HttpSimulator, ipe: IpeClient) -> None:
    debt = ipe.submit(UNSIGNED)
    ipe.issue(debt)
    simulator.advance(55)
    assert ipe.status(debt)["status"] == "waiting_signature"
    simulator.advance(10)
    assert ipe.status(debt)["status"] == "signature_expired"
    assert ledger_status(simulator) == "expired"
    assert ipe.issue(debt).status_code == 409


def test_a_strange_word_is_told_until_the_contract_is_issued(simulator: HttpSimulator, ipe: IpeClient) -> None:
    debt = ipe.submit(STRANGE_STATUS)
    assert debt["status"] == "em_orbita"
    assert ipe.status(debt)["status"] == "em_orbita"
    assert ledger_status(simulator) == "created"
    assert ipe.issue(debt).json()["status"] == "waiting_signature"


@pytest.mark.parametrize("steps", [(), ("issue",), ("issue", "sign")])
def test_an_open_contract_can_be_cancelled_and_again(
    simulator: HttpSimulator, ipe: IpeClient, steps: tuple[str, ...]
) -> None:
    debt = ipe.submit()
    if "issue" in steps:
        ipe.issue(debt)
    if "sign" in steps:
        simulator.complete(FULL_FLOW, "ipe", "signature")
    for _ in range(2):
        answer = ipe.post(f"/debts/{debt['debt_key']}/cancel", {"reason": "desistência"})
        assert (answer.status_code, answer.json()["status"]) == (200, "canceled")
    simulator.advance(60)
    assert ledger_status(simulator) == "cancelled"
    with pytest.raises(AssertionError, match="409"):
        simulator.complete(FULL_FLOW, "ipe", "signature")


def test_the_control_ends_the_newest_open_signature(simulator: HttpSimulator, ipe: IpeClient) -> None:
    debts = [ipe.submit(reference=f"reference-{number}") for number in (1, 2)]
    for debt in debts:
        ipe.issue(debt)
    simulator.complete(FULL_FLOW, "ipe", "signature")
    assert [ipe.status(debt)["status"] for debt in debts] == ["waiting_signature", "pending_reservation"]
