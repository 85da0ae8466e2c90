"""A partner's backend over real HTTP."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import urlsplit

import requests
from django.urls import Resolver404, resolve

FULL_FLOW = "90000000175"


def query_body(cpf: str = FULL_FLOW, **changes: Any) -> dict[str, Any]:
    """A valid query; a change to None leaves the field out."""
    body = {
        "cpf": cpf,
        "nome": "Maria Teste da Silva",
        "data_nascimento": "1985-03-14",
        "telefone": "11987654321",
        "email": "maria.teste@example.com",
        "client_ip": "203.0.113.7",
        "geolocation": {"lat": -23.55052, "lng": -46.633308},
        **changes,
    }
    return {name: value for name, value in body.items() if value is not None}


@cache
def named_errors() -> dict[tuple[str, str], set[str]]:
    """The error codes that the API reference names, by method and route."""
    from drf_spectacular.generators import SchemaGenerator

    schema = SchemaGenerator().get_schema(public=True)
    return {
        (method.upper(), path): {
            example["value"]["code"]
            for status, told in operation["responses"].items()
            if status >= "400"
            for example in told["content"].get("application/json", {}).get("examples", {}).values()
        }
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }


def as_named(response: requests.Response) -> requests.Response:
    """The response. Fails the test where it is an error that the API reference does not name for its route."""
    if response.ok or response.status_code == 405 or response.headers.get("Content-Type") != "application/json":
        return response
    try:
        route = resolve(urlsplit(response.url).path).route
    except Resolver404:
        return response
    operation = (response.request.method or "", "/" + route.replace("<str:", "{").replace(">", "}"))
    assert response.json()["code"] in named_errors()[operation], f"{operation}: {response.text}"
    return response


class Client:
    """The partner's backend: its key and the service's address. Every error it gets has to be in the API reference."""

    def __init__(self, url: str, key: str) -> None:
        self.base = f"{url}/partners/v1"
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers["X-Partner-Api-Key"] = key
        named_errors()  # made here, by one thread: tests let several call at once

    def get(self, path: str, **options: Any) -> requests.Response:
        return as_named(self.session.get(self.base + path, timeout=60, **options))

    def post(self, path: str, body: Any = None, **options: Any) -> requests.Response:
        # A connection of its own: the session is used by many threads at once in some tests.
        headers = dict(self.session.headers)
        return as_named(requests.post(self.base + path, json=body, timeout=60, headers=headers, **options))

    def query(self, cpf: str = FULL_FLOW, **changes: Any) -> dict[str, Any]:
        """The aggregated query's body, which has to be a 200."""
        response = self.post("/consultas", query_body(cpf, **changes))
        assert response.status_code == 200, response.text
        return response.json()  # type: ignore[no-any-return]

    def query_one(self, bank: str, cpf: str = FULL_FLOW, **changes: Any) -> dict[str, Any]:
        response = self.post(f"/providers/{bank}/consultas", query_body(cpf, **changes))
        assert response.status_code == 200, response.text
        return response.json()  # type: ignore[no-any-return]
