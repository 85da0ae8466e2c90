"""What every bank's failures are to the service: errors, the breaker, tokens."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from structlog.testing import capture_logs

from providers import registry
from providers.errors import BankFailure, LoginRefused, ProviderError, ProviderUnavailable
from providers.operation import BankClient
from providers.tokens import tokens
from providers.types.proposal import ProposalStatus
from providers.types.query import QueryStatus
from tests.processes import Simulator
from tests.providers.conftest import Connect, at, between, fail, half_open
from tests.providers.samples import CREDENTIALS, FULL_FLOW, a_query, a_submission
from tests.receiver import Received, Reply

FAULTS: dict[str, type[BankFailure]] = {
    "http_500": ProviderUnavailable,
    "http_503": ProviderUnavailable,
    "garbage": ProviderError,
    "html": BankFailure,  # one bank's page says "maintenance"; the others' pages are unreadable
}
#: Of these the adapter learns nothing (tests/providers/test_http.py). A submission shows that they count as sent.
BREAKS: dict[str, type[BankFailure]] = {
    "half_body": ProviderUnavailable,
    "reset": ProviderUnavailable,
    "drop_after_accept": ProviderUnavailable,
    "huge_body": ProviderError,
}


@pytest.mark.parametrize("operation", ["query", "submit", "formalize", "status"])
@pytest.mark.control("API10")
def test_a_bank_that_fails_raises_the_right_error(
    connect: Connect, name: str, simulator: Simulator, operation: str
) -> None:
    fails(connect, name, simulator, operation, FAULTS | (BREAKS if operation == "submit" else {}))


@pytest.mark.parametrize("operation", ["query", "submit"])
def test_banks_that_come_to_no_end_are_unavailable(connect: Connect, simulator: Simulator, operation: str) -> None:
    """Each bank has one second; all are called at once."""
    endless = dict.fromkeys(("hang", "slow_body"), ProviderUnavailable)
    with ThreadPoolExecutor(len(registry.names())) as pool:
        waiting = [pool.submit(fails, connect, name, simulator, operation, endless) for name in registry.names()]
    for each in waiting:
        each.result()


def fails(
    connect: Connect, name: str, simulator: Simulator, operation: str, faults: Mapping[str, type[BankFailure]]
) -> None:
    """Have one operation of a bank fail in each of these ways."""
    well = connect(name)
    offer = well.query(a_query()).offers[0]
    proposal = well.submit(a_submission(offer))
    if proposal.status is ProposalStatus.IN_ANALYSIS:
        simulator.complete(FULL_FLOW, name, "desk")
    calls: dict[str, Callable[[BankClient, str], object]] = {
        "query": lambda bank, fault: bank.query(a_query()),
        "submit": lambda bank, fault: bank.submit(a_submission(offer, reference=f"reference-{fault}")),
        "formalize": lambda bank, fault: bank.formalize(proposal.native_id, None),
        "status": lambda bank, fault: bank.status(proposal.native_id),
    }
    for fault, error in faults.items():
        simulator.bank(name, fault=fault, operation=operation)
        with pytest.raises(error) as caught:
            calls[operation](connect(name, seconds=1), fault)
        assert caught.value.sent is True, fault


def test_a_gateways_page_is_no_refusal(name: str, connect: Connect, simulator: Simulator) -> None:
    """A page with 404 does not mean that there is no such proposal."""

    def page_instead(request: Received, reply: Reply) -> Reply:
        if simulator.calls(name)[-1]["operation"] == "token":
            return reply
        return Reply(404, b"<html>Not Found</html>", {"Content-Type": "text/html"})

    with between(simulator, name, page_instead) as url:
        for call in (lambda bank: bank.find("reference-1"), lambda bank: bank.status("no-such")):
            with pytest.raises(BankFailure):
                call(at(name, url))


def test_a_probe_that_is_answered_lets_the_bank_work_again(connect: Connect, name: str, simulator: Simulator) -> None:
    """Also if the adapter has to log in first, and needs several requests."""
    simulator.bank(name, fault="http_500", operation="query")
    fail(connect(name))
    half_open(name)
    tokens.cache_clear()
    simulator.bank(name)
    assert connect(name).query(a_query()).status is QueryStatus.OK
    assert connect(name).query(a_query()).status is QueryStatus.OK


def test_wrong_credentials_are_a_failure_and_no_holder_is_asked_for(
    name: str, connect: Connect, simulator: Simulator
) -> None:
    event = "bank_login_refused" if connect(name).adapter.logs_in() else "bank_token_refused"
    for wrong in CREDENTIALS[name]:
        with capture_logs() as logs, pytest.raises(ProviderError) as caught:
            connect(name, credentials={**CREDENTIALS[name], wrong: "wrong" * 8}).query(a_query())
        assert caught.value.retryable is False
        assert not any(call["worked"] for call in simulator.calls(name, "query"))
        if any(call["let_in"] for call in simulator.calls(name, "query")):
            continue  # a key that does not open the door, but signs what is in the body
        assert caught.value.sent is False, wrong
        assert [line["event"] for line in logs] == [event], wrong


def test_a_token_that_the_bank_dropped_is_renewed_once_and_is_an_error_if_it_drops_it_again_and_again(
    bank: BankClient, simulator: Simulator
) -> None:
    offer = bank.query(a_query()).offers[0]
    simulator.bank(bank.name, fault="expired_token", operation="query", times=1)
    assert bank.query(a_query()).status is QueryStatus.OK
    simulator.bank(bank.name, fault="expired_token", operation="submit", times=1)
    assert bank.submit(a_submission(offer)).native_id
    assert len(simulator.contracts(bank.name)) == 1
    earlier = len(simulator.calls(bank.name, "query"))
    simulator.bank(bank.name, fault="expired_token", operation="query")
    with pytest.raises(LoginRefused) as caught:
        bank.query(a_query())
    assert caught.value.sent is False
    assert [call["worked"] for call in simulator.calls(bank.name, "query")[earlier:]] == [False, False]


def test_a_token_survives_from_call_to_call_and_is_replaced_once_it_ended(
    bank: BankClient, simulator: Simulator
) -> None:
    for _ in range(3):
        bank.query(a_query())
    assert len(simulator.calls(bank.name, "token")) == bank.adapter.logs_in()
    simulator.advance(31 * 24 * 3600)
    assert bank.query(a_query()).status is QueryStatus.OK
    # Our own clock stood still: the bank refused the ended token.
    assert (len(simulator.calls(bank.name, "token")) > 1) is bank.adapter.logs_in()
