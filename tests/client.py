"""A partner's backend over real HTTP."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import requests

from tests import contract

FULL_FLOW = "90000000175"


def query_body(cpf: str = FULL_FLOW, **changes: Any) -> dict[str, Any]:
    """The reference's query with these changes. A change to None removes the field."""
    from consultas.schema import QUERY  # needs the settings

    return {name: value for name, value in {**QUERY, "cpf": cpf, **changes}.items() if value is not None}


def error_body(code: str, message: str, *, retryable: bool = False, field: str | None = None) -> dict[str, Any]:
    """The whole body of an error without details."""
    return {"code": code, "message": message, "retryable": retryable, "field": field}


def checked(response: requests.Response) -> requests.Response:
    """The response. Fails the test if the response, or an accepted request, differs from the API reference."""
    method, path = response.request.method or "", urlsplit(response.url).path
    consumed = response._content_consumed  # type: ignore[attr-defined]  # the test itself reads a stream
    media_type = response.headers.get("Content-Type", "")
    if consumed:
        contract.check_answer(method, path, response.status_code, media_type, response.content)
    if response.ok and response.request.body:
        sent = response.request.body
        contract.check_request(method, path, sent if isinstance(sent, bytes) else sent.encode())
    return response


def streamed(response: requests.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events of a stream as they come, each with its id."""
    return contract.stream_events(response.iter_lines(chunk_size=1))


class Client:
    """A partner's backend: its key and the service's base URL. tests.contract checks what it sends and receives. Each
    call has a connection of its own, because some tests make calls in many threads."""

    def __init__(self, url: str, key: str) -> None:
        self.base = f"{url}/partners/v1"
        self.headers = {"X-Partner-Api-Key": key}
        contract.document()  # created here by one thread

    def call(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **options: Any
    ) -> requests.Response:
        told = self.headers | (headers or {})
        return checked(requests.request(method, self.base + path, headers=told, timeout=60, **options))

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.call("GET", path, **options)

    def put(self, path: str, body: Any) -> requests.Response:
        return self.call("PUT", path, json=body)

    def post(self, path: str, body: Any = None, **options: Any) -> requests.Response:
        return self.call("POST", path, json=body, **options)

    def read(self, path: str) -> Any:
        """The JSON at `path`. Fails unless the status is 200."""
        return _answered(self.get(path), 200)

    def query(self, cpf: str = FULL_FLOW, **changes: Any) -> Any:
        """The aggregated query's response body. Fails unless the status is 200."""
        return _answered(self.post("/consultas", query_body(cpf, **changes)), 200)

    def offer(self, bank: str, cpf: str = FULL_FLOW, **changes: Any) -> Any:
        """The first offer of `bank`."""
        return self.query(cpf, providers=[bank], **changes)["proposals"][0]

    def query_one(self, bank: str, cpf: str = FULL_FLOW, **changes: Any) -> Any:
        return _answered(self.post(f"/providers/{bank}/consultas", query_body(cpf, **changes)), 200)

    def submit(self, body: dict[str, Any]) -> Any:
        """The new proposal. Fails unless the status is 201."""
        return _answered(self.post("/proposals", body), 201)


def _answered(response: requests.Response, status: int) -> Any:
    assert response.status_code == status, response.text
    return response.json()
