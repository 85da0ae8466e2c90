"""Every failed call of the API can be found, and its record has no personal data."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from consultas import admission
from foundation import listing
from foundation.formats import iso_utc
from partners import failed_calls, limits
from partners.failed_calls import FailedCall
from partners.models import Partner
from tests.client import Client as PartnerClient
from tests.client import query_body
from tests.factories import PartnerFactory, http_of, issue_key
from tests.operators import see
from tests.plans import assert_found_by, copy_rows
from tests.processes import LiveService, wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> failed_calls.Notes:
    """Records of this test alone, because other tests' failed calls stay in this process's memory."""
    monkeypatch.setattr(failed_calls, "notes", failed_calls.Notes())
    return failed_calls.notes


def told(request_id: str) -> list[tuple[object, ...]]:
    """The records of one request id: the web process of an earlier test may still write its own."""
    rows = FailedCall.objects.filter(request_id=request_id).order_by("pk")
    return list(rows.values_list("partner", "method", "route", "status", "code", "field"))


def a_failed_call(partner: Partner | None, number: int, **changes: Any) -> FailedCall:
    values = {
        "at": timezone.now() - timedelta(minutes=number),
        "method": "POST",
        "route": "partners/v1/proposals/<str:proposal_id>/cancel",
        "status": 422,
        "code": "invalid_input",
        "field": "motivo",
        "request_id": f"own-{number}",
    }
    return FailedCall.objects.create(partner=partner, **{**values, **changes})


def test_a_failed_call_is_kept_by_its_route(client: Client, notes: failed_calls.Notes) -> None:
    partner = PartnerFactory(providers=["ipe"])
    _, secret = issue_key(partner)
    headers = {"X-Partner-Api-Key": secret, "X-Request-Id": "pedido-0001"}
    body = json.dumps({**query_body(), "cpf": "12345678900"})
    invalid = client.post("/partners/v1/consultas", body, content_type="application/json", headers=headers)
    unknown = client.get("/partners/v1/proposals/7c9e6679-7425-40de-944b-e07fc1f90ae7", headers=headers)
    nowhere = client.get("/partners/v1/nada/90000000175", headers=headers)
    stranger = client.get("/partners/v1/proposals", headers={**headers, "X-Partner-Api-Key": "cpk_test_" + "x" * 43})
    assert [each.status_code for each in (invalid, unknown, nowhere, stranger)] == [422, 404, 404, 401]
    assert told("pedido-0001") == [], "the reply waits for no row"
    assert failed_calls.write() == 4
    assert told("pedido-0001") == [
        (partner.pk, "POST", "partners/v1/consultas", 422, "invalid_input", "cpf"),
        (partner.pk, "GET", "partners/v1/proposals/<str:proposal_id>", 404, "not_found", ""),
        (None, "GET", "(nenhuma)", 404, "not_found", ""),
        (None, "GET", "partners/v1/proposals", 401, "unauthorized", ""),
    ]
    assert FailedCall.objects.get(request_id="pedido-0001", status=401).key_prefix == "cpk_test_xxxxxx"
    assert not any(person in str(told("pedido-0001")) for person in ("12345678900", "90000000175"))
    assert client.get("/partners/v1/proposals", headers=headers).status_code == 200
    client.get("/admin/nada/")
    assert failed_calls.write() == 0, "neither a call that succeeds nor a page"


@pytest.mark.parametrize("why", ["suspended", "revoked", "elsewhere"])
def test_a_refused_call_is_its_partners_if_the_key_is_known(
    client: Client, notes: failed_calls.Notes, why: str
) -> None:
    """Before the fix, a suspended partner called all day, and its page told of no call and no failure."""
    key, secret = issue_key(networks=["203.0.113.7"] if why == "elsewhere" else [])
    if why == "suspended":
        key.partner.suspend()
    elif why == "revoked":
        key.revoke()
    headers = {"X-Partner-Api-Key": secret, "X-Request-Id": f"recusada-{why}"}
    assert client.get("/partners/v1/proposals", headers=headers).status_code == 401
    failed_calls.write()
    assert told(f"recusada-{why}") == [(key.partner_id, "GET", "partners/v1/proposals", 401, "unauthorized", "")]


def test_old_ones_go(settings: object) -> None:
    now = timezone.now()
    for days in (29, 31):
        a_failed_call(None, 0, at=now - timedelta(days=days), request_id=f"r-{days}")
    assert failed_calls.purge() == 1
    assert (len(told("r-29")), told("r-31")) == (1, [])


def test_the_list_is_searched_by_request_and_key(admin_client: Client) -> None:
    partner = PartnerFactory(name="Financeira Um")
    first, _ = (a_failed_call(partner, number, key_prefix="cpk_test_abcdef") for number in (1, 2))
    address = reverse("admin:partners_failedcall_changelist")
    found = admin_client.get(address, {"q": "own-2"})
    assert [row.request_id for row in found.context["cl"].result_list] == ["own-2"]
    assert "422 invalid_input" in found.text
    assert admin_client.get(address, {"q": "cpk_test_abcdef"}).context["cl"].result_count == 2
    assert admin_client.get(address, {"q": "cpk_test_abcdef", "code": "not_found"}).context["cl"].result_count == 0
    see(admin_client, first, "Financeira Um")


@pytest.mark.parametrize("limit", ["per-minute", "in-flight", "cpfs-per-day", "capacity"])
def test_a_refusal_says_to_operators_which_limit_was_reached(
    client: Client, notes: failed_calls.Notes, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """Before the fix, all limits were `429 rate_limited, campo —`. The partner's own list is as before."""
    partner = PartnerFactory(rate_limit=1, in_flight_limit=1, daily_cpf_limit=1)
    headers = {"X-Partner-Api-Key": issue_key(partner)[1], "X-Request-Id": f"limite-{limit}"}
    usage, leave = limits.Usage(partner), lambda: None
    if limit == "per-minute":
        usage.count_call()
    elif limit == "in-flight":
        leave = usage.enter()
    elif limit == "cpfs-per-day":
        usage.count_cpf("11144477735")
    else:
        monkeypatch.setattr(admission, "admission", admission.Admission(0))
    refused = client.post("/partners/v1/consultas", query_body(), content_type="application/json", headers=headers)
    leave()
    assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (429, "rate_limited", None)
    failed_calls.write()
    assert told(f"limite-{limit}") == [(partner.pk, "POST", "partners/v1/consultas", 429, "rate_limited", limit)]
    Partner.objects.update(rate_limit=None)
    [call] = client.get("/partners/v1/failed-calls", headers=headers).json()["failed_calls"]
    assert (call["code"], call["field"]) == ("rate_limited", None)


@pytest.mark.django_db(transaction=True)
def test_without_the_database_the_notes_are_dropped(notes: failed_calls.Notes, cut_database: object) -> None:
    notes.note(FailedCall(method="GET", route="r", status=503, request_id="r-1"))
    before = failed_calls.DROPPED._value.get()
    connection.close()
    with cut_database():
        connection.close()
        assert failed_calls.write() == 0
    assert failed_calls.DROPPED._value.get() == before + 1
    assert failed_calls.write() == 0


OWN = "/partners/v1/failed-calls"


def own(http: Client, **filters: object) -> list[str]:
    """The request ids of the calls in a partner's own list."""
    return [call["request_id"] for call in http.get(OWN, filters).json()["failed_calls"]]


def test_a_partner_reads_its_own_failed_calls() -> None:
    partner, other = PartnerFactory(), PartnerFactory()
    first, second = a_failed_call(partner, 1), a_failed_call(partner, 2, code="not_found", field="", times=7)
    a_failed_call(partner, 3, route=failed_calls.NO_ROUTE)
    a_failed_call(other, 1, request_id="of-another")
    a_failed_call(None, 1, request_id="of-nobody")
    http = http_of(partner)
    shown = http.get(OWN).json()
    assert shown["failed_calls"][0] == {
        "at": iso_utc(first.at),
        "method": "POST",
        "route": "/partners/v1/proposals/{proposal_id}/cancel",
        "status": 422,
        "code": "invalid_input",
        "field": "motivo",
        "request_id": "own-1",
        "times": 1,
    }
    assert (shown["failed_calls"][1]["field"], shown["failed_calls"][1]["times"]) == (None, 7)
    assert shown["failed_calls"][2]["route"] == ""
    assert own(http) == ["own-1", "own-2", "own-3"]
    assert own(http, request_id="own-2") == ["own-2"]
    assert own(http, request_id="of-another") == []
    assert own(http, code="not_found") == ["own-2"]
    assert own(http, **{"from": iso_utc(second.at)}) == ["own-1", "own-2"]
    assert own(http, to=iso_utc(second.at)) == ["own-3"]
    page = http.get(OWN, {"limit": 2}).json()
    assert [call["request_id"] for call in page["failed_calls"]] == ["own-1", "own-2"]
    assert own(http, cursor=page["next_cursor"]) == ["own-3"]
    assert own(http, cursor=listing.encode(second.at, "9" * 40)) == ["own-2", "own-3"]


WRONG = [
    ("code", "zzz"),
    ("from", "ontem"),
    ("to", "2026-01-01T00:00:00"),
    ("limit", "0"),
    ("limit", "101"),
    ("limit", "dez"),
    ("cursor", "x"),
    ("cursor", listing.encode(datetime(2026, 1, 1, tzinfo=UTC), "1_0")),
    ("request_id", "x" * 129),
]


def test_a_wrong_filter_is_named() -> None:
    http = http_of()
    for name, value in WRONG:
        answer = http.get(OWN, {name: value})
        assert (answer.status_code, answer.json()["field"]) == (422, name), value


def test_every_filter_of_the_own_list_has_its_index() -> None:
    partner, other = PartnerFactory(), PartnerFactory()
    copy_rows(
        a_failed_call(partner, 0, code="not_found"),
        20_000,
        id="-n",
        partner_id=f"CASE n % 10 WHEN 0 THEN partner_id ELSE '{other.pk}' END",
        code="CASE n % 500 WHEN 0 THEN 'rate_limited' ELSE code END",
        request_id="'r-' || n",
        at="at - n * interval '1 hour'",
    )
    http = http_of(partner)
    for filters, index in (
        ({}, "failed_call_partner"),
        ({"to": iso_utc(timezone.now() - timedelta(hours=200))}, "failed_call_partner"),
        ({"code": "rate_limited"}, "failed_call_code"),
        ({"request_id": "r-10"}, "failed_call_request"),
    ):
        assert_found_by(index, "LIMIT 51", lambda filters=filters: own(http, **filters))


def test_the_running_service_tells_the_partner(live_service: LiveService) -> None:
    _, secret = issue_key(PartnerFactory())
    partner = PartnerClient(live_service.url, secret)
    failed = partner.get("/proposals/nada")
    assert failed.status_code == 404
    path = f"/failed-calls?request_id={failed.headers['X-Request-Id']}"
    [call] = wait_until(lambda: partner.read(path)["failed_calls"], 10, "the partner is told of its failed call")
    assert (call["route"], call["status"]) == ("/partners/v1/proposals/{proposal_id}", 404)
