"""The words of each bank, in its adapter and in its simulated bank, which were written separately from the same
manual."""

import importlib

import pytest
from structlog.testing import capture_logs

from providers import registry
from providers.bank import Bank
from providers.types import given
from providers.types.proposal import ProposalStatus


@pytest.fixture(params=registry.names())
def bank(request: pytest.FixtureRequest) -> type[Bank]:
    return given(registry.get(request.param))


def test_each_word_of_the_bank_is_the_status_that_the_bank_means_by_it(bank: type[Bank]) -> None:
    words = importlib.import_module(f"simulator.banks.{bank.name}").STATUS_WORDS
    with capture_logs() as logs:
        assert {status: bank.proposal_status(word) for status, word in words.items()} == {
            status: ProposalStatus(status) for status in words
        }
    assert logs == []


def test_what_ends_a_proposal_well_or_badly_has_a_word(bank: type[Bank]) -> None:
    """A manual may lack words for the rest, such as an analysis or an expiry."""
    assert set(bank.words.statuses.values()) >= {
        ProposalStatus.AWAITING_SIGNATURE,
        ProposalStatus.DISBURSED,
        ProposalStatus.REJECTED,
    }


def test_an_unknown_word_is_no_status_and_leaves_a_line(bank: type[Bank]) -> None:
    for word in ("em_orbita", f" {next(iter(bank.words.statuses))}"):
        with capture_logs() as logs:
            assert bank.proposal_status(word) is None
        assert logs == [{"event": "bank_status_unknown", "bank": bank.name, "word": word, "log_level": "warning"}]
