"""Hand-written statements do the same as the ORM, and are prepared on pooled connections only."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import DataError, IntegrityError, connection, transaction
from django.utils import timezone

from consultas.models import Query
from consultas.query import ask
from foundation import database
from partners.contract import AllowedBank
from partners.models import SANDBOX_KEY, ApiKey
from providers.models import Provider, enabled_connections
from tests.factories import PartnerFactory, issue_key
from tests.plans import execute
from webhooks.models import Event

pytestmark = pytest.mark.django_db


def a_query(**fields: Any) -> Query:
    filled: dict[str, Any] = {
        "partner": PartnerFactory(),
        "kind": Query.Kind.AGGREGATED,
        "cpf_index": "0" * 64,
        "request": {"cpf": "90000000175", "name": "Maria"},
        "banks": ["aroeira"],
        "portfolios": {"aroeira": "12"},
        "request_id": "request-1",
        "deadline_at": "2030-01-01T00:00:00Z",
    }
    return Query(**filled | fields)


def values(row: Any, *without: str) -> dict[str, Any]:
    fields = [field.attname for field in row._meta.concrete_fields if field.name not in without]
    return {name: getattr(row, name) for name in fields}


def test_an_inserted_row_is_what_save_would_have_stored():
    ours, theirs = a_query(), a_query()
    database.insert(ours)
    theirs.partner = ours.partner
    theirs.created_at = ours.created_at
    theirs.save(force_insert=True)
    stored = [values(Query.objects.get(pk=each.pk), "id") for each in (ours, theirs)]
    assert stored[0] == stored[1]
    assert not ours._state.adding
    ours.request_id = "request-2"
    ours.save()
    assert Query.objects.get(pk=ours.pk).request_id == "request-2"


def test_a_select_in_the_statement_that_inserts_a_row_does_not_see_it():
    first, second = a_query(fingerprint="one"), a_query(fingerprint="two")
    select = "SELECT (SELECT id FROM inserted), id FROM (SELECT) one LEFT JOIN consultas_query ON request_id = %s"
    unless = "(fingerprint) WHERE finished_at IS NULL AND fingerprint <> ''"
    assert database.insert_and_fetch(first, select, ["request-1"], unless) == (first.pk, None)
    assert database.insert_and_fetch(second, select, ["request-1"], unless) == (second.pk, first.pk)
    assert not second._state.adding
    same = a_query(fingerprint="one", request_id="request-2")
    assert database.insert_and_fetch(same, select, ["request-2"], unless) == (None, None)
    assert set(Query.objects.values_list("pk", flat=True)) == {first.pk, second.pk}


def test_many_rows_are_updated_in_one_statement(django_assert_num_queries):
    rows = [a_query(), a_query(), a_query()]
    database.insert(*rows)
    before = [values(Query.objects.get(pk=row.pk)) for row in rows]
    rows[0].banks, rows[0].finished_at, rows[0].cpf_index = ["ipe"], rows[0].created_at, "1" * 64
    rows[1].banks, rows[1].finished_at = ["ipe"], None
    with django_assert_num_queries(1):
        assert database.update(rows[:2], ("finished_at", "cpf_index")) == 2
    before[0] |= {"finished_at": rows[0].created_at, "cpf_index": "1" * 64}
    assert [values(Query.objects.get(pk=row.pk)) for row in rows] == before, "only the named fields"
    assert database.update([], ("finished_at",)) == 0


def test_many_rows_are_inserted_in_one_statement_as_the_orm_does_it(django_assert_num_queries):
    partner = PartnerFactory()
    ours, theirs = ([Event(partner=partner, name="lead", body=f"{{{n}}}") for n in range(3)] for _ in range(2))
    with django_assert_num_queries(1):
        database.insert(*ours)
    Event.objects.bulk_create(theirs)
    own = ("id", "created_at", "due_at")
    stored = [[values(Event.objects.get(pk=each.pk), *own) for each in rows] for rows in (ours, theirs)]
    assert stored[0] == stored[1]
    assert not any(each._state.adding for each in ours)
    database.insert()
    too_long = [Event(partner=partner, name="x" * 61) for _ in range(2)]
    for rows, error in ((too_long, DataError), (ours, IntegrityError)):
        with pytest.raises(error), transaction.atomic():
            database.insert(*rows)
    assert Event.objects.count() == 6, "the transaction is usable"


def test_a_queryset_is_written_out_with_its_values():
    rows = [a_query(request_id="it's %s"), a_query()]
    database.insert(*rows)
    mine = Query.objects.filter(request_id="it's %s", created_at__lte="2030-01-01T00:00:00Z").order_by()
    sql = database.written_out(mine.filter(pk=rows[0].pk).values_list("id"), key=rows[0].pk)
    assert "%(key)s" in sql
    assert database.fetch_one(sql, {"key": rows[0].pk}) == (rows[0].pk,)


def test_a_row_is_read_as_the_orm_reads_it_and_what_is_left_out_is_read_later(django_assert_num_queries):
    query = a_query(answers=[{"provider": "aroeira"}])
    query.save()
    with django_assert_num_queries(1):
        taken = ask.take(str(query.pk))
        found = taken.query
        assert found.partner.wants_event("lead")
    assert values(found) == values(Query.objects.get(pk=query.pk))
    assert (taken.connections, taken.steps, taken.pauses) == ({}, {}, {})
    with django_assert_num_queries(1):
        assert found.partner.name == query.partner.name
    assert ask.take("5a4d6b0c-0000-4000-8000-0000000000ff") is None, "a query that is gone"


def test_the_key_comes_with_its_partner_and_contract_in_one_statement(django_assert_num_queries):
    key, secret = issue_key()
    Provider.objects.create(name="bank-a", base_url="http://127.0.0.1:1", enabled=False)
    Provider.objects.create(name="bank-b", base_url="http://127.0.0.1:1")
    key.partner.allow_only(["bank-b", "bank-a"])
    key.partner.allowances.filter(provider_id="bank-b").update(portfolio="77", portfolios=["1", "2"])
    key.partner.allowances.filter(provider_id="bank-a").update(paused_until=timezone.now() + timedelta(minutes=1))
    with django_assert_num_queries(1):
        found = ApiKey.find(secret)
        contract = found.partner.allowed_banks()
    bank_a = AllowedBank("bank-a", None, False, is_paused=True)
    assert contract == [bank_a, AllowedBank("bank-b", "77", True, ("1", "2"))]
    with django_assert_num_queries(1):
        assert contract == key.partner.allowed_banks()
    assert values(found) == values(ApiKey.objects.get(pk=key.pk))
    secrets = ("webhook_secret", "retired_webhook_secrets")
    assert values(found.partner, *secrets) == values(key.partner, *secrets)
    assert found.partner.get_deferred_fields() == set(secrets)
    assert ApiKey.find(SANDBOX_KEY) is None


def test_an_account_is_never_older_than_its_row(django_assert_num_queries):
    """And the callbacks' secret is not read for it."""
    given = {"base_url": "http://127.0.0.1:1", "credentials": {"user": "u1"}, "callback_secret": "s"}
    bank = Provider.objects.create(name="bank-a", **given)
    with django_assert_num_queries(1) as captured:
        first = enabled_connections(["bank-a", "bank-b"])
    assert "callback_secret" not in captured[0]["sql"]
    assert first == {"bank-a": bank.connection()}
    assert enabled_connections(["bank-a"])["bank-a"] is first["bank-a"], "decrypted once"
    bank.credentials = {"user": "u2"}
    bank.save()
    assert enabled_connections(["bank-a"])["bank-a"].credentials == {"user": "u2"}
    Provider.objects.filter(pk="bank-a").update(timeout_s=3)
    assert enabled_connections(["bank-a"])["bank-a"].timeout_s == 3
    Provider.objects.filter(pk="bank-a").update(enabled=False)
    assert enabled_connections(["bank-a"]) == {}


@pytest.mark.parametrize(("threshold", "kept"), [(0, 1), (None, 0)])
def test_a_statement_is_kept_prepared_where_the_settings_say_so(threshold: int | None, kept: int):
    connection.ensure_connection()
    before = connection.connection.prepare_threshold
    connection.connection.prepare_threshold = threshold
    try:
        for number in (1, 2):
            assert database.fetch_one("SELECT %s::int + 4711", [number]) == (number + 4711,)
        assert execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%+ 4711%'") == [(kept,)]
    finally:
        connection.connection.prepare_threshold = before
