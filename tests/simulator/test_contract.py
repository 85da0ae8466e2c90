"""What every simulated bank has to do, over HTTP, as its manual promises. A bank's peculiarities, and its dialect, are
in its own tests."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from providers import registry
from tests.providers.manuals import changed, query_body
from tests.providers.samples import FULL_FLOW, HOLDERS
from tests.simulator.dialect import VALUE, Caller, Dialect, Fault, leaves, slips
from tests.simulator.http import HttpSimulator

DIALECTS: list[Dialect] = [import_module(f"tests.simulator.test_{name}").DIALECT for name in registry.names()]
WITH_TOKENS = [dialect for dialect in DIALECTS if dialect.login]
OTHER = HOLDERS["two_employers"]


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.name)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def caller(simulator: HttpSimulator, dialect: Dialect) -> Caller:
    return Caller(simulator, dialect)


@pytest.mark.parametrize("dialect", WITH_TOKENS, ids=lambda dialect: dialect.name, indirect=True)
def test_a_token_is_given_for_its_time(caller: Caller) -> None:
    dialect = caller.dialect
    told = caller.log_in().json()
    assert len(dialect.token(told)) >= 32
    assert dialect.told_lifetime_s(told) == dialect.lifetime_s
    caller.simulator.advance(dialect.lifetime_s - 5)
    assert dialect.fault(caller.query()) is None
    caller.simulator.advance(10)
    answer = caller.query()
    assert (answer.status_code, answer.json()) == dialect.turned_away


@pytest.mark.parametrize("dialect", WITH_TOKENS, ids=lambda dialect: dialect.name, indirect=True)
def test_a_wrong_login_is_refused(caller: Caller) -> None:
    for changes, status, body in caller.dialect.wrong_logins:
        answer = caller.log_in(**changes)
        assert (answer.status_code, answer.json()) == (status, body), changes


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
    check_faults(
        caller, dialect.query, whole, [*slips(dialect, whole, dialect.may_lack_in_query), *dialect.query_faults]
    )


def test_a_wrong_field_of_a_submission_is_refused_by_its_name_and_creates_nothing(caller: Caller) -> None:
    """Nor is one for another holder than the simulation's taken."""
    dialect, whole = caller.dialect, caller.submission()
    another_holder: list[Fault] = [(path, OTHER, VALUE) for path, value in leaves(whole) if value == FULL_FLOW]
    faults = [*slips(dialect, whole, dialect.may_lack_in_submission), *another_holder, *dialect.submit_faults]
    check_faults(caller, dialect.submit, whole, faults)
    assert caller.simulator.contracts(dialect.name) == []


def check_faults(caller: Caller, call: str, whole: dict[str, Any], faults: list[Fault]) -> None:
    """Check that the bank refuses each fault in the body. It limits the calls of one token."""
    found, expected = {}, {}
    for number, (path, value, fault, *other) in enumerate(faults):
        if number % 20 == 19:
            caller = Caller(caller.simulator, caller.dialect)
        found[path, str(value)] = caller.dialect.fault(caller.call(call, changed(whole, {path: value})))
        expected[path, str(value)] = (other[0] if other else path, fault)
    assert found == expected


def test_a_body_of_another_kind_is_refused(caller: Caller) -> None:
    dialect = caller.dialect
    for media_type, raw in dialect.no_bodies:
        headers = {**dialect.headers(caller.token, dialect.query, raw), "Content-Type": media_type}
        fault = dialect.fault(caller.send(dialect.query, data=raw, headers=headers))
        assert fault is not None
        assert fault[0] == dialect.body, media_type
