"""The API reference: valid, and in the words that partners read."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.test import Client

# Words of docstrings, which are for developers.
ENGLISH = {"the", "of", "with", "where", "which"}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    out = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=out)
    found: dict[str, Any] = yaml.safe_load(out.getvalue())
    return found


def test_it_describes_the_routes_in_portuguese(schema: dict[str, Any]) -> None:
    operations = [operation for path in schema["paths"].values() for operation in path.values()]
    assert all(operation["summary"] for operation in operations)
    told = [f"{operation['summary']} {operation.get('description', '')}" for operation in operations]
    assert [text for text in told if ENGLISH & set(text.lower().split())] == []


def test_it_shows_no_docstring_of_a_serializer(schema: dict[str, Any]) -> None:
    bodies = schema["components"]["schemas"]
    assert [name for name, body in bodies.items() if body.get("type") == "object" and "description" in body] == []


def test_it_says_how_many_decimals_a_number_may_have(schema: dict[str, Any]) -> None:
    fields = schema["components"]["schemas"]["QueryRequest"]["properties"]
    assert [fields[name]["multipleOf"] for name in ("loan_value", "valor_parcela")] == [0.01, 0.01]


def test_it_is_served_once_made(client: Client, schema: dict[str, Any]) -> None:
    response = client.get("/schema/")
    assert yaml.safe_load(response.content) == schema
    assert response["Content-Type"] == "application/vnd.oai.openapi; charset=utf-8"
    assert response["Content-Disposition"] == 'inline; filename="openapi.yaml"'
    began = time.process_time()
    for _ in range(20):
        client.get("/schema/")
    assert time.process_time() - began < 1  # made anew each time it would be ten
