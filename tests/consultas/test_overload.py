"""A process refuses queries beyond its limit, or beyond a partner's CPFs a day, before anything happens."""

import uuid

import pytest

from consultas import admission
from consultas.models import Query
from tests.client import error_body, query_body
from tests.consultas.test_validation import ROUTES, post
from tests.factories import PartnerFactory, http_of

FULL = error_body(
    "rate_limited", "O serviço está no limite da sua capacidade. Tente novamente em instantes.", retryable=True
)


@pytest.mark.control("API4")
def test_beyond_the_limit_a_query_is_refused_before_it_begins(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """How partners share the places: tests/unit/consultas/test_admission.py."""
    http, places = http_of(PartnerFactory()), admission.Admission(1)
    monkeypatch.setattr(admission, "admission", places)
    with places.enter(uuid.uuid4()):
        for route in ROUTES:
            refused = post(http, query_body(), route)
            assert (refused.status_code, refused.json(), refused["Retry-After"]) == (429, FULL, "1")
    assert not Query.objects.exists(), "a refused query has no row"
    assert post(http, query_body()).status_code == 200, "the place is free again"


def test_more_cpfs_than_a_day_has_are_refused_and_those_of_today_are_not(db: None) -> None:
    http = http_of(PartnerFactory(daily_cpf_limit=1))
    first, second = query_body(), query_body("90000000337")
    assert post(http, first).status_code == 200
    refused = post(http, second)
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert 0 < int(refused["Retry-After"]) <= 24 * 3600
    assert '"cpfs-per-day";r=0;t=' in refused["RateLimit"]
    assert post(http, {**second, "cpf": "1"}).status_code == 422, "a faulty body is told first"
    again = post(http, first)
    assert again.status_code == 200
    assert again["RateLimit-Policy"] == '"in-flight";q=128;qu="concurrent-requests", "cpfs-per-day";q=1;w=86400'
