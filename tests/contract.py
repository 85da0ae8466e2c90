"""Checks of all JSON that tests exchange with the service against the API reference.

Used by `tests/client.py`, Django's test client, and for the events that a test leaves behind. Responses and events may
not contain a field that the reference lacks. An accepted request must match the reference, too.
"""

import copy
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import jsonschema_rs
from django.urls import Resolver404, resolve

Json = dict[str, Any]
JSON = "application/json"
STREAM = "text/event-stream"
#: These objects may contain unknown fields: the institution's record is passed through.
OPEN = {"AuctionRecord", "AuctionProposal", "AuctionProposalData", "AuctionSimulation", "AuctionRate"}


@cache
def document() -> Json:
    """The API reference, with the objects of responses and events closed to unknown fields."""
    from config import documents

    made = copy.deepcopy(documents.document())
    for name in _answered(made) - OPEN:
        component = made["components"]["schemas"][name]
        if "properties" in component:
            component.setdefault("additionalProperties", False)
    return made


@cache
def operation_of(method: str, path: str) -> Json | None:
    """The reference's operation for a call. None for a call outside of the reference (tests/test_schema.py lists
    them)."""
    try:
        route = resolve(path).route
    except Resolver404:
        return None
    item: Json = document()["paths"].get(documented_path(route), {})
    return item.get(method.lower())


def documented_path(route: str) -> str:
    """A route of Django in the reference's notation."""
    return "/" + route.replace("<str:", "{").replace(">", "}")


def check_answer(method: str, path: str, status: int, media_type: str, body: bytes) -> None:
    """Raises AssertionError if status, error code or body of this response differ from the reference. The holder's
    pages are not JSON and are skipped."""
    operation = operation_of(method, path)
    if operation is None or not body or not media_type.startswith((JSON, STREAM)):
        return
    content = operation["responses"].get(str(status), {}).get("content", {}).get(media_type.split(";")[0])
    assert content is not None, f"{method} {path}: {status} with {media_type} is not told"
    if media_type.startswith(JSON):
        answered = json.loads(body)
        _check(content["schema"], answered, f"{method} {path}: {status}")
        codes = {example["value"]["code"] for example in content["examples"].values()} if status >= 400 else set()
        assert status < 400 or answered["code"] in codes, f"{method} {path}: {answered} is no error that is told"
    elif media_type.startswith(STREAM):
        for _, event in stream_events(body.splitlines()):
            _check(event_schema(content), event, f"{method} {path}: an event")


def check_request(method: str, path: str, body: bytes) -> None:
    """Raises AssertionError if a body that the service accepted does not match the reference."""
    operation = operation_of(method, path)
    if operation is not None and body:
        content = operation["requestBody"]["content"].get(JSON)
        _check(content["schema"], json.loads(body), f"{method} {path}: the request")


def check_event(body: str) -> None:
    """Raises AssertionError if this event, as it is sent, does not match the reference."""
    event = json.loads(body)
    events, name = document()["webhooks"], event["event"]
    told = events.get(name) or events.get(re.sub(r"^proposal\..*", "proposal.<status>", name))
    assert told is not None, f"the event {name} is not told"
    _check(told["post"]["requestBody"]["content"][JSON]["schema"], event, f"the event {name}")


def event_schema(content: Json) -> Json:
    """The reference's schema of the `data` of a stream's event."""
    assert content["schema"] == {"$ref": "#/components/schemas/Stream"}
    return {"$ref": "#/components/schemas/StreamEvent"}


def stream_events(lines: Iterable[bytes]) -> Iterator[tuple[str, Json]]:
    """The events of a stream as its lines come, each with its id."""
    number = ""
    for line in lines:
        if line.startswith(b"id: "):
            number = line.removeprefix(b"id: ").decode()
        elif line.startswith(b"data: "):
            yield number, json.loads(line.removeprefix(b"data: "))


def _check(schema: Json, value: Any, what: str) -> None:
    faults = [
        f"{'.'.join(map(str, each.instance_path))}: {each.message}"
        for each in _validator(json.dumps(schema, sort_keys=True)).iter_errors(value)
    ]
    assert not faults, f"{what} is not as it is told\n" + "\n".join(faults[:10]) + f"\n{json.dumps(value)[:2000]}"


@cache
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    whole = {**json.loads(schema), "components": document()["components"]}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def _answered(made: Json) -> set[str]:
    """The names of the components that responses and events use."""
    operations = [each for item in made["paths"].values() for each in item.values()]
    found: set[str] = set()
    waiting = [operation["responses"] for operation in operations]
    waiting += [item["post"]["requestBody"] for item in made["webhooks"].values()]
    while waiting:
        for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(waiting.pop())):
            if name not in found:
                found.add(name)
                waiting.append(made["components"]["schemas"][name])
    return found
