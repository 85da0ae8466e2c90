"""What every route with a key refuses before it looks at anything else: no key, another method, what is no JSON."""

import re

import pytest
from django.test import Client

from tests import contract
from tests.client import error_body
from tests.factories import issue_key

NO_JSON = error_body("unsupported_media_type", "Envie o corpo como application/json em UTF-8.")
TOO_LARGE = "{%s}" % (" " * 256 * 1024)


@pytest.mark.control("API4")
def test_each_route_refuses_in_the_same_order(client: Client, db: None) -> None:
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
