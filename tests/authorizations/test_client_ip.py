"""What the evidence keeps of the client's address and of the headers that name it."""

from typing import Any

import pytest
from django.utils import timezone

from authorizations import dossier, seal
from authorizations.models import Evidence, Session
from tests.authorizations.clients import HolderClient

PROXIES = ["10.0.0.0/8", "2001:db8:ffff::/48"]


@pytest.mark.parametrize("header", ["1.2.3.4, 198.51.100.1", "1.1.1.1, " * 300 + "198.51.100.1"])
def test_the_evidence_keeps_the_header_or_its_end_which_proxies_wrote(
    settings: Any, session: Session, holder: HolderClient, header: str
) -> None:
    settings.TRUSTED_PROXIES = PROXIES
    holder.accept(session, {"client_ip": "9.9.9.9"}, REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR=header)
    evidence = Evidence.objects.get()
    observed = evidence.content["observed_by_server"]
    assert (observed["ip"], observed["peer"]) == ("198.51.100.1", "10.0.0.1")
    kept = header if len(header) < 1024 else "…" + header[-1023:]
    assert (observed["x_forwarded_for"], observed["x_forwarded_for_sha256"]) == (kept, seal.sha256(header.encode()))
    page = dossier.page(evidence, timezone.now(), "operadora")
    for shown in (kept, observed["x_forwarded_for_sha256"]):
        assert shown in page


def test_long_and_odd_headers_are_kept_as_far_as_they_can_be(session: Session, holder: HolderClient) -> None:
    holder.accept(session, HTTP_USER_AGENT="é" * 600, HTTP_X_FORWARDED_FOR="9" * 5000)
    observed = Evidence.objects.get().content["observed_by_server"]
    assert (len(observed["user_agent"]), len(observed["x_forwarded_for"])) == (512, 1024)
