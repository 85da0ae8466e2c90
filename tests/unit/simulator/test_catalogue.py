"""The catalogue of test holders, as `catalogue.json` has it."""

import pytest

from providers import registry
from simulator import catalogue

#: The scenarios whose description speaks of every bank. A bank that is missing there answers "no offers" at once.
OF_EVERY_BANK = (
    "full_flow",
    "no_offers",
    "contract_in_progress",
    "bank_down",
    "slow_bank",
    "all_slow",
    "garbage",
    "submit_unknown",
    "submit_unavailable",
)


@pytest.mark.parametrize("scenario", OF_EVERY_BANK)
def test_a_scenario_of_every_bank_says_how_each_of_them_answers(scenario: str) -> None:
    [cpf] = [holder["cpf"] for holder in catalogue.HOLDERS if holder["scenario"] == scenario]
    unsaid = [bank for bank in registry.names() if catalogue.scenario(cpf, bank) is catalogue.NO_OFFERS]
    assert unsaid == []
