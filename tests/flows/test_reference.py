"""The API reference against the running service: its examples work, and answers have the shapes that it describes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
import schemathesis
import yaml
from schemathesis.core.transport import Response as Answer
from schemathesis.schemas import APIOperation

from tests.client import Client
from tests.processes import LiveService
from tests.proposals.datasets import dataset

ACCEPT = "/authorizations/public/{authorization_id}/accept"
Body = dict[str, Any]


class Reference:
    """The service's own `/schema/`. Paths are those behind `/partners/v1`."""

    def __init__(self, url: str) -> None:
        self.raw: Body = yaml.safe_load(requests.get(f"{url}/schema/", timeout=60).text)
        self._schema = schemathesis.openapi.from_dict(self.raw)
        self.posted: set[str] = set()

    def operations(self) -> Iterator[tuple[str, str, Body]]:
        """Path, method in capitals, and the description of each operation."""
        for path, methods in self.raw["paths"].items():
            for method, told in methods.items():
                yield path.removeprefix("/partners/v1"), method.upper(), told

    def told(self, path: str, method: str) -> Body:
        told: Body = self.raw["paths"][f"/partners/v1{path}"][method]
        return told

    def operation(self, path: str, method: str) -> APIOperation[Any, Any, Any]:
        return self._schema[f"/partners/v1{path}"][method]

    def check(self, path: str, response: requests.Response) -> None:
        """Raises if status or body differ from the reference."""
        method = response.request.method or ""
        assert response.ok, f"{method} {path}: {response.status_code} {response.text}"
        if response.headers["Content-Type"] == "application/json":
            self.operation(path, method).validate_response(response)

    def post_examples(
        self, client: Client, path: str, change: Callable[[Body], Body] | None = None, **named: str
    ) -> list[requests.Response]:
        """The answers to all request examples of a route. Each must match the reference. `change` puts the ids of an
        earlier answer into an example."""
        answers = []
        for example in request_examples(self.told(path, "post")):
            answers.append(client.post(path.format(**named), change(example) if change else example))
            self.check(path, answers[-1])
        self.posted.add(path)
        return answers


@pytest.fixture
def reference(live_service: LiveService) -> Reference:
    return Reference(live_service.url)


def examples_of(told: Body) -> Iterator[tuple[int, str, str, Any]]:
    """Status, media type, name and value of each response example of an operation."""
    for status, response in told["responses"].items():
        for media_type, content in response.get("content", {}).items():
            for name, example in content.get("examples", {}).items():
                yield int(status), media_type, name, example["value"]


def request_examples(told: Body) -> list[Any]:
    """The request examples of an operation."""
    return [each["value"] for each in told["requestBody"]["content"]["application/json"]["examples"].values()]


def test_every_request_example_works_as_it_is(reference: Reference, client: Client) -> None:
    """Against the sandbox, in the order of the flow; only ids of earlier answers are replaced."""
    first, *_ = reference.post_examples(client, "/consultas")
    streamed = reference.post_examples(client, "/consultas/stream")
    for each in streamed:
        assert '"event":"complete"' in each.text
    alone = reference.post_examples(client, "/providers/{name}/consultas", name="ipe")
    assert {each.json()["status"] for each in alone} == {"ok"}

    offers = [offer for offer in first.json()["proposals"] if offer["provider"] == "ipe"]

    def for_an_offer(body: Body) -> Body:
        return {**body, "offer_ref": {**body["offer_ref"], "offer_id": offers.pop()["offerId"]}}

    proposals = [each.json()["proposal_id"] for each in reference.post_examples(client, "/proposals", for_an_offer)]
    [formalized] = reference.post_examples(client, "/proposals/{proposal_id}/formalize", proposal_id=proposals[0])
    assert formalized.json()["status"] == "awaiting_signature"
    searched, *_ = reference.post_examples(client, "/proposals/search")
    assert sorted(each["proposal_id"] for each in searched.json()["proposals"]) == sorted(proposals)
    [cancelled] = reference.post_examples(client, "/proposals/{proposal_id}/cancel", proposal_id=proposals[1])
    assert cancelled.json()["status"] == "cancelled"

    [opened] = reference.post_examples(client, "/authorizations")
    session = {"authorization_id": opened.json()["authorization_id"]}
    reference.post_examples(client, ACCEPT, **session)
    reference.post_examples(client, "/authorizations/{authorization_id}/revoke", **session)

    [registration] = request_examples(reference.told("/webhook", "put"))
    reference.check("/webhook", client.put("/webhook", registration))

    with_a_body = {path for path, _, told in reference.operations() if "requestBody" in told}
    assert with_a_body == {*reference.posted, "/webhook"}


def needed_filters(told: Body) -> dict[str, str]:
    """A value for each filter that an operation can't do without."""
    filters = [each for each in told.get("parameters", ()) if each["in"] == "query" and each.get("required")]
    return {each["name"]: each["schema"]["enum"][0] for each in filters}


def test_every_read_answers_in_the_shape_that_is_told(reference: Reference, client: Client) -> None:
    query = client.query()
    submitted = client.post("/proposals", dataset(query["proposals"][0]))
    [opened] = reference.post_examples(client, "/authorizations")
    [key] = reference.told("/auction-proposals/{proposal_key}", "get")["parameters"]
    named = {
        "query_id": query["queryId"],
        "proposal_id": submitted.json()["proposal_id"],
        "authorization_id": opened.json()["authorization_id"],
        "proposal_key": key["examples"]["Encontrada"]["value"],
        "name": "aroeira",
        "field": "titular.naturalidade_cidade",
        "event_id": client.get("/webhook-events").json()["events"][0]["id"],
    }
    accepted = ["/authorizations/{authorization_id}", "/authorizations/{authorization_id}/dossier"]
    for path, method, told in reference.operations():
        if method == "GET" and path != accepted[1]:
            reference.check(path, client.get(path.format(**named), params=needed_filters(told)))
    reference.post_examples(client, ACCEPT, authorization_id=named["authorization_id"])
    for path in accepted:
        reference.check(path, client.get(path.format(**named)))


def test_every_example_of_an_answer_has_the_shape_that_is_told(reference: Reference) -> None:
    """Every operation also has a description, an example answer and an example of each error that it names."""
    request = requests.Request("POST", "http://example.invalid/").prepare()
    for path, method, told in reference.operations():
        assert told["description"], path
        operation, shown = reference.operation(path, method), set()
        for status, media_type, _, value in examples_of(told):
            shown.add(status)
            if media_type == "application/json":
                content = json.dumps(value).encode()
                headers = {"content-type": [media_type]}
                operation.validate_response(Answer(status, headers, content, request, elapsed=0, verify=False))
        contents = {int(status): each.get("content", {}) for status, each in told["responses"].items()}
        assert shown == {
            status for status, each in contents.items() if each and not {"text/html", "application/zip"} & {*each}
        }, path


def test_the_auctions_example_is_the_record_that_the_sandbox_gives(reference: Reference, client: Client) -> None:
    path = "/auction-proposals/{proposal_key}"
    told = reference.told(path, "get")
    example = told["responses"]["200"]["content"]["application/json"]["examples"]["Registro"]["value"]
    record = client.get(path.format(proposal_key=example["proposal_key"])).json()
    of_today = {name for name, value in record.items() if name.endswith("_datetime") and value}
    assert {name: value for name, value in record.items() if name not in {*of_today, "proposal"}} == {
        name: value for name, value in example.items() if name not in {*of_today, "proposal"}
    }
    simulation = record["proposal"]["proposal_data"]["simulation"]
    simulation["first_due_date"] = example["proposal"]["proposal_data"]["simulation"]["first_due_date"]
    assert record["proposal"] == example["proposal"]


def test_a_refused_body_is_answered_as_its_example_says(reference: Reference, client: Client) -> None:
    """Each route's own 422: the first request example with one thing wrong."""
    bad_holder = {"telefone": "1234", "email": "maria"}
    [offer, *_] = client.query(providers=["ipe"])["proposals"]
    session = client.post("/authorizations", request_examples(reference.told("/authorizations", "post"))[0])
    real = {"offer_ref": {"provider": "ipe", "offer_id": offer["offerId"]}}
    wrong: list[tuple[str, Body, str]] = [
        ("/consultas", bad_holder, "InvalidInput(telefone)"),
        ("/consultas/stream", bad_holder, "InvalidInput(telefone)"),
        ("/providers/{name}/consultas", bad_holder, "InvalidInput(telefone)"),
        ("/proposals", {}, "InvalidInput(offerRef.offerId)"),
        ("/proposals", {**real, "recebimento": {}}, "InvalidInput(recebimento)"),
        ("/proposals/search", {"cursor": "x"}, "InvalidInput(cursor)"),
        ("/proposals/{proposal_id}/formalize", {"tipo_envio": "carta"}, "InvalidInput(tipoEnvio)"),
        ("/proposals/{proposal_id}/cancel", {"motivo": "x" * 121}, "InvalidInput(motivo)"),
        ("/authorizations", {"cpf": "90000000174"}, "InvalidInput(cpf)"),
        (ACCEPT, {"accepted": False}, "InvalidInput(accepted)"),
    ]
    for path, change, name in wrong:
        told = reference.told(path, "post")
        url = path.format(name="ipe", proposal_id="x", authorization_id=session.json()["authorization_id"])
        response = client.post(url, {**request_examples(told)[0], **change})
        assert response.status_code == 422, path
        example = told["responses"]["422"]["content"]["application/json"]["examples"][name]["value"]
        assert response.json() == example, path
