"""What every simulated bank has to do, over HTTP, as its manual promises. A bank's peculiarities, and its dialect, are
in its own tests."""

from importlib import import_module
from typing import Any

import pytest

from providers import registry
from tests.processes import Simulator
from tests.providers.manuals import changed, query_body
from tests.providers.samples import FULL_FLOW, HOLDERS
from tests.simulator.dialect import FORMAT, MISSING, TYPE, VALUE, Caller, Dialect, Fault, leaves, slips

DIALECTS: list[Dialect] = [import_module(f"tests.simulator.test_{name}").DIALECT for name in registry.names()]
OTHER = HOLDERS["two_employers"]


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.name)
def caller(simulator: Simulator, request: pytest.FixtureRequest) -> Caller:
    return Caller(simulator, request.param)


def test_every_route_needs_good_headers(caller: Caller) -> None:
    for call in caller.dialect.routes():
        for headers in caller.dialect.bad_headers:
            filled = {
                name: value.format(token=caller.token) if isinstance(value, str) else value
                for name, value in headers.items()
            }
            answer = caller.call(call, None if call.startswith("GET") else {}, filled)
            assert (answer.status_code, answer.json()) == caller.dialect.turned_away, (call, headers)
    assert not any(
        call["worked"] for call in caller.simulator.calls(caller.dialect.name) if call["operation"] != "token"
    )


def test_a_wrong_field_of_a_query_is_refused_by_its_name(caller: Caller) -> None:
    dialect = caller.dialect
    whole = dialect.complete(query_body(dialect.name))
    faults = [*slips(dialect, whole, dialect.may_lack_in_query), *dialect.query_faults]
    check_faults(caller, dialect.call_to("query"), whole, faults)


def test_a_wrong_field_of_a_submission_is_refused_by_its_name_and_creates_nothing(caller: Caller) -> None:
    """Nor is one for another holder than the simulation's taken."""
    dialect, whole = caller.dialect, caller.submission()
    another_holder: list[Fault] = [(path, OTHER, VALUE) for path, value in leaves(whole) if value == FULL_FLOW]
    faults = [*slips(dialect, whole, dialect.may_lack_in_submission), *another_holder, *dialect.submit_faults]
    check_faults(caller, dialect.call_to("submit"), whole, faults)
    assert caller.simulator.contracts(dialect.name) == []


def check_faults(caller: Caller, call: str, whole: dict[str, Any], faults: list[Fault]) -> None:
    """Check that the bank refuses each fault in the body. It limits the calls of one token."""
    found, expected = {}, {}
    for number, (path, value, fault, *other) in enumerate(faults):
        if number % 20 == 19:
            caller = Caller(caller.simulator, caller.dialect)
        answer = caller.call(call, changed(whole, {path: value}))
        found[path, str(value)] = answer.status_code, answer.json()
        expected[path, str(value)] = caller.dialect.refusal(other[0] if other else path, fault)
    assert found == expected


def test_a_body_of_another_kind_is_refused(caller: Caller) -> None:
    dialect, query = caller.dialect, caller.dialect.call_to("query")
    for media_type, raw in dialect.no_bodies:
        headers = {**dialect.headers(caller.token, query, raw), "Content-Type": media_type}
        answer = caller.send(query, data=raw, headers=headers)
        refusals = [dialect.refusal(dialect.body, fault) for fault in (MISSING, TYPE, FORMAT)]
        assert (answer.status_code, answer.json()) in refusals, media_type
