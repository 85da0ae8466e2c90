"""What every simulated bank has to do, over HTTP, as its manual promises. A bank's peculiarities, and its dialect, are
in its own tests."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from providers import registry
from tests.providers.manuals import Changes, changed, query_body, words_of
from tests.providers.samples import FULL_FLOW, HOLDERS
from tests.simulator.dialect import VALUE, Caller, Dialect, Fault, leaves, otherwise, slips
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
    dialect, whole = caller.dialect, caller.submission()
    check_faults(caller, dialect.submit, whole, [*submission_faults(dialect, whole), *dialect.submit_faults])
    assert caller.simulator.contracts(dialect.name) == []


def test_a_wrong_pix_key_is_refused_by_its_name(caller: Caller) -> None:
    dialect = caller.dialect
    path, told = words_of(dialect.name).pix
    for part in told.values():
        caller = Caller(caller.simulator, dialect)
        without: Changes = {dialect.pix_instead_of: ...} if dialect.pix_instead_of else {}
        whole = caller.submission({**({path: part} if path else part), **without})
        within = f"{path}." if path else tuple(part)
        faults = [fault for fault in submission_faults(dialect, whole) if fault[0].startswith(within)]
        check_faults(caller, dialect.submit, whole, faults)
    assert caller.simulator.contracts(dialect.name) == []


def submission_faults(dialect: Dialect, whole: dict[str, Any]) -> list[Fault]:
    """What the bank refuses in a submission: also another holder's CPF, as the borrower's or as a PIX key."""
    another_holder: list[Fault] = [(path, OTHER, VALUE) for path, value in leaves(whole) if value == FULL_FLOW]
    optional = words_of(dialect.name).whole  # what the manual's body may lack, such as the father
    faults = [fault for path, value in optional.items() for fault in otherwise(dialect, path, value)]
    return [*slips(dialect, whole, dialect.may_lack_in_submission), *another_holder, *faults]


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


def test_a_channel_that_does_not_exist_is_refused(caller: Caller) -> None:
    caller.submit(caller.submission())
    [contract] = caller.simulator.contracts(caller.dialect.name)
    caller.simulator.advance(3.1)  # a desk's analysis ends
    call, body = caller.dialect.formalize(contract["contract"])
    assert caller.dialect.fault(caller.call(call, body)) == (list(body)[-1], VALUE)
