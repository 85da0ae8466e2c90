"""Banks that tell when, how much and under which contract they paid."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.processes import Simulator
from tests.providers.conftest import Connect
from tests.providers.samples import FULL_FLOW, a_query, a_submission


@pytest.mark.parametrize("name", ["ipe", "jatoba", "sucupira"])
def test_a_paid_proposal_tells_number_moment_and_amount(connect: Connect, simulator: Simulator, name: str) -> None:
    bank = connect(name)
    offer = bank.query(a_query()).offers[0]
    submitted = bank.submit(a_submission(offer))
    assert submitted.contract_number is None
    native_id = submitted.native_id
    number = bank.formalize(native_id, None).contract_number
    assert number
    simulator.complete(FULL_FLOW, name, "signature")
    signed = bank.status(native_id)
    assert (signed.contract_number, signed.disbursed_at, signed.disbursed_amount) == (number, None, None)
    simulator.advance(6)
    paid = bank.status(native_id)
    assert (paid.contract_number, paid.disbursed_amount) == (number, offer.loan_value)
    assert paid.disbursed_at is not None
    assert abs(paid.disbursed_at - datetime.now(UTC)) < timedelta(minutes=1)
