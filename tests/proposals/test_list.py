"""GET /partners/v1/proposals, POST /partners/v1/proposals/search and GET /partners/v1/banks."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.test import Client as DjangoClient
from django.utils import timezone

from foundation.validation import validated
from partners.models import Partner
from proposals import actions, compe
from proposals.models import BankCall, Proposal
from proposals.serializers import ListRequest
from providers.errors import ProviderUnavailable
from tests.client import FULL_FLOW, error_body
from tests.factories import PartnerFactory, http_of
from tests.plans import assert_found_by, copy_rows
from tests.proposals.datasets import JUST_SUBMITTED, dataset
from tests.proposals.rows import a_proposal as being_sent
from tests.proposals.rows import an_offer, shown
from tests.unit.test_filters import ID, cursor

OTHER_CPF = "52998224725"


def a_proposal(partner: Partner, bank: str = "ipe", cpf: str = FULL_FLOW, **changes: Any) -> Proposal:
    """A proposal that the bank accepted."""
    offer = an_offer(partner, bank, cpf)
    accepted = {"submission": "accepted", "native_id": "N-1", "native_status": "new"}
    return being_sent(offer, **{"dataset": dataset(shown(offer), cpf), **accepted, **changes})


def listed(http: DjangoClient, **filters: str) -> dict[str, Any]:
    response = http.get("/partners/v1/proposals", filters)
    assert response.status_code == 200, response.content
    return response.json()  # type: ignore[no-any-return]


def searched(http: DjangoClient, **filters: Any) -> dict[str, Any]:
    response = http.post("/partners/v1/proposals/search", filters, "application/json")
    assert response.status_code == 200, response.content
    return response.json()  # type: ignore[no-any-return]


def ids(page: dict[str, Any]) -> list[str]:
    return [row["proposal_id"] for row in page["proposals"]]


def test_a_page_whole_which_a_search_without_a_filter_gives_as_well(http: DjangoClient, partner: Partner) -> None:
    row = a_proposal(partner, data={"sequencia": 7}, error=ProviderUnavailable().as_dict())
    assert listed(http) == {
        "proposals": [
            {
                "proposal_id": str(row.pk),
                "partner_reference": None,
                "provider": "ipe",
                "status": "created",
                "offer": row.terms,
                **JUST_SUBMITTED,
                "error": ProviderUnavailable().as_dict(),
                "provider_data": {"sequencia": 7, "nativeProposalId": "N-1", "nativeStatus": "new"},
                "created_at": f"{row.created_at:%Y-%m-%dT%H:%M:%S}.{row.created_at.microsecond // 1000:03}Z",
                "updated_at": f"{row.updated_at:%Y-%m-%dT%H:%M:%S}.{row.updated_at.microsecond // 1000:03}Z",
            }
        ],
        "next_cursor": None,
    }
    assert listed(http, status="", provider="", cpf="", cursor="") == listed(http)
    assert searched(http) == searched(http, cpf=None, limit=None, cursor=None) == listed(http)
    assert http.post("/partners/v1/proposals/search", content_type="application/json").json() == listed(http)


def test_only_what_a_bank_answered_or_may_have_is_listed(http: DjangoClient, partner: Partner) -> None:
    """Before the fix, a submission of unknown outcome was nowhere (404), although its 502 named it."""
    for submission in ("sending", "not_sent"):
        a_proposal(partner, submission=submission)
    refused = a_proposal(partner, submission="refused", status="rejected")
    lost = a_proposal(partner, submission="unknown", sent_until=timezone.now())
    dying = a_proposal(partner, submission="sending", sent_until=timezone.now())
    assert ids(listed(http)) == [str(dying.pk), str(lost.pk), str(refused.pk)]
    assert ids(listed(http, status="unknown")) == ids(searched(http, status="unknown")) == [str(dying.pk), str(lost.pk)]
    assert ids(listed(http, status="created")) == []
    address = f"/partners/v1/proposals/{lost.pk}"
    shown = http.get(address).json()
    assert (shown["status"], shown["next_actions"], shown["history"]) == ("unknown", ["wait"], [])
    for call in ("formalize", "cancel"):
        told = http.post(f"{address}/{call}", "{}", content_type="application/json").json()
        assert (told["code"], told["status"], told["next_actions"]) == ("invalid_state", "unknown", ["wait"])
    Proposal.objects.update(submission="not_sent", sent_until=None)
    assert http.get(address).status_code == 404, "the bank never had it"


def test_filters(http: DjangoClient, partner: Partner) -> None:
    ipe = a_proposal(partner)
    jatoba = a_proposal(partner, "jatoba", OTHER_CPF, status="signed", partner_reference="order:7")
    assert ids(listed(http)) == [str(jatoba.pk), str(ipe.pk)]
    for filters, found in (
        ({"status": "signed"}, jatoba),
        ({"provider": "ipe"}, ipe),
        ({"cpf": OTHER_CPF}, jatoba),
        ({"partner_reference": "order:7"}, jatoba),
        ({"status": "created", "provider": "ipe", "cpf": FULL_FLOW}, ipe),
    ):
        assert ids(listed(http, **filters)) == [str(found.pk)]
        assert ids(searched(http, **filters)) == [str(found.pk)]
    for nothing in (
        {"status": "expired"},
        {"partner_reference": "order:70"},
        {"provider": "desconhecido"},
        {"provider": "ipe", "cpf": OTHER_CPF},
    ):
        assert listed(http, **nothing) == {"proposals": [], "next_cursor": None}


def test_the_times_of_a_proposal_are_filters(http: DjangoClient, partner: Partner) -> None:
    """Each range includes its beginning and excludes its end."""
    start = datetime(2026, 3, 2, 12, tzinfo=UTC)
    rows = [a_proposal(partner, "ipe", created_at=start + timedelta(hours=hour)) for hour in range(3)]
    for hour, row in enumerate(rows):
        Proposal.objects.filter(pk=row.pk).update(updated_at=start + timedelta(days=1, hours=hour))
    second = str(rows[1].pk)
    for name, day in (("created", 2), ("updated", 3)):
        # The same moments, in the zone of Brasília and in UTC.
        span = {f"{name}_from": f"2026-03-0{day}T10:00:00.000000999-03:00", f"{name}_to": f"2026-03-0{day}t14:00:00z"}
        assert ids(listed(http, **span)) == ids(searched(http, **span)) == [second]
        assert len(ids(listed(http, **{f"{name}_from": span[f"{name}_from"]}))) == 2
        assert len(ids(listed(http, **{f"{name}_to": span[f"{name}_to"]}))) == 2


def test_a_limit_and_a_cursor_go_with_every_filter(http: DjangoClient, partner: Partner) -> None:
    start = datetime(2026, 3, 2, 12, tzinfo=UTC)
    rows = [a_proposal(partner, created_at=start, partner_reference="order:7") for _ in range(3)]
    a_proposal(partner, created_at=start)
    filters = {
        "status": "created",
        "provider": "ipe",
        "cpf": FULL_FLOW,
        "partner_reference": "order:7",
        "created_from": "2026-03-02T12:00:00Z",
        "created_to": "2026-03-02T12:00:01Z",
        "updated_from": "2026-03-02T12:00:00Z",
        "updated_to": "2126-03-02T12:00:00Z",
    }
    expected = sorted((str(row.pk) for row in rows), reverse=True)
    first = listed(http, **filters, limit="2")
    assert ids(first) == expected[:2]
    last = listed(http, **filters, limit="2", cursor=first["next_cursor"])
    assert (ids(last), last["next_cursor"]) == (expected[2:], None)
    body = searched(http, **filters, limit=2)
    assert (ids(body), body["next_cursor"]) == (expected[:2], first["next_cursor"])
    assert ids(searched(http, **filters, limit=2, cursor=body["next_cursor"])) == expected[2:]


@pytest.mark.control("API1")
def test_to_others_a_proposal_is_not_there(http: DjangoClient, partner: Partner) -> None:
    """Another partner's proposal, one at a bank that left the contract, an unknown id and a malformed id give the same
    404. No list shows the first two."""
    own = str(a_proposal(partner, "jatoba", partner_reference="order:7").pk)
    stranger, nothing = http_of(PartnerFactory(providers=["jatoba"])), {"proposals": [], "next_cursor": None}

    def all_are_404(caller: DjangoClient, name: str) -> None:
        address = f"/partners/v1/proposals/{name}"
        calls = [caller.post(f"{address}/{call}", {}, "application/json") for call in ("formalize", "cancel")]
        for response in (caller.get(address), *calls):
            assert (response.status_code, response.json()) == (404, error_body("not_found", "Recurso não encontrado."))

    all_are_404(stranger, own)
    assert listed(stranger) == searched(stranger, partner_reference="order:7") == nothing
    for name in (str(uuid4()), "x", "0", "%00", own + "0"):
        all_are_404(http, name)
    assert ids(listed(http)) == [own]
    partner.allow_only(["ipe"])
    all_are_404(http, own)
    assert listed(http) == nothing
    assert not BankCall.objects.exists()


def test_a_fault_of_the_service_itself_is_an_internal_error_that_tells_nothing_more(
    http: DjangoClient, partner: Partner, settings: Any
) -> None:
    row = a_proposal(partner, last_status_at=timezone.now())
    settings.FIELD_ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    http.raise_request_exception = False
    for path in (f"/{row.pk}", ""):
        response = http.get(f"/partners/v1/proposals{path}")
        told = error_body("internal_error", "Erro interno. Tente novamente em instantes.", retryable=True)
        assert (response.status_code, response.json()) == (500, told)
        assert response["X-Request-Id"]


def test_every_filter_has_its_index(partner: Partner) -> None:
    """With many proposals of many partners, no filter reads the whole table."""
    recently = (timezone.now() - timedelta(minutes=1)).isoformat()
    copy_rows(
        a_proposal(partner, status="signed", partner_reference="order:7"),
        4000,
        id="gen_random_uuid()",
        reference="gen_random_uuid()",
        partner_id=f"CASE n % 10 WHEN 0 THEN partner_id ELSE '{PartnerFactory().pk}' END",
        provider="CASE n % 50 WHEN 0 THEN 'jatoba' ELSE provider END",
        status="CASE n % 50 WHEN 0 THEN 'rejected' ELSE 'cancelled' END",
        cpf_index="md5(n::text)",
        partner_reference="'order:x' || n",
        created_at="created_at - n * interval '1 hour'",
        updated_at="updated_at - n * interval '1 hour'",
    )
    for filters, index in (
        ({}, "proposal_newest"),
        ({"created_from": (timezone.now() - timedelta(hours=2000)).isoformat()}, "proposal_newest"),
        ({"updated_from": recently}, "proposal_by_change"),
        ({"status": "rejected"}, "proposal_by_status"),
        ({"provider": "jatoba"}, "proposal_by_bank"),
        ({"partner_reference": "order:7"}, "proposal_by_own_name"),
    ):
        wanted = validated(ListRequest, filters)
        assert_found_by(index, "LIMIT 101", lambda wanted=wanted: actions.page(partner, wanted)[0])


def test_pages_newest_first_stay_right_while_proposals_are_added(http: DjangoClient, partner: Partner) -> None:
    now = timezone.now()
    # Pairs of the same moment, one of which two pages share: the id tells them apart.
    rows = [a_proposal(partner, created_at=now - timedelta(seconds=number // 2)) for number in range(7)]
    expected = [str(row.pk) for row in sorted(rows, key=lambda row: (row.created_at, row.pk), reverse=True)]
    assert validated(ListRequest, {})["limit"] == 100
    first = listed(http, limit="3")
    a_proposal(partner)
    second = listed(http, limit="3", cursor=first["next_cursor"])
    third = listed(http, limit="3", cursor=second["next_cursor"])
    assert [len(ids(page)) for page in (first, second, third)] == [3, 3, 1]
    assert ids(first) + ids(second) + ids(third) == expected
    assert third["next_cursor"] is None


@pytest.mark.parametrize("field", ["limit", "cursor"])
def test_a_wrong_filter_is_named(http: DjangoClient, field: str) -> None:
    """Which ones: tests/unit/test_filters.py."""
    for response in (
        http.get("/partners/v1/proposals", {field: "x"}),
        http.post("/partners/v1/proposals/search", {field: "x"}, "application/json"),
    ):
        error = response.json()
        assert (response.status_code, error["code"], error["field"]) == (422, "invalid_input", field)


@pytest.mark.parametrize(
    ("moment", "listed_too"),
    [("0001-01-01T00:00:00+00:00", False), ("9999-12-31T23:59:59.999999+00:00", True)],
)
def test_a_cursor_may_lie_at_either_end_of_time(
    http: DjangoClient, partner: Partner, moment: str, listed_too: bool
) -> None:
    row = a_proposal(partner)
    assert ids(listed(http, cursor=cursor(f"{moment} {ID}"))) == ([str(row.pk)] if listed_too else [])


# --- banks ------------------------------------------------------------------------------------------------------


def test_banks_are_listed_by_code(http: DjangoClient) -> None:
    banks = http.get("/partners/v1/banks").json()["banks"]
    assert {"code": "001", "name": "Banco do Brasil S.A."} in banks
    codes = [bank["code"] for bank in banks]
    assert codes == sorted(set(codes))
    assert all(len(code) == 3 and code.isdigit() for code in codes)
    assert all(set(bank) == {"code", "name"} and bank["name"] for bank in banks)
    content = json.loads(compe.FILE.read_text("utf-8"))
    assert set(content) == {"source", "date", "banks"}
    assert content["source"].startswith("bancos-brasileiros ")


def test_refresh_bank_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, target = tmp_path / "bancos.json", tmp_path / "compe.json"
    monkeypatch.setattr(compe, "FILE", target)
    rows = [
        {"COMPE": "104", "LongName": "Caixa  Econômica", "DateUpdated": "2026-09-12T10:00:00Z"},
        {"COMPE": "001", "LongName": "Banco do Brasil", "DateUpdated": "2025-01-01T10:00:00Z"},
        {"COMPE": "000", "LongName": "Sem código", "DateUpdated": None},
    ]
    package.write_text("\ufeff" + json.dumps(rows), "utf-8")
    call_command("refresh_bank_list", str(package), "--source", "teste 1")
    assert json.loads(target.read_text("utf-8")) == {
        "source": "teste 1",
        "date": "2026-09-12",
        "banks": [{"code": "001", "name": "Banco do Brasil"}, {"code": "104", "name": "Caixa Econômica"}],
    }


@pytest.mark.parametrize("content", ["", "[]", "{}", '[{"COMPE": "001"}]', "not json"])
def test_refresh_bank_list_refuses_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr(compe, "FILE", tmp_path / "compe.json")
    (tmp_path / "bancos.json").write_text(content)
    with pytest.raises(CommandError):
        call_command("refresh_bank_list", str(tmp_path / "bancos.json"), "--source", "teste 1")
    assert not compe.FILE.exists()
