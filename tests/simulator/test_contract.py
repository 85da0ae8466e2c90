"""What every simulated bank has to do, over HTTP, as its manual promises. A bank's peculiarities, and its dialect, are
in its own tests."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from providers import registry
from tests.providers.manuals import changed, query_body
from tests.providers.samples import HOLDERS
from tests.simulator.dialect import VALUE, Caller, Dialect, Fault, slips
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
    answer = caller.log_in()
    told = answer.json()
    assert len(dialect.token(told)) >= 32
    assert (answer.status_code, told) == (dialect.granted_with, dialect.granted(told))
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
    for call in caller.dialect.routes:
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
    dialect, whole = caller.dialect, caller.submission()
    another_holder: Fault = (dialect.submit_cpf, OTHER, VALUE)
    faults = [*slips(dialect, whole, dialect.may_lack_in_submission), *dialect.submit_faults, another_holder]
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


def test_what_no_holder_gave_may_be_missing(caller: Caller) -> None:
    for changes in caller.dialect.taken:
        assert caller.dialect.fault(caller.query(changes=changes)) is None, changes


def test_a_body_of_another_kind_is_refused(caller: Caller) -> None:
    dialect = caller.dialect
    for media_type, raw in dialect.no_bodies:
        headers = {**dialect.headers(caller.token, dialect.query, raw), "Content-Type": media_type}
        fault = dialect.fault(caller.send(dialect.query, data=raw, headers=headers))
        assert fault is not None
        assert fault[0] == dialect.body, media_type


def test_pix_keys(caller: Caller) -> None:
    dialect = caller.dialect
    for kind, key, fault in dialect.pix_keys:
        body = changed(caller.submission(), dialect.pix(kind, key))
        assert dialect.fault(caller.submit(body)) == fault, (kind, key)


def test_only_a_known_simulation_can_be_submitted(caller: Caller) -> None:
    answer = caller.submit(caller.submission({caller.dialect.simulation: "unknown"}))
    assert (answer.status_code, answer.json()) == caller.dialect.unknown_simulation
    assert caller.simulator.contracts(caller.dialect.name) == []


def test_a_repeated_reference_is_the_same_contract_unless_the_manual_says_otherwise(caller: Caller) -> None:
    body = caller.submission()
    for _ in range(2):
        assert caller.dialect.fault(caller.submit(body)) is None
    assert len(caller.simulator.contracts(caller.dialect.name)) == (2 if caller.dialect.repeats else 1)


def test_what_is_unknown_is_told_in_the_banks_own_words(caller: Caller) -> None:
    for call, body, status, told in caller.dialect.unknown:
        answer = caller.call(call, body)
        assert (answer.status_code, answer.json()) == (status, told), call
