"""Identical queries: a repeat of an ended one asks no bank. Of those at the same time one asks, for all. And which
banks get the portfolio that a partner names (`originador`)."""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from consultas.models import Offer, Query
from consultas.query import end, stream, web
from consultas.query.end import Earlier
from consultas.serializers import AggregatedQueryRequest
from foundation import workers
from foundation.json import parse_json_object
from foundation.validation import validated
from partners.contract import AllowedBank
from partners.models import Partner
from providers.errors import BankTimedOut, ProviderUnavailable
from tests.client import query_body
from tests.consultas.test_ending import BANKS, a_running_query, an_answer, identical, land, partner, statuses
from tests.factories import PartnerFactory
from tests.providers.samples import OFFER
from tests.transactions import at_once
from tests.webhooks.deliveries import told

__all__ = ["partner"]

pytestmark = pytest.mark.django_db
HOLDER = validated(AggregatedQueryRequest, query_body(geolocation=None))


@pytest.fixture
def source() -> Query:
    """An ended query with one offer."""
    query = a_running_query(PartnerFactory(), fingerprint=uuid.uuid4().hex)
    end.end(query, [an_answer("ipe", OFFER), an_answer("jatoba"), an_answer("cedro")])
    return query


def begun(source: Query) -> tuple[Query, Earlier | None]:
    """A query with the fingerprint of `source`, and what it repeats."""
    query = identical(source)
    return query, web.insert_unless_running(query)


def reply_of(query: Query, earlier: Earlier) -> dict[str, Any]:
    result = web.end_if_repeated(query, earlier)
    assert result is not None, "it asks no bank"
    return json.loads(result.reply())


def test_it_needs_one_statement_more_than_its_row_and_no_lock(
    source: Query, django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with django_assert_num_queries(1):
        query, earlier = begun(source)
    monkeypatch.delattr("foundation.workers.listen")
    with django_assert_num_queries(1):
        reply = reply_of(query, earlier)
    assert [offer["offerId"] for offer in reply["proposals"]] == [str(Offer.objects.get().pk)]
    assert set(reply["providerResults"]) == set(BANKS)
    assert reply["simulationGroupId"] == str(source.pk)
    query.refresh_from_db()
    source.refresh_from_db()
    assert query.finished_at is not None
    assert query.simulation_group == source.pk
    assert query.stored_answers() == source.stored_answers()


def test_an_offer_that_another_query_has_refreshed_is_looked_up(source: Query) -> None:
    other = a_running_query(source.partner)
    end.end(other, [an_answer("ipe", OFFER)])
    query, earlier = begun(source)
    assert not earlier.offer_ids
    assert [offer["offerId"] for offer in reply_of(query, earlier)["proposals"]] == [str(Offer.objects.get().pk)]


def test_a_repeat_of_a_repeat_shows_the_offers_of_the_first(source: Query) -> None:
    reply_of(*begun(source))
    query, earlier = begun(source)
    assert set(earlier.offer_ids.values()) == {Offer.objects.get().pk}
    assert reply_of(query, earlier)["simulationGroupId"] == str(source.pk)


def test_an_expired_offer_makes_its_bank_to_be_asked_again(source: Query) -> None:
    Offer.objects.update(expired_at=timezone.now())
    _, earlier = begun(source)
    assert {answer.provider for answer in earlier.still_good()} == {"cedro", "jatoba"}


def test_an_offer_that_is_gone_meanwhile_is_stored_anew(source: Query) -> None:
    Offer.objects.all().delete()
    [offer] = reply_of(*begun(source))["proposals"]
    assert offer["offerId"] == str(Offer.objects.get().pk)


@pytest.mark.parametrize("kind", [Query.Kind.STREAM, Query.Kind.INDIVIDUAL])
def test_a_query_repeats_one_of_the_aggregated_route_whatever_came_between(kind: Query.Kind) -> None:
    """Before the fix, a stream between the two queries began a new group, and a second `lead` was sent."""
    partner, banks = PartnerFactory(), [AllowedBank("ipe", None, True)]
    first, _ = web.begin(partner, {**HOLDER}, Query.Kind.AGGREGATED, "r-1", banks)
    end.end(first, [an_answer("ipe", OFFER)])
    end.end(web.begin(partner, {**HOLDER}, kind, "r-2", banks)[0], [an_answer("ipe", OFFER)])
    _, result = web.begin(partner, {**HOLDER}, Query.Kind.AGGREGATED, "r-3", banks)
    assert result.query.simulation_group == first.pk


def test_a_repeat_may_spell_its_numbers_otherwise_and_its_defaults_out() -> None:
    partner, banks = PartnerFactory(), [AllowedBank("ipe", None, True)]
    defaults = b', "sexo": 0, "with_insurance": true, "loan_value": null, "prazo": null}'
    text = json.dumps(query_body(geolocation={"lat": -23.5, "lng": -46})).encode()
    first, other = (
        web.begin(
            partner, validated(AggregatedQueryRequest, parse_json_object(each)), Query.Kind.AGGREGATED, "r-1", banks
        )[0]
        for each in (text, text.replace(b"-23.5", b"-23.50").replace(b"-46", b"-4.60e1")[:-1] + defaults)
    )
    assert other.follows == first.pk


def test_a_running_or_old_query_is_not_repeated(source: Query) -> None:
    Query.objects.filter(pk=source.pk).update(created_at=timezone.now() - timedelta(seconds=end.REPEAT_S + 1))
    _, earlier = begun(source)
    assert earlier == Earlier()
    assert begun(source)[1] is None, "one is running"


# --- at the same time


@pytest.fixture
def leader(partner: Partner, transactional_db: None, redis_url: str) -> Query:
    """A query whose web process and worker died. Connections are given back while it waits."""
    return a_running_query(partner, fingerprint=uuid.uuid4().hex)


def follower_of(leader: Query) -> Query:
    query = identical(leader)
    assert web._insert(query) == Earlier()
    return query


def reply_to(query: Query) -> bytes:
    try:
        return bytes(web.aggregate(query))
    finally:
        connection.close()


def test_the_second_asks_no_bank_and_shows_the_firsts_offers(leader: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("foundation.workers.publish")
    follower = follower_of(leader)
    assert follower.follows == leader.id
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(reply_to, follower)
        end.end(leader, [an_answer("ipe", OFFER), an_answer("cedro"), an_answer("jatoba")])
        reply = json.loads(waiting.result(20))
    assert (reply["queryId"], reply["simulationGroupId"]) == (str(follower.id), str(leader.id))
    assert [offer["provider"] for offer in reply["proposals"]] == ["ipe"]
    assert statuses(follower) == statuses(leader)
    assert len(told("lead")) == 1
    assert len(told("query.completed")) == 2


def test_a_reader_that_only_sees_that_the_query_has_ended_replies_with_its_result(
    leader: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the fix, a reader that had missed the worker's message was answered 200 with the body `null`."""
    monkeypatch.setattr("foundation.workers.hear", lambda *_, **__: iter([(workers.READY, b"")]))
    end.end(leader, [an_answer("ipe", OFFER)])
    reply = json.loads(reply_to(leader))
    assert [offer["provider"] for offer in reply["proposals"]] == ["ipe"]


def test_of_many_at_the_same_moment_one_asks(leader: Query) -> None:
    end.end(leader)
    Query.objects.filter(pk=leader.pk).update(created_at=timezone.now() - timedelta(seconds=61))
    queries = [identical(leader) for _ in range(8)]
    at_once(*(partial(web._insert, query) for query in queries))
    [asks] = [query for query in queries if query.follows is None]
    assert {query.follows for query in queries} == {None, asks.id}


def test_at_its_deadline_the_follower_takes_the_leaders_answers_so_far(
    leader: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the fix, the follower showed a time-out for every bank. One `lead` is sent, and both show the same
    offer."""
    monkeypatch.setattr(web, "END_ITSELF_AFTER_S", 0.0)
    follower = follower_of(leader)
    land(leader, an_answer("ipe", OFFER), an_answer("cedro"))
    Query.objects.update(deadline_at=timezone.now())
    follower.refresh_from_db()
    reply = json.loads(reply_to(follower))
    end.end(leader)
    assert len(told("lead")) == 1
    assert (
        statuses(leader)
        == statuses(follower)
        == {
            "cedro": "no_offers",
            "ipe": "ok",
            "jatoba": BankTimedOut().message,
        }
    )
    assert [offer["provider"] for offer in reply["proposals"]] == ["ipe"]
    assert len(told("query.completed")) == 2


def test_a_follower_shows_the_leaders_group_and_answers_at_any_time(leader: Query) -> None:
    """Before the fix, a group of its own first, and no answer between the leader's end and its own."""
    follower = follower_of(leader)
    land(leader, an_answer("ipe", OFFER))
    early = end.read_or_end(Query.of(leader.partner, str(follower.pk)))
    workers.tell_end(str(leader.pk), end.end(leader).told(), 1)
    late = end.read_or_end(Query.of(leader.partner, str(follower.pk)))
    assert [json.loads(each.reply())["simulationGroupId"] for each in (early, late)] == [str(leader.pk)] * 2
    assert statuses(follower) == statuses(leader)


def test_a_streams_reader_that_ends_the_query_tells_its_lead(leader: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the fix, it took its own guess of the group for one that another query had told."""
    monkeypatch.setattr(web, "STORED_WITHIN_S", 0.1)
    land(leader, an_answer("ipe", OFFER), an_answer("cedro"), an_answer("jatoba"))
    assert b"complete" in b"".join(stream.events(leader, publishes=False))
    assert len(told("lead")) == 1


def test_a_reader_of_some_banks_ends_no_query_before_its_deadline(
    leader: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the fix, a stream resumed after another query's event ended this one when the banks it lacked had come."""
    monkeypatch.setattr(web, "END_ITSELF_AFTER_S", 0.0)
    monkeypatch.setattr(web, "STORED_WITHIN_S", 0.1)
    leader.deadline_at = timezone.now() + timedelta(seconds=1)
    land(leader, an_answer("cedro"))
    assert b"complete" in b"".join(stream.events(leader, stream.position(leader, "b6"), publishes=False))
    assert Query.objects.get().finished_at >= leader.deadline_at


def test_without_a_worker_the_deadline_ends_the_query(leader: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "END_ITSELF_AFTER_S", 0.0)
    monkeypatch.setattr("foundation.workers.publish", lambda *_, **__: True)
    leader.deadline_at = timezone.now() + timedelta(seconds=0.5)
    with pytest.raises(ProviderUnavailable, match="Nenhum banco respondeu"):
        web.aggregate(leader)
    assert set(statuses(leader).values()) == {BankTimedOut().message}


def test_a_query_whose_time_is_over_is_followed_by_none(leader: Query) -> None:
    land(leader, an_answer("ipe", OFFER))
    leader.deadline_at = timezone.now()
    leader.save(update_fields=["deadline_at"])
    query = identical(leader)
    earlier = web._insert(query)
    assert query.follows is None
    assert [answer.provider for answer in earlier.still_good()] == ["ipe"]
    leader.refresh_from_db()
    assert leader.finished_at is not None


# --- Portfolios -----------------------------------------------------------------------------------------------------

CONTRACT = [
    AllowedBank("aroeira", None, True, ("A-1", "A-2")),
    AllowedBank("cedro", "FIXED", True),
    AllowedBank("ipe", None, True, ("A-1",)),
    AllowedBank("jatoba", None, True),
]


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ("A-1", {"aroeira": "A-1", "cedro": "FIXED", "ipe": "A-1", "jatoba": None}),
        ("A-2", {"aroeira": "A-2", "cedro": "FIXED", "ipe": None, "jatoba": None}),
        ("a-1", {"aroeira": None, "cedro": "FIXED", "ipe": None, "jatoba": None}),
        ("", {"aroeira": None, "cedro": "FIXED", "ipe": None, "jatoba": None}),
        (None, {"aroeira": None, "cedro": "FIXED", "ipe": None, "jatoba": None}),
    ],
)
def test_a_portfolio_reaches_the_banks_that_the_contract_lists_it_for(
    asked: str | None, sent: dict[str, str | None]
) -> None:
    """Before the fix, every bank for which the contract fixed no portfolio got it."""
    query, _ = web.begin(PartnerFactory(), HOLDER | {"portfolio": asked}, Query.Kind.AGGREGATED, "r-1", CONTRACT)
    assert {bank.name: query.for_bank(bank.name).portfolio for bank in CONTRACT} == sent
    stored = Query.objects.get(pk=query.pk)
    assert {bank.name: stored.for_bank(bank.name).portfolio for bank in CONTRACT} == sent


def test_a_portfolio_that_reaches_no_bank_makes_no_other_query() -> None:
    """Such a portfolio is ignored like an unknown field: a repeat within 60 s is the same query."""
    partner = PartnerFactory()
    first, ignored, listed = (
        web.begin(partner, HOLDER | {"portfolio": asked}, Query.Kind.AGGREGATED, "r-1", CONTRACT)[0]
        for asked in (None, "OTHER", "A-1")
    )
    assert (ignored.follows, listed.follows) == (first.id, None)
