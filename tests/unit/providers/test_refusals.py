"""What each bank's refusals are to the service: the error, the words that partners read, and the field."""

import json

import pytest

from foundation.errors import ApiError, NotFound, error_from_dict
from providers import errors, registry
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
from tests.providers.manuals import manual_of


@pytest.mark.parametrize("name", registry.names())
def test_a_refusal_is_the_error_that_the_bank_means_and_its_field_has_the_contracts_name(name: str) -> None:
    adapter = given(registry.get(name))
    for told in manual_of(name).refusals:
        refusal = adapter.refusal(Reply(told.status, {}, json.dumps(told.body).encode()))
        if told.error is None:
            assert refusal is None
            continue
        assert isinstance(refusal, getattr(errors, told.error))
        assert told.words in (None, refusal.message)
        assert adapter.bodies.contract_names.get(refusal.field or "") == told.field


def test_a_page_in_place_of_any_answer_of_aroeira_is_an_outage() -> None:
    adapter = given(registry.get("aroeira"))
    refusal = adapter.refusal(Reply(200, {"Content-Type": "text/html"}, b"<!DOCTYPE html><p>Virada de folha</p>"))
    assert isinstance(refusal, ProviderUnavailable)
    assert refusal.message == ProviderUnavailable.default_message


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
