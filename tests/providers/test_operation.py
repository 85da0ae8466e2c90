"""What `providers.operation` does around every operation of any bank."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import ParseError

import pytest
from structlog.testing import capture_logs

from providers import operation
from providers.banks.ipe import Ipe
from providers.breaker import Breaker
from providers.errors import BankFailure, BankSwitchedOff, ProviderError, ProviderUnavailable
from providers.models import Provider
from providers.tokens import Token
from providers.types.answer import BankResult
from providers.types.proposal import BankProposal
from providers.types.query import BankQuery
from providers.types.submission import BankSubmission
from tests.processes import Simulator
from tests.providers.conftest import Connect, client_of
from tests.providers.samples import CREDENTIALS, a_query, a_submission


def stumbling(place: str, fault: Exception) -> type[Ipe]:
    """An adapter that raises `fault` in its method `place`, before any request of that method."""

    def stumble(self: Ipe, *_: Any) -> Any:
        raise fault

    return type("Stumbling", (Ipe,), {place: stumble})


@pytest.mark.parametrize(
    "fault",
    [
        KeyError("access_token"),
        ParseError("not well-formed"),
        RecursionError("nested too deep"),
        ProviderError(),
        ProviderUnavailable(),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_a_login_that_stumbles_leaves_no_submission_unknown(
    connect: Connect, simulator: Simulator, fault: Exception
) -> None:
    """Before the fix, a fault of the mapping in `login` left the outcome of a submission unknown."""
    submission = a_submission(connect("ipe").query(a_query()).offers[0])
    # Other credentials, so that no token is cached.
    credentials = {**CREDENTIALS["ipe"], "client_secret": f"other-{type(fault).__name__}"}
    bank = client_of(stumbling("login", fault), connect("ipe", credentials=credentials).connection)
    with pytest.raises(BankFailure) as caught:
        bank.submit(submission)
    assert caught.value.sent is False
    assert simulator.calls("ipe", "submit") == []


@pytest.mark.parametrize("fault", [KeyError("x"), ParseError("x"), RecursionError("x")], ids=lambda x: type(x).__name__)
def test_any_fault_of_the_mapping_is_an_unreadable_answer(connect: Connect, fault: Exception) -> None:
    class Unmapped(Ipe):
        def query(self, query: BankQuery) -> BankResult:
            super().query(query)
            raise fault

    with capture_logs() as lines, pytest.raises(ProviderError) as caught:
        client_of(Unmapped, connect("ipe").connection).query(a_query())
    assert caught.value.sent is True
    assert [(line["event"], line["fault"]) for line in lines] == [("bank_reply_unmapped", type(fault).__name__)]


def test_a_submission_that_can_not_be_written_was_not_sent(connect: Connect, simulator: Simulator) -> None:
    submission = a_submission(connect("ipe").query(a_query()).offers[0])
    with pytest.raises(ProviderError) as caught:
        client_of(stumbling("submit", KeyError("x")), connect("ipe").connection).submit(submission)
    assert caught.value.sent is False
    assert simulator.calls("ipe", "submit") == []


def test_about_to_send_is_called_once_before_the_first_request(connect: Connect, simulator: Simulator) -> None:
    seen: list[int] = []

    def note() -> None:
        seen.append(len(simulator.calls("cedro", "query")))

    connect("cedro").query(a_query(), about_to_send=note)  # one request and some polls
    assert seen == [0]


def test_where_about_to_send_fails_nothing_is_sent_and_the_bank_is_not_blamed(
    connect: Connect, simulator: Simulator
) -> None:
    def fail() -> None:
        raise LookupError("a fault of the caller")

    for _ in range(10):
        with pytest.raises(LookupError, match="a fault of the caller"):
            connect("ipe").query(a_query(), about_to_send=fail)
    assert simulator.calls("ipe", "query") == []
    assert not Breaker("ipe").is_open()


@pytest.mark.parametrize("held_back", [{"circuit": "open"}, {"seconds": 0}])
def test_what_is_held_back_is_not_announced(connect: Connect, held_back: dict[str, Any]) -> None:
    with pytest.raises(ProviderUnavailable):
        connect("ipe", **held_back).query(a_query(), about_to_send=lambda: pytest.fail("announced"))


def test_the_banks_own_rules_are_applied_before_a_submission_is_sent(connect: Connect, simulator: Simulator) -> None:
    class Strict(Ipe):
        required = ()

        def submit(self, submission: BankSubmission) -> BankProposal:
            raise AssertionError("the rules were not applied")

        def login(self, old: Token | None) -> Token:
            raise AssertionError("the rules were not applied")

    offer = connect("ipe").query(a_query()).offers[0]
    document = a_submission(offer).document
    longer = type(document)("1" * 21, document.issuer, document.issuer_state, document.issued_on)
    with pytest.raises(Exception, match="Este banco aceita no máximo 20 caracteres") as caught:
        client_of(Strict, connect("ipe").connection).submit(a_submission(offer, document=longer))
    assert type(caught.value).__name__ == "InvalidInput"


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["ipe", "no-such"])
def test_a_bank_that_is_switched_off_or_unknown_is_called_by_nobody(name: str) -> None:
    Provider.objects.create(name=name, base_url="http://127.0.0.1:9", enabled=name != "ipe")
    with pytest.raises(BankSwitchedOff, match=r"^Banco desativado no momento\.$") as caught:
        operation.client(name, request_id="request-1", partner="partner-1")
    assert (caught.value.sent, caught.value.held_back) == (False, True)


@pytest.mark.django_db
def test_the_time_of_a_client_is_the_banks_own_unless_less_is_left() -> None:
    Provider.objects.create(name="ipe", base_url="http://127.0.0.1:9", timeout_s=7)

    def lasts(**limits: float) -> float:
        bank = operation.client("ipe", request_id="request-1", partner="partner-1", **limits)
        return round(bank.deadline - operation.time.monotonic())

    assert (lasts(), lasts(longest_s=3), lasts(longest_s=30), lasts(seconds=14)) == (7, 3, 7, 14)
