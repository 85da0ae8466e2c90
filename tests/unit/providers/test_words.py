"""The words of each bank, in its adapter and in its simulated bank, which were written separately from the same manual;
and what its refusals are to the service."""

import importlib
import json
import math

import pytest
from structlog.testing import capture_logs

from foundation.errors import ApiError, NotFound, error_from_dict
from providers import errors, registry
from providers.bank import Bank, Connection
from providers.errors import (
    OfferExpired,
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    as_submission_error,
    native_code,
    refusal_by_status,
)
from providers.http import Reply
from providers.types import given
from providers.types.proposal import ProposalStatus
from tests.providers.manuals import manual_of


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


def test_an_unknown_word_is_no_status_and_leaves_a_line(bank: type[Bank]) -> None:
    for word in ("em_orbita", f" {next(iter(bank.words.statuses))}"):
        with capture_logs() as logs:
            assert bank.proposal_status(word) is None
        assert logs == [{"event": "bank_status_unknown", "bank": bank.name, "word": word, "log_level": "warning"}]


def test_a_search_that_is_answered_in_another_form_does_not_say_that_the_bank_has_nothing(bank: type[Bank]) -> None:
    for body in (b"{}", b"null", b"[[]]", b"7", *([] if bank.name == "imbuia" else [b"[]"])):
        adapter = bank(Connection("https://bank.example", {}), lambda *_, body=body: Reply(200, {}, body), math.inf)
        with pytest.raises((ProviderError, LookupError, TypeError, ValueError, AttributeError)):
            adapter.find("a1b2")


def test_a_refusal_is_the_error_that_the_bank_means_and_its_field_has_the_contracts_name(bank: type[Bank]) -> None:
    """And the words that partners read."""
    for told in manual_of(bank.name).refusals:
        refusal = bank.refusal(Reply(told.status, {}, json.dumps(told.body).encode()))
        if told.error is None:
            assert refusal is None
            continue
        assert isinstance(refusal, getattr(errors, told.error))
        assert told.words in (None, refusal.message)
        assert bank.bodies.contract_names.get(refusal.field or "") == told.field


def test_a_submissions_conflict_keeps_the_banks_code() -> None:
    """Before the fix, a submission that a bank refused with 409 lost its code and its field."""
    refused = as_submission_error(refusal_by_status(409, "Oferta em uso.", code="X-17", field="valor"))
    assert isinstance(refused, ProviderRejected)
    assert (refused.message, native_code(refused), refused.field) == ("Oferta em uso.", "X-17", "valor")


@pytest.mark.parametrize("kind", [NotFound, OfferExpired, ProviderError, ProviderRejected, ProviderUnavailable])
def test_a_banks_error_is_the_same_behind_the_way_from_a_worker(kind: type[ApiError]) -> None:
    error = kind("Não.", field="valor")
    again = error_from_dict(error.as_dict())
    assert (type(again), again.as_dict()) == (kind, error.as_dict())
