"""The API reference against the running service: its examples work. `Client` compares each call with the reference."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from tests import contract
from tests.client import Client
from tests.proposals.datasets import dataset

ACCEPT = "/authorizations/public/{authorization_id}/accept"
Body = dict[str, Any]


def operations() -> Iterator[tuple[str, str, Body]]:
    """The path behind `/partners/v1`, the method and the description of each operation."""
    for path, methods in contract.document()["paths"].items():
        for method, told in methods.items():
            yield path.removeprefix("/partners/v1"), method, told


def told_of(path: str, method: str) -> Body:
    return contract.document()["paths"][f"/partners/v1{path}"][method]


def request_examples(path: str, method: str = "post") -> list[Any]:
    told = told_of(path, method)["requestBody"]["content"]["application/json"]["examples"]
    return [each["value"] for each in told.values()]


class Examples:
    """Sends the request examples of routes. `posted` are the routes."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.posted: set[str] = set()

    def post(self, path: str, change: Callable[[Body], Body] | None = None, **named: str) -> list[requests.Response]:
        """The answers to all examples of a route. `change` puts the ids of an earlier answer into an example."""
        bodies = [change(each) if change else each for each in request_examples(path)]
        answers = [self.client.post(path.format(**named), body) for body in bodies]
        assert [each.text for each in answers if not each.ok] == [], path
        self.posted.add(path)
        return answers


@pytest.fixture
def examples(client: Client) -> Examples:
    return Examples(client)


def test_every_request_example_works_as_it_is(examples: Examples, client: Client) -> None:
    """Against the sandbox, in the order of the flow; only ids of earlier answers are replaced."""
    first, *_ = examples.post("/consultas")
    streamed = examples.post("/consultas/stream")
    for each in streamed:
        assert '"event":"complete"' in each.text
    alone = examples.post("/providers/{name}/consultas", name="ipe")
    assert {each.json()["status"] for each in alone} == {"ok"}

    offers = [offer for offer in first.json()["proposals"] if offer["provider"] == "ipe"]

    def for_an_offer(body: Body) -> Body:
        return {**body, "offer_ref": {**body["offer_ref"], "offer_id": offers.pop()["offerId"]}}

    proposals = [each.json()["proposal_id"] for each in examples.post("/proposals", for_an_offer)]
    [formalized] = examples.post("/proposals/{proposal_id}/formalize", proposal_id=proposals[0])
    assert formalized.json()["status"] == "awaiting_signature"
    searched, *_ = examples.post("/proposals/search")
    assert sorted(each["proposal_id"] for each in searched.json()["proposals"]) == sorted(proposals)
    [cancelled] = examples.post("/proposals/{proposal_id}/cancel", proposal_id=proposals[1])
    assert cancelled.json()["status"] == "cancelled"

    [opened] = examples.post("/authorizations")
    session = {"authorization_id": opened.json()["authorization_id"]}
    examples.post(ACCEPT, **session)
    examples.post("/authorizations/{authorization_id}/revoke", **session)

    [registration] = request_examples("/webhook", "put")
    assert client.put("/webhook", registration).ok

    with_a_body = {path for path, _, told in operations() if "requestBody" in told}
    assert with_a_body == {*examples.posted, "/webhook"}


def needed_filters(told: Body) -> dict[str, str]:
    """A value for each filter that an operation can't do without."""
    filters = [each for each in told.get("parameters", ()) if each["in"] == "query" and each.get("required")]
    return {each["name"]: each["schema"]["enum"][0] for each in filters}


def test_every_read_answers_in_the_shape_that_is_told(examples: Examples, client: Client) -> None:
    query = client.query()
    submitted = client.post("/proposals", dataset(query["proposals"][0]))
    [opened] = examples.post("/authorizations")
    [key] = told_of("/auction-proposals/{proposal_key}", "get")["parameters"]
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
    for path, method, told in operations():
        if method == "get" and path != accepted[1]:
            assert client.get(path.format(**named), params=needed_filters(told)).ok, path
    examples.post(ACCEPT, authorization_id=named["authorization_id"])
    for path in accepted:
        assert client.get(path.format(**named)).ok, path


def test_the_auctions_example_is_the_record_that_the_sandbox_gives(client: Client) -> None:
    path = "/auction-proposals/{proposal_key}"
    told = told_of(path, "get")
    example = told["responses"]["200"]["content"]["application/json"]["examples"]["Registro"]["value"]
    record = client.get(path.format(proposal_key=example["proposal_key"])).json()
    of_today = {name for name, value in record.items() if name.endswith("_datetime") and value}
    assert {name: value for name, value in record.items() if name not in {*of_today, "proposal"}} == {
        name: value for name, value in example.items() if name not in {*of_today, "proposal"}
    }
    simulation = record["proposal"]["proposal_data"]["simulation"]
    simulation["first_due_date"] = example["proposal"]["proposal_data"]["simulation"]["first_due_date"]
    assert record["proposal"] == example["proposal"]


def test_a_refused_body_is_answered_as_its_example_says(client: Client) -> None:
    """Each route's own 422: the first request example with one thing wrong."""
    bad_holder = {"telefone": "1234", "email": "maria"}
    [offer, *_] = client.query(providers=["ipe"])["proposals"]
    session = client.post("/authorizations", request_examples("/authorizations")[0])
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
        url = path.format(name="ipe", proposal_id="x", authorization_id=session.json()["authorization_id"])
        response = client.post(url, {**request_examples(path)[0], **change})
        assert response.status_code == 422, path
        example = told_of(path, "post")["responses"]["422"]["content"]["application/json"]["examples"][name]["value"]
        assert response.json() == example, path
