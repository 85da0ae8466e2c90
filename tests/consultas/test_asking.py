"""A worker takes a query once, keeps its answers, and takes over the query of a dead worker."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import gevent
import pytest
from django.utils import timezone
from structlog.testing import capture_logs

from consultas.models import Query
from consultas.query import ask, end
from consultas.query.ask import Landing
from foundation import later
from partners.models import Partner
from tests.consultas.test_ending import a_running_query, an_answer, land
from tests.factories import PartnerFactory
from tests.leases import dead_worker
from tests.processes import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def partner() -> Partner:
    return PartnerFactory()


def kept(query: Query) -> set[str]:
    return set(end.landed(query))


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
    landing = Landing(query, [], 3)
    for bank in ("ipe", "jatoba"):
        landing.add(an_answer(bank))
        with kept_by(landing):
            assert bank in kept(query)


def test_answers_of_several_queries_are_kept_together_soon(partner: Partner) -> None:
    queries = [a_running_query(partner) for _ in range(20)]
    landings = [Landing(query, [], 2) for query in queries]
    for landing in landings:
        landing.add(an_answer("ipe"))

    def are_kept() -> bool:
        gevent.sleep(0)  # the greenlets share this thread
        return all(kept(query) for query in queries)

    with kept_by(*landings):
        wait_until(are_kept, 10, "all are kept")


def test_one_worker_takes_a_query_and_keeps_it_until_after_the_deadline(partner: Partner) -> None:
    query = a_running_query(partner, since_s=10)
    taken = ask.take(str(query.id))
    assert taken is not None
    row = Query.objects.get()
    assert (row.worker, row.takes, row.lease_until) == (
        later.worker_id(),
        1,
        row.deadline_at + timedelta(seconds=1.5),
    )
    assert ask.take(str(query.id)) is None, "a second copy of the task"
    assert not Query.due().exists()


def test_the_query_of_a_dead_worker_is_published_again_and_taken_once_more(partner: Partner) -> None:
    """The banks whose answer was kept are not asked again, nor the one that may have sent the holder an SMS."""
    query = a_running_query(partner, since_s=10, banks=["canela", "ipe", "jatoba"])
    assert ask.take(str(query.id)) is not None
    land(query, an_answer("ipe"))
    Query.objects.update(worker=dead_worker())
    later.end_dead_leases()
    assert later.tasks_due() == ["consultas.tasks.take_over"]
    with capture_logs() as logs:
        end.take_over()
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["query_published_again"]
    assert later.tasks_due() == [], "another copy follows only if nobody takes this one"
    again = ask.take(str(query.id))
    assert again is not None
    assert again.query.takes == 2
    found = {answer.provider: answer.status for answer in ask._earlier_answers(again.query)}
    assert found == {"ipe": "no_offers", "canela": "error"}


def test_a_query_whose_task_was_lost_is_published_again(partner: Partner) -> None:
    """As after Redis was emptied."""
    query = a_running_query(partner)
    assert later.tasks_due() == []
    Query.objects.filter(pk=query.pk).update(due_at=timezone.now())
    assert later.tasks_due() == ["consultas.tasks.take_over"]
