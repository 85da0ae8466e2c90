"""The one place that runs an operation of a bank.

`client` returns a `BankClient`: one bank, called for one partner until one deadline. Each of its methods is one
operation. An operation closes the database connection and keeps the deadline. It asks the circuit breaker before its
first request and reports its outcome at the end. Each of its requests takes a place in flight and is authenticated. The
operation is counted in the metrics. An exception in the adapter's mapping becomes "unreadable answer".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from typing import Any, Self, TypeVar

import gevent
import structlog
from django.db import DatabaseError
from gevent.monkey import is_module_patched

from foundation.database import give_back_connection, outlasts_restart
from foundation.encryption import WrongKey
from foundation.errors import ApiError, InvalidInput, NotFound
from foundation.http.client import Request
from foundation.http.response import retry_after_s
from providers import http, metrics, registry, rules
from providers.bank import Bank, Connection
from providers.breaker import Breaker
from providers.certificates import note_refused
from providers.errors import (
    BankBusy,
    BankFailure,
    BankFull,
    BankHeldBack,
    BankInWindow,
    BankKeptOut,
    BankSwitchedOff,
    BankTimedOut,
    Conflict,
    LoginRefused,
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    Repairable,
    as_submission_error,
)
from providers.http import Draft, Reply
from providers.models import account_accepted, enabled_connections
from providers.outcomes import Outcome, outcome_of
from providers.places import Places
from providers.tokens import Token, TokenCache, tokens
from providers.types.proposal import BankProposal, BankSubmission
from providers.types.query import BankQuery, BankResult, StepOutcome

log = structlog.get_logger(__name__)
T = TypeVar("T")

STEP_FORGOTTEN = "O banco não conhece mais esta autorização. Faça uma nova consulta."
#: The timer ends what no socket time-out ends, such as headers that arrive one byte at a time. The socket's own
#: time-out comes this many seconds earlier.
TIMER_MARGIN_S = 0.5
#: The most authenticated requests of one operation: a bank whose pages or polls come to no end is given up.
MOST_REQUESTS = 100
#: The shortest wait before a busy bank is asked again, in seconds.
SHORTEST_WAIT_S = 0.2


def client(
    name: str,
    *,
    request_id: str,
    partner: str,
    known: Mapping[str, Connection] | None = None,
    seconds: float | None = None,
) -> BankClient:
    """A client for the bank `name`, for calls of the partner with the id `partner`.

    All operations of the client together last at most `seconds` seconds (default: the bank's own time-out). `known`
    holds connections that the caller has already loaded. Raises BankSwitchedOff.
    """
    begun = time.monotonic()
    bank = registry.get(name)
    connection = (_enabled([name]) if known is None else known).get(name)
    if bank is None or connection is None:
        raise BankSwitchedOff
    limit = connection.timeout_s if seconds is None else seconds
    return BankClient(bank, connection, deadline=begun + limit, request_id=request_id, partner=partner)


_enabled = outlasts_restart(enabled_connections)


class BankClient:
    """One bank, called for one partner. `deadline` is absolute, in `time.monotonic()` seconds: no call outlasts it.

    Each operation is that of `Bank` with the same name. It raises an ApiError for the bank's refusal and a BankFailure
    for its failure. `about_to_send` is called once, immediately before the operation's first authenticated request. It
    is not called if the breaker, the limit in flight, a failed login or the deadline keeps that request back. If
    `about_to_send` raises, nothing is sent and the exception is raised here.
    """

    def __init__(
        self, adapter: type[Bank], connection: Connection, *, deadline: float, request_id: str, partner: str
    ) -> None:
        self.adapter = adapter
        self.name = adapter.name
        self.connection = connection
        self.deadline = deadline
        self.request_id = request_id
        self.partner = partner

    def within(self, seconds: float) -> Self:
        """The client, with no operation lasting longer than `seconds` from now."""
        self.deadline = min(self.deadline, time.monotonic() + seconds)
        return self

    def query(self, query: BankQuery, *, about_to_send: Callable[[], None] | None = None) -> BankResult:
        result = self._run("query", lambda bank: bank.query(query), Operation(self, about_to_send))
        return rules.without_declined_insurance(query, result)

    def check(self, query: BankQuery, reference: str) -> BankResult:
        """A step that the bank no longer knows counts as expired, and one that its answer does not name as approved."""
        try:
            result = self._run("check", lambda bank: bank.check(query, reference))
        except NotFound:
            return BankResult.ended(StepOutcome.EXPIRED, STEP_FORGOTTEN)
        result = replace(result, step=result.step or (StepOutcome.OPEN if result.action else StepOutcome.APPROVED))
        return rules.without_declined_insurance(query, result)

    def submit(self, submission: BankSubmission, *, about_to_send: Callable[[], None] | None = None) -> BankProposal:
        """Raises InvalidInput, before any call, if the submission breaks a rule of the bank."""
        if faults := rules.submission_faults(self.adapter, submission):
            raise InvalidInput(details=faults)
        operation = Operation(self, about_to_send)
        try:
            return self._run("submit", lambda bank: bank.submit(submission), operation)
        except ApiError as error:
            raise operation.submission_error(error) from None

    def find(self, reference: str) -> BankProposal | None:
        """The first of what `Bank.find` returns, or None. More than one are logged as an error, because the bank then
        accepted one submission twice."""
        try:
            found = self._run("find", lambda bank: bank.find(reference))
        except NotFound:
            return None
        if len(found) > 1:
            log.error("bank_submission_doubled", bank=self.name, reference=reference, count=len(found))
        return next(iter(found), None)

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        """Raises InvalidInput if the bank does not deliver links by `channel`."""
        if faults := rules.channel_faults(self.adapter, channel, "tipo_envio"):
            raise InvalidInput(details=faults)
        return self._run("formalize", lambda bank: bank.formalize(native_id, channel))

    def status(self, native_id: str) -> BankProposal:
        return self._run("status", lambda bank: bank.status(native_id))

    def cancel(self, native_id: str, reason: str | None) -> BankProposal:
        return self._run("cancel", lambda bank: bank.cancel(native_id, reason))

    def auction_proposal(self, key: str) -> dict[str, Any]:
        return self._run("auction_proposal", lambda bank: bank.auction_proposal(key))

    def log_in(self) -> None:
        """Log in once and forget the token, unheard by breaker and metrics. Raises an ApiError."""
        operation = Operation(self, None)
        self._asked(operation, lambda bank: operation.log_in(bank, None))

    def _run(self, name: str, ask: Callable[[Bank], T], operation: Operation | None = None) -> T:
        give_back_connection()  # no connection is held while waiting for the bank
        operation = operation or Operation(self, None)
        with operation.reported(name):
            return self._asked(operation, ask)

    def _asked(self, operation: Operation, ask: Callable[[Bank], T]) -> T:
        with _timer(max(0.0, self.deadline - time.monotonic()) + TIMER_MARGIN_S):
            try:
                return ask(self.adapter(self.connection, operation.send, self.deadline))
            except BankFailure as failure:
                failure.sent = failure.sent and operation.has_sent
                raise
            except ApiError:
                raise
            except WrongKey:  # its address was changed without its credentials, or a key is missing
                log.error("bank_credentials_do_not_open", bank=self.name)
                raise LoginRefused(sent=operation.has_sent) from None
            except Exception as fault:
                if fault is operation.callers_fault:
                    raise
                raise _unreadable(self.name, fault, sent=operation.has_sent) from None


class Operation:
    """One running operation. Sends the adapter's requests.

    Of a submission, "sent" means that it may have acted at the bank. A failure says so only if it is the failure of the
    unsafe request itself, or of a request after it.
    """

    def __init__(self, client: BankClient, about_to_send: Callable[[], None] | None) -> None:
        self.deadline = client.deadline
        #: True once an authenticated request went out.
        self.has_sent = False
        #: The exception that `about_to_send` raised.
        self.callers_fault: Exception | None = None
        self._client = client
        self._about_to_send = about_to_send
        #: How many requests were sent, and which of them was the first that may have changed something at the bank.
        self._requests = 0
        self._acted_in: int | None = None
        #: When the last request began, in monotonic seconds.
        self._sent_at = 0.0
        self._breaker = Breaker(client.name, client.partner)
        self._is_admitted = False
        self._has_proved_certificate = False

    @contextmanager
    def reported(self, name: str) -> Iterator[None]:
        """Report the end of the operation inside, which is called `name`: to the metrics, and to the breaker if that
        admitted it. If the bank accepted a new certificate or new credentials, remove what was before them.

        Only the whole operation shows whether the bank works: an answer with a good HTTP status may still be
        unreadable. A refusal is a success. A request that the service itself held back is not counted.
        """
        begun, word = time.monotonic(), metrics.OK
        outcome: Outcome | None = Outcome.ANSWERED
        try:
            yield
        except BaseException as error:
            outcome, word = outcome_of(error), metrics.word_for(error)
            raise
        finally:
            if self._is_admitted:
                self._breaker.record(outcome)
            metrics.BANK_CALLS.labels(self._client.name, name, word).observe(time.monotonic() - begun)
            self._drop_former(is_answered=outcome is Outcome.ANSWERED)

    def _drop_former(self, *, is_answered: bool) -> None:
        """Remove the certificate before the one that the bank took, and the credentials before those with which it
        answered the operation. A gateway's failure says nothing about credentials."""
        name, connection = self._client.name, self._client.connection
        certificate = connection.certificates[0] if self._has_proved_certificate else ""
        fingerprint = connection.fingerprint if self.has_sent and is_answered and connection.is_renewed else ""
        if not (certificate or fingerprint):
            return
        try:
            account_accepted(name, certificate=certificate, fingerprint=fingerprint)
        except DatabaseError as fault:  # the next call that the bank accepts tries again
            log.warning("former_account_kept", bank=name, fault=type(fault).__name__)
        give_back_connection()

    def _ask_breaker(self) -> None:
        """Ask the breaker once per operation. The login and later requests belong to the same operation, also when it
        is the probe. Raises BankHeldBack, BankKeptOut, or BankInWindow."""
        if self._is_admitted:
            return
        if self._client.connection.closed:
            raise BankInWindow(self._client.connection.closed)
        circuit = self._client.connection.circuit
        if circuit == "open":
            raise BankKeptOut
        if circuit == "auto" and not self._breaker.allows():
            raise BankHeldBack
        self._is_admitted = True

    def send(self, bank: Bank, draft: Draft) -> Reply:
        """Send `draft` with the bank's authentication and return the answer. If the bank refused the token or
        signature, send once more with a fresh one. Raises a BankFailure, or the bank's refusal."""
        self._ask_breaker()
        self._requests += 1
        if self._requests > MOST_REQUESTS:
            log.error("bank_answers_without_end", bank=bank.name)
            raise ProviderError
        cache = tokens(bank.name, bank.connection.fingerprint, bank.token_budget) if bank.logs_in() else None
        for _ in range(2):
            reply = self._in_time(bank, draft, cache)
            error = LoginRefused() if reply.status == HTTPStatus.UNAUTHORIZED else bank.refusal(reply)
            if not isinstance(error, LoginRefused) or error.sent:
                return self._accepted(bank, reply, error)
            self._note_unchanged()
            if cache is not None:
                cache.discard(self._sent_at)
        log.error("bank_token_refused", bank=bank.name)
        raise LoginRefused

    def _in_time(self, bank: Bank, draft: Draft, cache: TokenCache | None) -> Reply:
        """The answer to `draft` from a bank that has time for it. Until then, each repeat waits as long as the bank
        says. Raises BankBusy if it does not say, or if the deadline comes earlier."""
        while True:
            reply = http.repeated(lambda: self._attempt(bank, draft, cache), safe=draft.safe)
            if reply.status != HTTPStatus.TOO_MANY_REQUESTS:
                return reply
            wait_s = retry_after_s(reply.headers)
            log.warning("bank_busy", bank=bank.name, retry_after_s=wait_s)
            if wait_s is None or time.monotonic() + wait_s >= self.deadline:
                raise BankBusy(sent=False)
            time.sleep(max(wait_s, SHORTEST_WAIT_S))

    def _attempt(self, bank: Bank, draft: Draft, cache: TokenCache | None) -> Reply:
        token = self._token(bank, cache) if cache is not None else None
        request = bank.authorize(token, draft).encoded()
        self._sent_at = time.monotonic()
        reply = self._send(request, announce=True)
        if reply.status == HTTPStatus.TOO_MANY_REQUESTS:
            self._note_unchanged()
        return reply

    def _note_unchanged(self) -> None:
        """Note that the current request certainly changed nothing at the bank."""
        if self._acted_in == self._requests:
            self._acted_in = None

    def _accepted(self, bank: Bank, reply: Reply, error: ApiError | None) -> Reply:
        """`reply` if it is an answer. Raises `error`, the bank's refusal, or ProviderUnavailable or ProviderError."""
        if error:
            if isinstance(error, Repairable):
                self._note_unchanged()
            refusal = error.refusal if isinstance(error, Conflict) else error
            if isinstance(refusal, ProviderRejected):
                refusal.field = bank.bodies.contract_names.get(refusal.field or "")
            raise error
        if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise ProviderUnavailable
        if not HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
            raise ProviderError
        return reply

    def submission_error(self, error: ApiError) -> ApiError:
        """The error of a submission that raised `error`.

        Only the submission's own request decides its outcome. Whatever fails or is refused after it, such as a look-up,
        leaves the outcome unknown: the bank may have made the proposal.
        """
        has_acted_before = self._acted_in is not None and self._acted_in < self._requests
        if isinstance(error, BankFailure):
            error.sent = has_acted_before or (error.sent and self._acted_in is not None)
            return error
        if has_acted_before:
            log.warning("bank_submission_left_open", bank=self._client.name, code=error.code)
            return ProviderUnavailable()
        return as_submission_error(error)

    def log_in(self, bank: Bank, old: Token | None) -> Token:
        return type(bank)(bank.connection, self._send_plain, self.deadline).login(old)

    def _send_plain(self, bank: Bank, draft: Draft) -> Reply:
        """Send a log-in's `draft` without a token, again if the connection breaks. Returns the answer, if below 400.
        Raises a BankFailure."""
        reply = http.repeated(lambda: self._send(replace(draft, safe=True).encoded()), safe=True)
        if reply.status == HTTPStatus.TOO_MANY_REQUESTS:
            raise BankBusy(sent=False)
        # That is not an outage, and waiting does not cure it. A bank that has no time now (408) refuses nothing.
        if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            is_refused = isinstance(bank.refusal(reply), LoginRefused)
        else:
            is_refused = reply.status >= HTTPStatus.BAD_REQUEST and reply.status != HTTPStatus.REQUEST_TIMEOUT
        if is_refused:
            log.error("bank_login_refused", bank=bank.name, status=reply.status)
            raise LoginRefused
        if reply.status >= HTTPStatus.BAD_REQUEST:
            raise ProviderUnavailable(sent=False)
        return reply

    def _token(self, bank: Bank, cache: TokenCache) -> Token:
        """A token for the next request. A BankFailure raised here has `sent` False: the request never went out."""

        def login(old: Token | None) -> Token:
            try:
                return self.log_in(bank, old)
            except (BankFailure, WrongKey):
                raise
            except Exception as fault:
                raise _unreadable(bank.name, fault, sent=False) from None

        try:
            return cache.take(login, timeout=max(0.0, self.deadline - time.monotonic()))
        except BankFailure as failure:
            failure.sent = failure.broken = False
            raise

    def _send(self, request: Request, *, announce: bool = False) -> Reply:
        connection = self._client.connection
        ways = connection.ways  # raises WrongKey before anything counts as sent
        with self._place_in_flight():
            if announce and time.monotonic() < self.deadline:
                self._announce()
                if self._acted_in is None and not request.safe:
                    self._acted_in = self._requests
            try:
                reply = http.send(
                    replace(request, headers={"X-Request-Id": self._client.request_id, **request.headers}),
                    connection.base_url,
                    ways,
                    deadline=self.deadline,
                    timeout_s=connection.timeout_s,
                )
            except BankFailure as failure:
                if announce and not failure.sent:
                    self._note_unchanged()
                raise
        if len(ways) > 1 and reply.way != ways[0]:
            note_refused(self._client.name, connection.certificates[0])
        elif len(ways) > 1 and reply.status < HTTPStatus.BAD_REQUEST:
            self._has_proved_certificate = True
        return reply

    def _announce(self) -> None:
        callback, self._about_to_send = self._about_to_send, None
        if callback is not None:
            try:
                callback()
            except Exception as fault:
                self.callers_fault = fault
                raise
        self.has_sent = True

    @contextmanager
    def _place_in_flight(self) -> Iterator[None]:
        """Hold one of the bank's places in flight during one request."""
        places = _places(self._client.name, self._client.connection.max_in_flight)
        partner = self._client.partner
        if not places.acquire(partner, timeout=max(0.0, self.deadline - time.monotonic())):
            log.warning("bank_in_flight_limit", bank=self._client.name)
            raise BankFull
        try:
            yield
        finally:
            places.release(partner)


def _timer(seconds: float) -> AbstractContextManager[object]:
    """Raise BankTimedOut in the greenlet inside after `seconds`. Does nothing outside gevent, where such a timer could
    not fire: there only the sockets' time-outs apply."""
    if is_module_patched("socket"):
        timer: AbstractContextManager[object] = gevent.Timeout(seconds, BankTimedOut())
        return timer
    return nullcontext()


def _unreadable(bank: str, fault: Exception, *, sent: bool) -> ProviderError:
    """The error for an exception in the adapter's mapping. Only the exception's type and place are logged, because its
    text may quote the bank's answer."""
    traceback = fault.__traceback__
    while traceback and traceback.tb_next:
        traceback = traceback.tb_next
    line = f"{traceback.tb_frame.f_code.co_name}:{traceback.tb_lineno}" if traceback else "?"
    log.error("bank_reply_unmapped", bank=bank, fault=type(fault).__name__, at=line)
    return ProviderError(sent=sent)


@cache
def _places(name: str, limit: int) -> Places:
    """The bank's places in flight in this process: a hanging bank uses up its own and never another's."""
    return Places(limit)
