"""Calls to banks are counted by how they ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client import REGISTRY

from providers.errors import OfferExpired, ProviderError, ProviderUnavailable
from providers.metrics import bank_call
from tests.processes import Simulator
from tests.providers.conftest import Connect
from tests.providers.samples import a_query, a_submission


@contextmanager
def counted(operation: str, outcome: str, *, by: int = 1) -> Iterator[None]:
    """Expects that, during the block, `operation` of ipe ends `by` times with `outcome`, and nothing else is
    counted."""

    def counts() -> dict[tuple[str, str, str], float]:
        [family] = [family for family in REGISTRY.collect() if family.name == "bank_call_seconds"]
        return {
            (sample.labels["bank"], sample.labels["operation"], sample.labels["outcome"]): sample.value
            for sample in family.samples
            if sample.name == "bank_call_seconds_count"
        }

    before = counts()
    yield
    key = ("ipe", operation, outcome)
    assert counts() == {**before, key: before.get(key, 0) + by}


def test_an_answered_call(connect: Connect) -> None:
    with counted("query", "ok", by=2):
        connect("ipe").query(a_query())
        connect("ipe").query(a_query())


def test_a_refused_call(connect: Connect, simulator: Simulator) -> None:
    [offer, *_] = connect("ipe").query(a_query()).offers
    simulator.reset()  # forgets the offer
    with counted("submit", "refused"), pytest.raises(OfferExpired):
        connect("ipe").submit(a_submission(offer))


@pytest.mark.parametrize(
    ("fault", "outcome", "error"),
    [("http_500", "unavailable", ProviderUnavailable), ("garbage", "unreadable", ProviderError)],
)
def test_a_failed_call(connect: Connect, simulator: Simulator, fault: str, outcome: str, error: type) -> None:
    simulator.bank("ipe", fault=fault)
    with counted("query", outcome), pytest.raises(error):
        connect("ipe").query(a_query())


@pytest.mark.parametrize("held_back", [{"circuit": "open"}, {"seconds": 0}])
def test_a_call_that_is_held_back(connect: Connect, held_back: dict[str, Any]) -> None:
    with counted("query", "held_back"), pytest.raises(ProviderUnavailable):
        connect("ipe", **held_back).query(a_query())


def test_a_fault_of_ours() -> None:
    with counted("query", "broken"), pytest.raises(ZeroDivisionError), bank_call("ipe", "query"):
        1 / 0  # noqa: B018
