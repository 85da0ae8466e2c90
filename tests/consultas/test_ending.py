"""A worker takes a query once, keeps its answers, and takes over the query of a dead worker. A query ends once, as a
whole, by the first process that ends it."""

import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import gevent
import msgspec
import pytest
from django.db import connection, transaction
from django.utils import timezone
from structlog.testing import capture_logs

from consultas import offers
from consultas.models import Answer, Offer, Query, failed
from consultas.query import ask, end
from consultas.query.end import Earlier
from foundation import later, workers
from partners.models import Partner
from providers.errors import BankTimedOut
from providers.types.query import BankOffer, QueryStatus
from tests.client import FULL_FLOW
from tests.factories import PartnerFactory, ProviderFactory
from tests.leases import dead_worker
from tests.processes import wait_until
from tests.proposals.rows import a_query_row
from tests.providers.samples import OFFER
from tests.transactions import at_once
from tests.webhooks.deliveries import told

pytestmark = pytest.mark.django_db

BANKS = ["cedro", "ipe", "jatoba"]


@pytest.fixture
def partner() -> Partner:
    return PartnerFactory(webhook_events=["lead", "query.completed"])


def a_running_query(partner: Partner, since_s: float = 0, cpf: str = FULL_FLOW, **fields: Any) -> Query:
    began = timezone.now() - timedelta(seconds=since_s)
    own = {"due_at": began + timedelta(seconds=5), "banks": BANKS, "partner_reference": "pedido-1"}
    return a_query_row(partner, cpf, began, **{**own, **fields})


def identical(query: Query) -> Query:
    """A new query with the fingerprint of `query`, not stored."""
    same = ("partner", "kind", "cpf_index", "request", "banks", "fingerprint", "deadline_at", "due_at")
    return Query(request_id="request-2", **{name: getattr(query, name) for name in same})


def an_answer(bank: str, *offers: BankOffer) -> Answer:
    return Answer(bank, QueryStatus.OK if offers else QueryStatus.NO_OFFERS, 10, time.time(), offers=offers)


def land(query: Query, *answers: Answer) -> None:
    """Store an answer as a worker does, which then dies."""
    workers.keep(str(query.id), answers, 0)


def statuses(query: Query) -> dict[str, str]:
    query.refresh_from_db()
    return {answer.provider: answer.error or answer.status.value for answer in query.stored_answers()}


def test_offers_lead_and_completion_are_stored_once_whoever_comes_second(partner: Partner) -> None:
    query = a_running_query(partner)
    same = Query.objects.get(pk=query.pk)
    first = end.end(query, [an_answer("ipe", OFFER), an_answer("jatoba"), an_answer("cedro")])
    second = end.end(same, [an_answer("ipe")])
    assert second.answers == first.answers
    assert second.shown == first.shown
    assert json.loads(second.reply()) | {"timestamp": None} == json.loads(first.reply()) | {"timestamp": None}
    assert Offer.objects.get().query == query
    (lead,), (completed,) = told("lead"), told("query.completed")
    assert (lead["query_id"], lead["partner_reference"]) == (str(query.id), "pedido-1")
    assert completed | {"timestamp": None} == {
        "partner_id": str(partner.pk),
        "external_reference": str(query.id),
        "event": "query.completed",
        "timestamp": None,
        "query_id": str(query.id),
        "partner_reference": "pedido-1",
        "kind": "aggregated",
        "simulation_group_id": str(query.id),
        "providers": [
            {"provider": "cedro", "status": "no_offers", "offers": 0},
            {"provider": "ipe", "status": "ok", "offers": 1},
            {"provider": "jatoba", "status": "no_offers", "offers": 0},
        ],
    }


def test_what_landed_before_the_worker_died_is_stored_and_the_rest_gets_the_error(partner: Partner) -> None:
    query = a_running_query(partner)
    land(query, an_answer("ipe", OFFER))
    end.end(query, [an_answer("cedro")])
    assert statuses(query) == {"cedro": "no_offers", "ipe": "ok", "jatoba": BankTimedOut().message}
    assert Offer.objects.count() == len(told("lead")) == 1


@pytest.mark.parametrize("kind", Query.Kind.values)
def test_the_sweep_ends_what_nobody_ended(partner: Partner, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end, "LATE", timedelta(minutes=1))  # so that a slow machine changes nothing
    late = a_running_query(partner, since_s=91, kind=kind)
    land(late, an_answer("ipe", OFFER), an_answer("jatoba"))
    running = a_running_query(partner, since_s=31)
    end.take_over()
    end.take_over()
    assert statuses(late) == {"cedro": BankTimedOut().message, "ipe": "ok", "jatoba": "no_offers"}
    running.refresh_from_db()
    assert running.finished_at is None, "its web process still has a moment"
    assert len(told("query.completed")) == 1
    assert Offer.objects.count() == len(told("lead")) == (kind == "aggregated")


#: The answers stored when all processes died, by the step that the query had reached. An end that was not committed
#: leaves the same answers.
STEPS: dict[str, tuple[str, ...]] = {
    "stored, published, or the banks asked": (),
    "one bank has answered": ("ipe",),
    "all have answered, and their answers were not stored": ("cedro", "ipe", "jatoba"),
}


@pytest.mark.parametrize("step", STEPS)
def test_at_whatever_step_all_processes_die_each_bank_has_one_final_status(partner: Partner, step: str) -> None:
    query = a_running_query(partner, since_s=32)
    landed = {"ipe": an_answer("ipe", OFFER), "jatoba": an_answer("jatoba"), "cedro": an_answer("cedro")}
    for bank in STEPS[step]:
        land(query, landed[bank])
    end.take_over()
    answered = {"cedro": "no_offers", "ipe": "ok", "jatoba": "no_offers"}
    expected = {bank: answered[bank] if bank in STEPS[step] else BankTimedOut().message for bank in BANKS}
    assert statuses(query) == expected
    assert query.finished_at is not None
    assert Offer.objects.count() == len(told("lead")) == ("ipe" in STEPS[step])
    # An answer that comes later, or that was not deleted when the query ended, changes no status.
    land(query, an_answer("cedro", OFFER))
    end.take_over()
    reply = json.loads(end.read_or_end(Query.objects.get(pk=query.pk)).reply())
    assert {bank: told["error"] or told["status"] for bank, told in reply["providerResults"].items()} == expected
    assert (reply["complete"], statuses(query), len(told("query.completed"))) == (True, expected, 1)


@pytest.mark.django_db(transaction=True)
def test_a_database_session_that_is_killed_between_the_answers_and_their_events_loses_none(partner: Partner) -> None:
    """As if PostgreSQL were killed then: the transaction is rolled back, and done again."""
    query = a_running_query(partner)
    blocked = "pg_locks WHERE NOT granted AND relation = 'webhooks_event'::regclass"

    def run() -> None:
        try:
            end.end(query, [an_answer("ipe", OFFER)])
        finally:
            connection.close()

    def is_killed() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_terminate_backend(pid) FROM {blocked}")
            return bool(cursor.fetchall())

    with ThreadPoolExecutor() as pool:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("LOCK TABLE webhooks_event IN EXCLUSIVE MODE")
            ended = pool.submit(run)
            wait_until(is_killed, 10, "the events are about to be written")
        ended.result(20)
    timed_out = BankTimedOut().message
    assert statuses(query) == {"cedro": timed_out, "ipe": "ok", "jatoba": timed_out}
    assert query.finished_at is not None
    assert Offer.objects.count() == len(told("lead")) == len(told("query.completed")) == 1


def test_one_sweep_ends_all_queries_of_a_host_that_was_lost_and_many_in_one_transaction(
    partner: Partner, django_assert_max_num_queries: Any
) -> None:
    """Before the fix, each of them was ended in a transaction of its own, and the last one 5.8 s after its deadline."""
    queries = overdue_queries(partner, 1000)
    for query in queries[:20]:
        land(query, an_answer("ipe", OFFER))
    with django_assert_max_num_queries(60):
        end.take_over()
    assert not Query.objects.filter(finished_at=None).exists()
    assert sorted(len(query.stored_answers()) for query in Query.objects.all()) == [3] * 1000
    assert len(told("query.completed")) == 1000
    assert {lead["query_id"] for lead in told("lead")} == {str(query.pk) for query in queries[:20]}


def overdue_queries(partner: Partner, number: int) -> list[Query]:
    template = a_running_query(partner, since_s=32)
    rows = [copy(template) for _ in range(number - 1)]
    for row in rows:
        row.pk = uuid.uuid4()
    return [template, *Query.objects.bulk_create(rows)]


def test_a_query_that_cannot_be_ended_costs_no_other_its_end_or_its_lead(partner: Partner) -> None:
    """Its batch is stored again, by halves."""
    queries = overdue_queries(partner, 10)
    for query in queries:
        land(query, an_answer("ipe", OFFER))
    broken = a_running_query(partner, since_s=32, request={"cpf": FULL_FLOW})
    land(broken, an_answer("ipe", OFFER))
    end.take_over()
    assert list(Query.objects.filter(finished_at=None)) == [broken]
    assert {lead["query_id"] for lead in told("lead")} == {str(query.pk) for query in queries}


@pytest.mark.django_db(transaction=True)
def test_two_sweeps_at_once_share_the_queries(partner: Partner) -> None:
    """Before the fix, both of them ended the same queries."""
    queries = overdue_queries(partner, 300)
    with capture_logs() as logged:
        at_once(end.take_over, end.take_over)
    ended = [entry["query"] for entry in logged if entry["event"] == "query_ended_by_sweep"]
    assert sorted(ended) == sorted(str(query.pk) for query in queries)


def test_a_sweep_ends_a_query_before_the_one_that_follows_it(partner: Partner) -> None:
    leader = a_running_query(partner, since_s=32)
    follower = a_running_query(partner, since_s=32, follows=leader.pk, due_at=leader.due_at - timedelta(seconds=1))
    land(leader, an_answer("ipe", OFFER))
    end.take_over()
    assert [lead["query_id"] for lead in told("lead")] == [str(leader.pk)]
    follower.refresh_from_db()
    assert follower.simulation_group == leader.pk


def test_reused_answers_are_looked_up_and_their_lead_is_not_told_again(partner: Partner) -> None:
    source = a_running_query(partner)
    end.end(source, [an_answer("ipe", OFFER)])
    refreshed_at = Offer.objects.get().refreshed_at
    repeat = a_running_query(partner, banks=["ipe", "jatoba"], simulation_group=source.pk)
    result = end.end(repeat, [an_answer("jatoba")], earlier=Earlier(source.pk, [an_answer("ipe", OFFER)]))
    assert result.shown["ipe"][0].offer_id == Offer.objects.get().pk
    assert Offer.objects.get().refreshed_at == refreshed_at
    assert repeat.simulation_group == source.pk
    assert len(told("lead")) == 1


def test_the_older_quote_of_a_slower_query_takes_nothing_from_a_newer_one(partner: Partner) -> None:
    """Before the fix, the offer got its older identifier again, and was no longer expired."""
    slow, fast = a_running_query(partner), a_running_query(partner, banks=["ipe"])
    end.end(fast, [an_answer("ipe", replace(OFFER, native_offer_id="new", quoted_at=timezone.now()))])
    Offer.objects.update(expired_at=timezone.now())
    end.end(slow, [an_answer("ipe", replace(OFFER, native_offer_id="old"))])
    offer = Offer.objects.get()
    assert (offer.native_offer_id, offer.earlier_native_ids, offer.expired_at is None) == ("new", ["old"], False)
    newest = replace(OFFER, native_offer_id="newest", quoted_at=timezone.now())
    offers.persist_all({fast: {"ipe": [newest]}, slow: {"ipe": [OFFER]}})
    assert Offer.objects.get().native_offer_id == "newest", "in one batch, too"


def test_so_far_it_shows_what_landed_and_offers_that_can_be_submitted(partner: Partner) -> None:
    query = a_running_query(partner)
    land(query, an_answer("ipe", OFFER))
    for _ in range(2):
        reply = json.loads(end.read_or_end(query).reply())
        assert (reply["complete"], reply["partnerReference"]) == (False, "pedido-1")
        assert {bank: result["status"] for bank, result in reply["providerResults"].items()} == {
            "cedro": "processing",
            "ipe": "ok",
            "jatoba": "processing",
        }
        assert reply["providerResults"]["cedro"]["success"] is True
        offer = Offer.objects.get()
        assert [each["offerId"] for each in reply["proposals"]] == [str(offer.pk)]
        assert reply["simulationGroupId"] == str(query.id)
    end.end(query, [an_answer("ipe", OFFER), an_answer("cedro"), an_answer("jatoba")])
    assert Offer.objects.get().pk == offer.pk
    assert len(told("lead")) == 1
    assert json.loads(end.read_or_end(Query.objects.get(pk=query.pk)).reply())["complete"] is True


@pytest.mark.parametrize(("takes", "source"), [(1, "bank"), (0, "service")])
def test_reading_an_overdue_query_ends_it(partner: Partner, takes: int, source: str) -> None:
    """Before the fix, banks that nobody had asked, because Redis was away, were named as who can act."""
    query = a_running_query(partner, since_s=32, takes=takes)
    reply = json.loads(end.read_or_end(query).reply())
    assert reply["complete"] is True
    assert {result["error"] for result in reply["providerResults"].values()} == {BankTimedOut().message}
    reasons = [result["reasons"][0] for result in reply["providerResults"].values()]
    assert {(each["code"], each["source"]) for each in reasons} == {("timeout", source)}


# --- in the worker


def kept(query: Query) -> set[str]:
    return set(end.kept_answers(query))


@pytest.mark.usefixtures("transactional_db")
@pytest.mark.parametrize("others", [(), ("another",)])
def test_an_answer_is_kept_while_other_banks_are_asked(
    partner: Partner, monkeypatch: pytest.MonkeyPatch, others: tuple[str, ...]
) -> None:
    """Before the fix, up to 20 ms later even without another query, and lost if the worker died before."""
    monkeypatch.setattr(ask, "_running", {*others})
    query = a_running_query(partner)

    def are_kept(banks: list[str]) -> bool:
        gevent.sleep(0)  # the greenlets share this thread
        return kept(query) >= set(banks)

    def answer_in_turn(_: ask.Taken, bank: str) -> Answer:
        wait_until(lambda: are_kept(BANKS[: BANKS.index(bank)]), 10, "those before are kept")
        return an_answer(bank)

    monkeypatch.setattr(ask, "_answer", answer_in_turn)
    ask.run(str(query.id))
    assert {answer.provider for answer in Query.objects.get().stored_answers()} == set(BANKS)
    assert kept(query) == set(), "the row has them now"


def test_one_worker_takes_a_query_and_keeps_it_until_after_the_deadline(partner: Partner) -> None:
    query = a_running_query(partner, since_s=10)
    taken = ask.take(str(query.id))
    assert taken is not None
    row = Query.objects.get()
    assert (row.worker, row.takes, row.lease_until) == (later.worker_id(), 1, row.deadline_at + timedelta(seconds=1.5))
    assert ask.take(str(query.id)) is None, "a second copy of the task"
    assert not Query.due().exists()


def test_the_query_of_a_dead_worker_is_published_again_and_taken_once_more(partner: Partner) -> None:
    """The banks whose answer was kept are not asked again, nor the one that may have sent the holder an SMS."""
    query = a_running_query(partner, since_s=10, banks=["canela", "cedro", "ipe", "jatoba"])
    query.reuse(msgspec.to_builtins([an_answer("cedro")]), None)  # which no later failure takes the place of
    assert ask.take(str(query.id)) is not None
    land(query, an_answer("ipe"))
    Query.objects.update(worker=dead_worker())
    later.end_dead_leases()
    assert later.tasks_due() == ["consultas.query.end.take_over"]
    with capture_logs() as logs:
        end.take_over()
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["query_published_again"]
    assert later.tasks_due() == [], "another copy follows only if nobody takes this one"
    again = ask.take(str(query.id))
    assert again.query.takes == 2
    assert ask._banks_to_ask(again.query, ["cedro", "ipe"]) == ["jatoba"]
    late = a_running_query(partner, since_s=28)
    end._publish_lost()
    late.refresh_from_db()
    assert late.due_at == late.deadline_at + timedelta(seconds=1.5), "before the fix, 3 s after its deadline"


def test_a_query_that_ends_while_its_lost_task_is_published_again_stays_ended(
    partner: Partner, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = a_running_query(partner)
    end.end(query)
    monkeypatch.setattr(Query, "due", lambda *_: Query.objects.all())  # as read before the end
    end._publish_lost()
    assert Query.objects.get().due_at is None


@pytest.mark.parametrize(("since_s", "late"), [(29, {"cedro", "jatoba"}), (31, {"cedro", "jatoba"}), (4, set())])
def test_a_bank_that_had_less_than_its_time_is_told_apart_to_operators(
    partner: Partner, since_s: float, late: set[str]
) -> None:
    """Before the fix, operators read `O banco não respondeu a tempo.` of a query that was taken after 29 s."""
    for bank in BANKS:
        ProviderFactory(name=bank, timeout_s=28)
    taken = ask.take(str(a_running_query(partner, since_s=since_s).id))
    assert taken is not None
    answers = ask.mark_late(taken, [an_answer("ipe"), failed("cedro", BankTimedOut(), 1)])
    assert {each.provider for each in answers if each.operator_code == "late"} == late
    assert {each.provider: each.error for each in answers} == {
        "ipe": None,
        **dict.fromkeys(late or {"cedro"}, "O banco não respondeu a tempo."),
    }
