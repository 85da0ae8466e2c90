"""What `providers.operation` does around every operation of any bank; and the wait for another request's token."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import ParseError

import pytest
from structlog.testing import capture_logs

from foundation.errors import ApiError, InvalidInput
from providers import operation, rules
from providers.banks.ipe import Ipe
from providers.banks.sucupira import Sucupira
from providers.breaker import Breaker
from providers.errors import (
    BankFailure,
    BankKeptOut,
    BankSwitchedOff,
    BankTimedOut,
    Conflict,
    LoginRefused,
    OfferExpired,
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
)
from providers.http import Draft
from providers.models import Provider
from providers.operation import BankClient
from providers.tokens import MARGIN_S, Token, TokenCache
from providers.types.proposal import BankProposal, BankSubmission
from providers.types.query import BankQuery, BankResult, Employment
from tests.processes import Simulator
from tests.providers.conftest import Connect, answering, at, client_of, saying
from tests.providers.samples import CREDENTIALS, OFFER, a_query, a_submission
from tests.receiver import Received, Receiver, Reply
from tests.unit.providers.test_rules import Narrow, narrow


def stumbling(place: str, fault: Exception) -> type[Ipe]:
    """An adapter that raises `fault` in its method `place`, before any request of that method."""

    def stumble(self: Ipe, *_: Any) -> Any:
        raise fault

    return type("Stumbling", (Ipe,), {place: stumble})


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("login", KeyError("access_token")),
        ("login", ParseError("not well-formed")),
        ("login", RecursionError("nested too deep")),
        ("login", ProviderError()),
        ("login", ProviderUnavailable()),
        ("submit", KeyError("x")),
    ],
)
def test_what_stumbles_before_the_request_leaves_no_submission_unknown(
    connect: Connect, simulator: Simulator, place: str, fault: Exception
) -> None:
    """Before the fix, a fault of the mapping in `login` left the outcome of a submission unknown."""
    with pytest.raises(BankFailure) as caught:
        client_of(stumbling(place, fault), connect("ipe").connection).submit(a_submission(OFFER))
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
    assert Breaker("ipe").allows()


@pytest.mark.parametrize(
    ("held_back", "error"), [({"circuit": "open"}, BankKeptOut), ({"seconds": 0}, ProviderUnavailable)]
)
def test_what_is_held_back_is_not_announced(
    connect: Connect, held_back: dict[str, Any], error: type[BankFailure]
) -> None:
    with pytest.raises(error):
        connect("ipe", **held_back).query(a_query(), about_to_send=lambda: pytest.fail("announced"))


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda bank, told: bank.submit(replace(told, evidencia={"tipo_envio": "whatsapp"})), "evidencia.tipo_envio"),
        (lambda bank, told: bank.formalize("native", "whatsapp"), "tipo_envio"),
    ],
)
def test_the_banks_own_rules_are_applied_before_anything_is_sent(
    call: Callable[[BankClient, BankSubmission], object], field: str
) -> None:
    """Nobody listens at the bank's address: an attempt would be "unavailable"."""
    with pytest.raises(InvalidInput) as caught:
        call(client_of(Narrow, at("ipe", "http://127.0.0.1:9").connection), narrow())
    assert caught.value.field == field


def test_declined_insurance_is_in_no_offer_of_a_bank_that_can_not_be_told_so(connect: Connect) -> None:
    class Insurer(Ipe):
        def query(self, query: BankQuery) -> BankResult:
            employer = Employment(OFFER.registration, "11222333000181", "Aurora")
            return BankResult.answer([replace(OFFER, with_insurance=True)], [employer])

    bank = client_of(Insurer, connect("ipe").connection)
    assert bank.query(a_query(with_insurance=False)).reasons == (rules.ONLY_INSURED,)


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

    def lasts(longest: float = 60, **limits: float) -> float:
        bank = operation.client("ipe", request_id="request-1", partner="partner-1", **limits).within(longest)
        return round(bank.deadline - operation.time.monotonic())

    assert (lasts(), lasts(3), lasts(30), lasts(seconds=14)) == (7, 3, 7, 14)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("reply", "is_proof"),
    [
        (Reply(503), False),
        (Reply(200, b"what"), False),
        (Reply(422, b'{"errors": {"politica": ["x"]}}'), True),
        (Reply(200, b'{"simulacoes": [], "vinculos": [], "motivos": []}'), True),
    ],
)
def test_only_an_answer_shows_that_the_bank_accepts_new_credentials(reply: Reply, is_proof: bool) -> None:
    """Before the fix, at a bank without a log-in a gateway's failure removed the credentials before them."""
    with Receiver(reply) as bank:
        row = Provider(name="sucupira", base_url=bank.root, credentials=CREDENTIALS["sucupira"])
        row.renew_credentials({"key_id": "another"})
        row.save()
        with suppress(ApiError):
            operation.client("sucupira", request_id="request-1", partner="partner-1").query(a_query())
        assert len(bank.received) == 1
    assert bool(Provider.objects.get().former_credentials) is not is_proof


# --- what a later request of a submission meets

LOGGED_IN = Reply(200, b'{"access_token": "t", "expires_in": 600}')
EXISTS = Reply(409, b'{"code": "D-9", "translation": "Referencia ja existe."}')


class Looking(Ipe):
    """An ipe whose `submit` looks the proposal up where the bank says that it has the reference already."""

    def submit(self, submission: BankSubmission) -> BankProposal:
        try:
            return super().submit(submission)
        except Conflict:
            found = self.find(submission.reference)
            if not found:
                raise OfferExpired from None
            return found[0]


@pytest.mark.parametrize(
    "found",
    [
        Reply(200, b'{"debts": []}'),
        Reply(404, b'{"code": "D-4", "translation": "Nao encontrado."}'),
        Reply(429, b"{}"),
        Reply(422, b'{"code": "D-2", "translation": "Parametro invalido."}'),
        Reply(401, b"{}"),
        Reply(503),
        Reply(200, b"what"),
    ],
    ids=lambda reply: f"{reply.status}-{len(reply.body)}",
)
@pytest.mark.parametrize("later_login", [LOGGED_IN, Reply(429, b"{}")], ids=["login", "refused login"])
def test_what_a_look_up_behind_a_submission_meets_leaves_its_outcome_open(found: Reply, later_login: Reply) -> None:
    """Before the fixes, a look-up that found nothing said that the offer is gone; a refused one that the bank refused
    the submission or was never sent it; and a refused log-in that it could be sent twice."""
    logins, others = iter([LOGGED_IN]), saying(EXISTS, found)

    def answer(request: Received) -> Reply:
        return next(logins, later_login) if request.path.startswith("/oauth2") else others(request)

    with Receiver(answer) as bank, pytest.raises(BankFailure) as caught:
        client_of(Looking, at("ipe", bank.root).connection).submit(a_submission(OFFER))
    assert caught.value.sent is True


@pytest.mark.parametrize(
    ("bank", "reply", "error", "told"),
    [
        ("canela", Reply(500, b'{"mensagem": "usuario ou senha invalidos"}'), LoginRefused, {"sent": True}),
        ("peroba", Reply(403, b'{"Mensagem": "Chave do gateway invalida."}'), LoginRefused, {"sent": False}),
        ("cedro", Reply(422, b'{"detail": [{"loc": ["body", 0], "msg": "vazio"}]}'), ProviderRejected, {}),
    ],
)
def test_a_submissions_refusal_is_read(bank: str, reply: Reply, error: type[ApiError], told: dict[str, bool]) -> None:
    """Before the fixes, canela was sent a second one, and the others' sentences were unreadable."""
    with answering(bank, reply) as client, pytest.raises(error) as caught:
        client.submit(a_submission(OFFER))
    assert vars(caught.value).items() >= told.items()


# --- a bank that has no time now


def test_a_bank_that_is_asked_too_often_is_unavailable_and_not_blamed() -> None:
    """Before the fix, a 429 was the holder's refusal, or a failure by which the breaker opened."""
    with answering("ipe", Reply(429, b"{}", {"Retry-After": "60"})) as bank:
        for _ in range(10):
            with pytest.raises(ProviderUnavailable) as caught:
                bank.query(a_query())
    reason = caught.value.reason
    assert (reason.code, reason.source, reason.retryable, caught.value.retryable) == ("unavailable", "bank", True, True)
    assert Breaker("ipe").allows()


@pytest.mark.parametrize("retry_after", [{}, {"Retry-After": "60"}, {"Retry-After": "soon"}])
def test_a_submission_that_the_bank_has_no_time_for_was_not_worked_on(retry_after: Mapping[str, str]) -> None:
    """Before the fix, a 429 refused the submission for good."""
    with Receiver(saying(Reply(429, b"{}", retry_after))) as receiver, pytest.raises(ProviderUnavailable) as caught:
        at("ipe", receiver.root).submit(a_submission(OFFER))
    assert caught.value.sent is False
    assert [request.path for request in receiver.received].count("/v1/private_payroll/debts") == 1


def test_a_bank_that_says_when_is_asked_again_then() -> None:
    """Before the fix, `Retry-After` of a bank was read nowhere."""
    none = {"simulacoes": [], "vinculos": [], "motivos": ["x"]}
    with Receiver(saying(Reply(429, b"{}", {"Retry-After": "0"}), none)) as bank:
        assert at("sucupira", bank.root).query(a_query()).reasons == ("x",)
        assert len(bank.received) == 2


def test_a_repeat_bears_a_signature_of_its_own() -> None:
    """Before the fix, a safe request that was sent again after a broken connection bore the first one's signature."""

    class Signed(Sucupira):
        def authorize(self, token: Token | None, draft: Draft) -> Draft:
            return draft.headed({"X-Assinatura": str(time.monotonic_ns())})

    with Receiver(Reply(reset=True)) as bank, pytest.raises(ProviderUnavailable):
        client_of(Signed, at("sucupira", bank.root).connection).query(a_query())
    first, second = (request.headers["x-assinatura"] for request in bank.received)
    assert first != second


def test_an_answer_of_pages_without_end_is_given_up() -> None:
    """Before the fix, only the deadline ended it."""

    class Paging(Ipe):
        def query(self, query: BankQuery) -> BankResult:
            while True:
                self.call("GET", "/page", safe=True)

    with Receiver(saying({})) as receiver, pytest.raises(ProviderError):
        client_of(Paging, at("ipe", receiver.root).connection, seconds=60).query(a_query())
    assert len(receiver.received) == operation.MOST_REQUESTS + 1


# --- Tokens ---------------------------------------------------------------------------------------------------------


class Login:
    """A bank that gives numbered tokens, each after a short delay."""

    def __init__(self, lasting_s: float = 600) -> None:
        self.given = 0
        self.lasting_s = lasting_s

    def __call__(self, old: Token | None) -> Token:
        time.sleep(0.1)
        self.given += 1
        return Token.lasting(f"token-{self.given}", self.lasting_s)


def test_a_token_near_its_end_is_replaced() -> None:
    cache, login = TokenCache(None), Login(lasting_s=MARGIN_S + 0.05)
    assert [cache.take(login, timeout=5).value for _ in range(2)] == ["token-1", "token-1"]
    time.sleep(0.1)
    assert cache.take(login, timeout=5).value == "token-2"


def test_a_login_that_fails_keeps_nobody_waiting() -> None:
    def failing(old: Token | None) -> Token:
        raise LookupError("no token")

    cache = TokenCache(None)
    with pytest.raises(LookupError):
        cache.take(failing, timeout=5)
    assert cache.take(Login(), timeout=5).value == "token-1"


def test_a_query_with_time_left_logs_in_after_another_ran_out_of_time() -> None:
    """Before the fix, the log-in of a query with little time left failed for all that waited for it."""
    cache, login = TokenCache(None), Login()

    begun, over = threading.Event(), threading.Event()

    def too_late(old: Token | None) -> Token:
        begun.set()
        over.wait(0.2)
        raise BankTimedOut(sent=False)

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(cache.take, too_late, timeout=0.2)
        begun.wait(5)
        others = [pool.submit(cache.take, login, timeout=5) for _ in range(3)]
        with pytest.raises(BankTimedOut):
            first.result()
        assert {other.result().value for other in others} == {"token-1"}
    assert login.given == 1
