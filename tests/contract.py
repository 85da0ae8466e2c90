"""Every JSON that tests exchange with the service, against the API reference.

`tests/client.py`, Django's test client and the events that a test leaves behind are checked by this module. Answers and
events may hold no field that the reference does not name; a request that was taken has to fit it too.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema_rs
from django.urls import Resolver404, resolve

Json = dict[str, Any]
JSON = "application/json"
STREAM = "text/event-stream"
#: Open on purpose: the institution's record passes through, with what the institution adds.
OPEN = {"AuctionRecord", "AuctionProposal", "AuctionProposalData", "AuctionSimulation", "AuctionRate"}


@cache
def document() -> Json:
    """The API reference, with the objects of answers and events closed."""
    from config import reference

    made = copy.deepcopy(reference.document())
    for name in _answered(made) - OPEN:
        component = made["components"]["schemas"][name]
        if "properties" in component:
            component.setdefault("additionalProperties", False)
    return made


@cache
def operation_of(method: str, path: str) -> Json | None:
    """What the reference says of a call; None for what is no part of it (tests/test_schema.py has what may be none)."""
    try:
        route = resolve(path).route
    except Resolver404:
        return None
    item: Json = document()["paths"].get(told_path(route), {})
    return item.get(method.lower())


def told_path(route: str) -> str:
    """A route of Django as the reference names it."""
    return "/" + route.replace("<str:", "{").replace(">", "}")


def check_answer(method: str, path: str, status: int, media_type: str, body: bytes) -> None:
    """Raises AssertionError where the reference does not tell this answer: its status, its error code, its body.
    The pages of holders are no JSON, and are passed over."""
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
        for event in stream_events(body):
            _check(event_schema(content), event, f"{method} {path}: an event")


def check_request(method: str, path: str, body: bytes) -> None:
    """Raises AssertionError where a body that the service took does not fit the reference."""
    operation = operation_of(method, path)
    if operation is not None and body:
        content = operation["requestBody"]["content"].get(JSON)
        _check(content["schema"], json.loads(body), f"{method} {path}: the request")


def check_event(body: str) -> None:
    """Raises AssertionError where the reference does not tell this event as it is sent."""
    event = json.loads(body)
    name = re.sub(r"^proposal\..*", "proposal.<status>", event["event"])
    told = document()["webhooks"].get(name)
    assert told is not None, f"the event {name} is not told"
    _check(told["post"]["requestBody"]["content"][JSON]["schema"], event, f"the event {name}")


def event_schema(content: Json) -> Json:
    """What the reference says of the `data` of an event of a stream."""
    _, event = content["schema"]["anyOf"]
    told: Json = event["properties"]["data"]["contentSchema"]
    return told


def stream_events(body: bytes) -> Iterator[Json]:
    """The events of a stream that has ended."""
    for line in body.splitlines():
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


def _check(schema: Json, value: Any, what: str) -> None:
    faults = [
        f"{'.'.join(map(str, each.instance_path))}: {each.message}"
        for each in _validator(_key(schema)).iter_errors(value)
    ]
    assert not faults, f"{what} is not as it is told\n" + "\n".join(faults[:10]) + f"\n{json.dumps(value)[:2000]}"


def _key(schema: Json) -> str:
    return json.dumps(schema, sort_keys=True)


@cache
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    whole = {**json.loads(schema), "components": document()["components"]}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def _answered(made: Json) -> set[str]:
    """The names of the components that answers and events are made of."""
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
