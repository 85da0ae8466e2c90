"""A bank that an operator took out of service: nobody calls it, and partners read why and until when. What a query
shows: tests/consultas/test_pause.py."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from foundation.models import AuditEntry
from providers import operation
from providers.errors import BankClosed
from providers.maintenance import Maintenance, out_of_service
from providers.models import Provider, enabled_connections
from providers.reasons import ReasonCode
from tests.factories import PartnerFactory, ProviderFactory, http_of
from tests.operators import NOT_NOW, bank_form, page_of, press, see
from tests.providers.samples import a_query

pytestmark = pytest.mark.django_db


def a_window(bank: Provider, begins: int = -60, ends: int = 60, reason: str = "virada de folha") -> Maintenance:
    """A window, not stored yet, that begins and ends so many minutes from now."""
    now = timezone.now()
    return Maintenance(
        provider=bank, starts_at=now + timedelta(minutes=begins), ends_at=now + timedelta(minutes=ends), reason=reason
    )


@pytest.mark.parametrize(("begins", "ends", "is_closed"), [(-60, 60, True), (-60, -1, False), (1, 60, False)])
def test_only_the_window_of_this_moment_closes_the_bank(begins: int, ends: int, is_closed: bool) -> None:
    bank = ProviderFactory(name="ipe")
    window = a_window(bank, begins, ends)
    window.save()
    [connection] = enabled_connections(["ipe"]).values()
    assert connection.closed == (f"O banco está {window}" if is_closed else None)
    assert list(Maintenance.now(["ipe", "cedro"])) == (["ipe"] if is_closed else [])


def test_of_windows_that_overlap_the_last_end_counts() -> None:
    bank = ProviderFactory(name="ipe")
    late, early = a_window(bank, -60, 90, "longa"), a_window(bank, -30, 30, "curta")
    Maintenance.objects.bulk_create([late, early])
    assert Maintenance.now(["ipe"]) == {"ipe": late}
    assert "longa" in str(enabled_connections(["ipe"])["ipe"].closed)
    assert early.ends_at < late.ends_at


def test_no_request_leaves_for_a_bank_in_its_window() -> None:
    """The address has no listener: an attempt would be "unavailable"."""
    bank = ProviderFactory(name="ipe")
    a_window(bank).save()
    client = operation.client("ipe", request_id="r", partner="p")
    with pytest.raises(BankClosed) as caught:
        client.query(a_query())
    assert (caught.value.sent, caught.value.reason.code) == (False, ReasonCode.BANK_CLOSED)
    assert "fora do ar até" in caught.value.reason.message
    assert caught.value.reason.retryable
    assert replace(client.connection, closed=None).closed is None


def test_partners_read_that_the_bank_is_unavailable() -> None:
    partner = PartnerFactory(providers=["ipe", "cedro"])
    a_window(partner.allowances.get(provider="ipe").provider).save()
    told = http_of(partner).get("/partners/v1/providers").json()["providers"]
    assert {bank["name"]: bank["status"] for bank in told} == {"ipe": "unavailable", "cedro": "available"}


def test_the_end_is_told_with_its_day_and_time_zone() -> None:
    """Before the fix, the message had only "18:00"."""
    assert out_of_service(datetime(2026, 11, 22, 21, 0, tzinfo=UTC), "x") == (
        "fora do ar até 22/11/2026 18:00, horário de Brasília: x"
    )


def test_a_window_that_is_over_can_not_be_planned() -> None:
    bank = ProviderFactory(name="ipe")
    for begins, ends in ((-60, -1), (60, 30)):
        with pytest.raises(ValidationError):
            a_window(bank, begins, ends).full_clean()


def test_an_operator_closes_a_bank_and_opens_it_again(admin_client: Client) -> None:
    bank = ProviderFactory(name="ipe")
    see(admin_client, bank, page_of(bank, "close"), hidden=[page_of(bank, "reopen")])
    for wrong in ({"minutes": "0", "reason": "x"}, {"minutes": "10", "reason": ""}, {}):
        assert admin_client.post(page_of(bank, "close"), wrong).status_code == 200
    assert not Maintenance.objects.exists()
    closed = press(admin_client, page_of(bank, "close"), "Pôr fora do ar", minutes="30", reason="virada")
    assert "fora do ar até" in closed.content.decode()
    again = admin_client.post(page_of(bank, "close"), {"minutes": "60", "reason": "outra"}, follow=True)
    assert NOT_NOW in again.content.decode(), "before the fix, two windows were made"
    for page in (bank, reverse("admin:providers_provider_changelist")):
        see(admin_client, page, str(Maintenance.objects.get()))
    press(admin_client, page_of(bank, "reopen"), "Pôr de volta no ar")
    assert Maintenance.now(["ipe"]) == {}
    assert NOT_NOW in admin_client.get(page_of(bank, "reopen"), follow=True).content.decode()
    assert set(AuditEntry.objects.values_list("action", flat=True)) >= {"suspended", "resumed"}


@pytest.mark.parametrize("change", [{"enabled": False}, {"circuit": "open"}])
def test_a_bank_that_is_off_anyway_offers_no_window(admin_client: Client, change: dict[str, Any]) -> None:
    """Before the fix, its page said that the bank would come back by itself."""
    bank = ProviderFactory(name="sucupira", **change)
    see(admin_client, bank, hidden=[page_of(bank, "close")])
    assert admin_client.get(page_of(bank, "try_account")).status_code == 404, "it has no login to try"


def test_an_operator_plans_a_window(admin_client: Client) -> None:
    bank = ProviderFactory(name="ipe")
    day = timezone.localtime() + timedelta(days=3)
    window: dict[str, Any] = {
        "maintenance-TOTAL_FORMS": "1",
        "maintenance-0-provider": "ipe",
        "maintenance-0-starts_at": f"{day:%Y-%m-%d}T18:00",
        "maintenance-0-ends_at": f"{day:%Y-%m-%d}T22:00",
        "maintenance-0-reason": "troca de sistema",
    }
    admin_client.post(page_of(bank), bank_form("ipe"))
    bank.refresh_from_db()
    assert admin_client.post(page_of(bank), bank_form("ipe", **window)).status_code == 302
    # Before the fix, a bank that failed was told as one that does not, because of the window.
    assert Provider.objects.get().updated_at == bank.updated_at
    planned = Maintenance.objects.get()
    assert (planned.ends_at - planned.starts_at, planned.reason) == (timedelta(hours=4), "troca de sistema")
    assert Maintenance.now(["ipe"]) == {}
