"""An acceptance from an address from which the partner calls the API is marked, and never refused."""

import uuid
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from authorizations import chain, dossier, seal
from authorizations.models import Evidence, Session
from foundation.redis import redis
from partners import callers
from tests.authorizations.clients import HolderClient, PartnerClient
from tests.processes import Outage, wait_until

HERE, ELSEWHERE = "203.0.113.9", "203.0.113.10"


def call(api: PartnerClient, address: str, **headers: str) -> None:
    """The partner calls the API from `address`."""
    assert api.get("/partners/v1/authorizations/x", REMOTE_ADDR=address, **headers).status_code == 404
    wait_until(lambda: callers.calls_from(api.partner.pk, address), 5, "the address is remembered")


@pytest.mark.parametrize(
    ("caller", "addresses", "flag"),
    [
        ("api", (HERE, HERE), True),
        ("api", (ELSEWHERE, HERE), False),
        ("stranger", (HERE, HERE), False),
        ("api", ("2001:db8::1", "2001:db8::ffff:7"), True),
        ("api", ("2001:db8::1", "2001:db8:0:1::1"), False),
    ],
)
def test_the_evidence_and_the_back_office_tell_it(
    request: Any, session: Session, admin_client: Client, caller: str, addresses: tuple[str, str], flag: bool
) -> None:
    """Before the fix, nothing distinguished an acceptance by the partner itself from one by the holder."""
    call(request.getfixturevalue(caller), addresses[0])
    assert HolderClient().accept(session, REMOTE_ADDR=addresses[1]).status_code == 200
    kept = Evidence.objects.get()
    assert kept.content["observed_by_server"]["from_api_address"] is flag
    assert kept.from_api_address is flag
    told = "<strong>sim</strong>: pode ser o próprio parceiro" if flag else "não, nos 30 dias anteriores"
    assert told in dossier.page(kept, timezone.now(), "operadora")
    assert chain.verify(seal.trusted_keys())["valid"]
    changelist = reverse("admin:authorizations_session_changelist")
    for wanted, found in ((1, flag), (0, not flag)):
        page = admin_client.get(f"{changelist}?evidence__from_api_address__exact={wanted}")
        assert ("***.982.247-**" in page.text) is found


def test_without_redis_it_is_not_known(session: Session, holder: HolderClient, freeze_redis: Outage) -> None:
    with freeze_redis():
        assert holder.accept(session, REMOTE_ADDR=HERE).status_code == 200
    kept = Evidence.objects.get()
    assert (kept.from_api_address, kept.content["observed_by_server"]["from_api_address"]) == (None, None)
    assert "não verificado" in dossier.page(kept, timezone.now(), "operadora")


def test_redis_keeps_no_address(api: PartnerClient) -> None:
    call(api, "198.51.100.77")
    keys = b" ".join(redis().keys("caller:*"))
    assert keys
    for secret in (b"198.51.100", str(api.partner.pk).encode()):
        assert secret not in keys


def test_an_address_is_written_only_once_in_a_while(api: PartnerClient, stranger: PartnerClient) -> None:
    address = "198.51.100.78"
    call(api, address)
    redis().flushdb()
    api.get("/partners/v1/authorizations/x", REMOTE_ADDR=address)
    assert not callers.calls_from(api.partner.pk, address), "told a moment ago"
    call(stranger, address)  # earlier calls have been written by then
    assert not callers.calls_from(api.partner.pk, address)


def test_a_header_without_end_is_not_kept_in_memory(api: PartnerClient) -> None:
    address = f"198.51.100.{uuid.uuid4().int % 250}"
    call(api, address, HTTP_X_FORWARDED_FOR=", ".join(["10.0.0.1"] * 500))
    kept = [caller for caller in callers._sent_at if caller[0] == api.partner.pk]
    assert kept == [(api.partner.pk, address)]
