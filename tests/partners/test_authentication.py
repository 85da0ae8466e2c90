"""`X-Partner-Api-Key`: which keys are accepted, the same 401 for all others, and what else each route refuses first."""

import re
from datetime import timedelta

import pytest
from django.http import HttpRequest, StreamingHttpResponse
from django.test import Client
from django.utils import timezone

from partners import authentication
from partners.models import SANDBOX_KEY, ApiKey
from partners.views import PartnerView
from tests import contract
from tests.client import error_body
from tests.factories import PartnerFactory, issue_key

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.partners.urls")]
URL = "/partners/v1/probe"
REFUSAL = error_body("unauthorized", "Chave de API ausente ou inválida.")


def get(client: Client, secret: str | None):
    return client.get(URL, headers={} if secret is None else {"X-Partner-Api-Key": secret})


def is_refused(response) -> bool:
    challenge = response.get("WWW-Authenticate")
    return (response.status_code, response.json(), challenge) == (401, REFUSAL, "X-Partner-Api-Key")


#: Of the right form.
UNKNOWN = ("cpk_test_" + "A" * 43, "cpk_live_" + "A" * 43)


OTHERS = [
    *UNKNOWN,
    None,
    "",
    " ",
    "cpk_test_",
    "cpk_test_" + "A" * 42,
    "cpk_test_" + "A" * 44,
    "sk_test_" + "A" * 43,
    "cpk_test_" + "é" * 43,
    "cpk_test_" + "\0" * 43,
    "cpk_test_" + "A" * 42 + "\n",
    "cpk_test_" + "١" * 43,
    "\udcff",
    "A" * 10_240,
    "' OR 1=1 --",
]


@pytest.mark.control("API2")
def test_any_other_key_is_refused_alike(client, django_assert_num_queries):
    """A key of the wrong form costs no query."""
    issue_key()
    for secret in OTHERS:
        with django_assert_num_queries(secret in UNKNOWN):
            assert is_refused(get(client, secret)), secret


def test_the_key_in_a_query_string_or_another_header_is_no_key(client):
    _, secret = issue_key()
    assert is_refused(client.get(f"{URL}?api_key={secret}"))
    assert is_refused(client.get(URL, headers={"Authorization": f"Bearer {secret}"}))


def expire(key: ApiKey) -> None:
    ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now())


@pytest.mark.parametrize("end", [ApiKey.revoke, lambda key: key.partner.suspend(), expire])
@pytest.mark.control("CMN I")
def test_the_end_of_a_key_counts_on_the_next_request(client, end):
    """Another key of the partner, and the key itself after the partner was resumed, are taken."""
    key, secret = issue_key(expires_in=timedelta(days=1))
    live = get(client, secret)
    assert (live.status_code, live.json()) == (200, {"partner": str(key.partner_id), "key": str(key.pk)})
    assert is_refused(get(client, secret.swapcase()))
    end(key)
    assert is_refused(get(client, secret))
    key.partner.resume()
    assert get(client, issue_key(key.partner)[1]).json()["partner"] == str(key.partner_id)
    key.refresh_from_db()
    assert (get(client, secret).status_code == 200) is key.is_live(timezone.now())


def test_one_query_a_request_and_one_more_a_minute(client, django_assert_num_queries):
    """The webhook's secret is not even read: decrypting it would cost more than the key's look-up itself."""
    key, secret = issue_key()
    key.partner.rotate_webhook_secret()
    with django_assert_num_queries(2) as queries:
        get(client, secret)
    assert "webhook_secret" not in queries[0]["sql"]
    with django_assert_num_queries(1):
        get(client, secret)
    used = ApiKey.objects.get(pk=key.pk).last_used_at
    ApiKey.objects.filter(pk=key.pk).update(last_used_at=used - timedelta(seconds=61))
    with django_assert_num_queries(2):
        get(client, secret)
    assert ApiKey.objects.get(pk=key.pk).last_used_at >= used


def test_only_a_keyed_digest_and_a_short_prefix_are_stored(settings):
    key, secret = issue_key()
    row = ApiKey.objects.filter(pk=key.pk).values().get()
    assert secret not in str(row)
    assert row["prefix"] == secret[:15]
    settings.API_KEY_PEPPER = "another pepper"
    assert ApiKey.find(secret) is None


def test_production_issues_live_keys_and_refuses_test_keys_and_so_the_public_one(client, settings):
    partner = PartnerFactory()
    _, drawn = issue_key(partner)
    assert drawn.startswith("cpk_test_")
    assert SANDBOX_KEY == "cpk_test_sandbox_public_key_not_a_secret_00000000000"
    issue_key(partner, secret=SANDBOX_KEY)
    assert get(client, SANDBOX_KEY).status_code == 200
    settings.PRODUCTION = True
    assert is_refused(get(client, SANDBOX_KEY))
    assert is_refused(get(client, drawn))
    _, live = issue_key(partner)
    assert live.startswith("cpk_live_")
    assert get(client, live).status_code == 200


@pytest.mark.parametrize("accept", ["text/event-stream", "application/xml", "*/*;q=0", "\xff", ""])
def test_accept_changes_nothing(client, accept):
    _, secret = issue_key()
    response = client.get(f"{URL}?format=xml", headers={"X-Partner-Api-Key": secret, "Accept": accept})
    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("networks", "address", "taken"),
    [
        ([], "198.51.100.1", True),
        (["203.0.113.7"], "203.0.113.7", True),
        (["203.0.113.7"], "203.0.113.8", False),
        (["192.0.2.0/24", "2001:db8::/48"], "2001:db8::1", True),
        (["192.0.2.0/24", "2001:db8::/48"], "2001:db9::1", False),
        (["192.0.2.0/24"], "::ffff:192.0.2.9", True),
        (["192.0.2.0/24"], "", False),
    ],
)
@pytest.mark.control("CMN XIII")
def test_a_key_with_an_allowlist_opens_from_its_addresses_only(client, networks, address, taken):
    """Before the fix, a stolen key worked from any address."""
    _, secret = issue_key(networks=networks)
    response = client.get(URL, headers={"X-Partner-Api-Key": secret}, REMOTE_ADDR=address)
    assert response.status_code == 200 if taken else is_refused(response)


def test_a_proxys_word_for_the_address_counts_only_where_it_is_trusted(client, settings):
    _, secret = issue_key(networks=["203.0.113.7"])
    headers = {"X-Partner-Api-Key": secret, "X-Forwarded-For": "203.0.113.7"}
    assert is_refused(client.get(URL, headers=headers, REMOTE_ADDR="10.0.0.1"))
    settings.TRUSTED_PROXIES = ["10.0.0.0/8"]
    assert client.get(URL, headers=headers, REMOTE_ADDR="10.0.0.1").status_code == 200


@pytest.mark.parametrize("end", [lambda key: key.partner.suspend(), ApiKey.revoke], ids=["suspension", "revocation"])
def test_an_open_stream_ends_at_the_next_event(rf, monkeypatch, end):
    """Before the fix, the stream continued to its end; at the key's revocation longer than at a suspension."""
    monkeypatch.setattr(authentication, "LOOK_EVERY_S", 0)
    key, secret = issue_key()
    ends = []

    def events():
        try:
            yield from (b"one", b"two", b"three")
        finally:
            ends.append(True)

    class Stream(PartnerView):
        def get(self, request: HttpRequest) -> StreamingHttpResponse:
            return StreamingHttpResponse(events())

    response = Stream.as_view()(rf.get("/", headers={"X-Partner-Api-Key": secret}))
    taken = iter(response)
    assert next(taken) == b"one"
    end(key)
    assert list(taken) == []
    response.close()
    assert ends == [True], "what the stream held is freed"


NO_JSON = error_body("unsupported_media_type", "Envie o corpo como application/json em UTF-8.")
TOO_LARGE = "{%s}" % (" " * 256 * 1024)


@pytest.mark.control("API4")
def test_each_route_refuses_in_the_same_order(client: Client) -> None:
    """Key, method, form and size of the body."""
    key, known = {"X-Partner-Api-Key": issue_key()[1]}, 0
    for path, item in contract.document()["paths"].items():
        address = re.sub(r"{\w+}", "x", path)
        taken = {method.upper() for method in item} | ({"HEAD"} if "get" in item else set())
        for method, told in item.items():
            if told["security"] == []:
                continue  # a page of the holder
            known += 1
            for known_or_not in (method.upper(), "PATCH"):
                unknown = client.generic(known_or_not, address, "{", "text/plain")
                assert (unknown.status_code, unknown.json()["code"]) == (401, "unauthorized"), (method, path)
            for other in ("PATCH", "OPTIONS", "DELETE"):
                refused = client.generic(other, address, "{", "text/plain", headers=key)
                assert (refused.status_code, refused.json()["code"]) == (405, "method_not_allowed"), path
                assert set(refused["Allow"].split(", ")) == taken, path
            if "requestBody" not in told:
                continue
            no_json = client.generic(method.upper(), address, "{}", "text/plain", headers=key)
            assert (no_json.status_code, no_json.json()) == (415, NO_JSON), path
            for body, status in (("{", 422), ("[]", 422), (TOO_LARGE, 413)):
                refused = client.generic(method.upper(), address, body, "application/json", headers=key)
                assert (refused.status_code, refused.json()["field"]) == (status, None), path
    assert known > 20
