"""What a worker keeps of a query's answers while it waits for the other banks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import gevent
import pytest

from consultas import landed
from consultas.asking import Landing
from partners.models import Partner
from tests.consultas.test_ending import a_running_query, an_answer
from tests.factories import PartnerFactory
from tests.processes import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def partner() -> Partner:
    return PartnerFactory()


@contextmanager
def kept_by(*landings: Landing) -> Iterator[None]:
    """The worker's greenlets that keep the answers of `landings`, each until it has nothing to do any more."""
    keeping = [gevent.spawn(landing.tell) for landing in landings]
    gevent.sleep(0)
    yield
    gevent.killall(keeping)


def test_an_answer_is_kept_at_once_where_no_other_query_has_any(partner: Partner) -> None:
    """Before the fix, the answer was kept up to 20 ms later, and lost if the worker died before."""
    query = a_running_query(partner)
    landing = Landing(query, expected=3, tell=None)
    for bank in ("ipe", "jatoba"):
        landing.add(an_answer(bank))
        with kept_by(landing):
            assert bank in landed.banks(query)


def test_answers_of_several_queries_are_kept_together_soon(partner: Partner) -> None:
    queries = [a_running_query(partner) for _ in range(20)]
    landings = [Landing(query, expected=2, tell=None) for query in queries]
    for landing in landings:
        landing.add(an_answer("ipe"))

    def are_kept() -> bool:
        gevent.sleep(0)  # the greenlets share this thread
        return all(landed.banks(query) for query in queries)

    with kept_by(*landings):
        wait_until(are_kept, 10, "all are kept")
