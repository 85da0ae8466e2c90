"""Every failed call of the API can be found, and its record has no personal data."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from partners import failed_calls
from partners.failed_calls import FailedCall
from tests.client import Client as PartnerClient
from tests.client import query_body
from tests.factories import PartnerFactory, issue_key
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


def test_a_call_that_succeeds_leaves_nothing(client: Client, notes: failed_calls.Notes) -> None:
    _, secret = issue_key(PartnerFactory(providers=["ipe"]))
    assert client.get("/partners/v1/proposals", headers={"X-Partner-Api-Key": secret}).status_code == 200
    client.get("/admin/nada/")
    assert failed_calls.write() == 0


def test_old_ones_go(settings: object) -> None:
    now = timezone.now()
    for days in (29, 31):
        FailedCall.objects.create(
            at=now - timedelta(days=days), method="GET", route="r", status=404, request_id=f"r-{days}"
        )
    assert failed_calls.purge() == 1
    assert (len(told("r-29")), told("r-31")) == (1, [])


def test_the_list_is_searched_by_request_and_key(admin_client: Client) -> None:
    partner = PartnerFactory(name="Financeira Um")
    for number in (1, 2):
        FailedCall.objects.create(
            partner=partner,
            key_prefix="cpk_test_abcdef",
            method="POST",
            route="partners/v1/consultas",
            status=422,
            code="invalid_input",
            field="cpf",
            request_id=f"pedido-{number}",
        )
    address = reverse("admin:partners_failedcall_changelist")
    found = admin_client.get(address, {"q": "pedido-2"})
    assert [row.request_id for row in found.context["cl"].result_list] == ["pedido-2"]
    assert "422 invalid_input" in found.content.decode()
    assert admin_client.get(address, {"q": "cpk_test_abcdef"}).context["cl"].result_count == 2
    assert admin_client.get(address, {"q": "cpk_test_abcdef", "code": "not_found"}).context["cl"].result_count == 0
    page = admin_client.get(
        reverse("admin:partners_failedcall_change", args=[FailedCall.objects.get(request_id="pedido-1").pk])
    )
    assert "Financeira Um" in page.content.decode()


@pytest.mark.django_db(transaction=True)
def test_without_the_database_the_notes_are_dropped(notes: failed_calls.Notes, cut_database: object) -> None:
    from django.db import connection

    notes.note(FailedCall(method="GET", route="r", status=503, request_id="r-1"))
    before = failed_calls.DROPPED._value.get()
    connection.close()
    with cut_database():
        connection.close()
        assert failed_calls.write() == 0
    assert failed_calls.DROPPED._value.get() == before + 1
    assert failed_calls.write() == 0


def test_the_running_service_writes_them(live_service: LiveService) -> None:
    stranger = PartnerClient(live_service.url, "cpk_test_" + "y" * 43)
    assert stranger.get("/proposals").status_code == 401
    wait_until(lambda: FailedCall.objects.filter(key_prefix="cpk_test_yyyyyy").exists(), 10, "the failed call is kept")
