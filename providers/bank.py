"""What a bank is, and how its operations are run over `providers.http`.

`Bank.call` and `Bank.exchange` give each request its absolute deadline, request id, breaker, place in
flight, token and size limit, repeat what is safe to repeat, and turn whatever goes wrong into an error of
`providers.errors`. The breaker is asked at an operation's first request and told at its end. An adapter
(`providers/banks/<bank>.py`) adds only facts and the mapping of its dialect.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import structlog

from foundation.errors import ApiError, Detail, NotSupported
from providers.breaker import Breaker
from providers.errors import BankFailure, ProviderError, ProviderUnavailable
from providers.http import Reply, Request, encoded, send
from providers.metrics import bank_call
from providers.tokens import Token, TokenCache, tokens
from providers.types import BankProposal, BankQuery, BankResult, BankSubmission, ProposalStatus

log = structlog.get_logger(__name__)
T = TypeVar("T")

#: A bank's callback that is older is refused, signed or not.
CALLBACK_MAX_AGE_S = 300
OPERATIONS = (
    "query",
    "check",
    "submit",
    "find",
    "formalize",
    "status",
    "cancel",
    "auction_proposal",
)


@dataclass(frozen=True)
class Connection:
    """How one bank is reached: an operator's settings, without the ORM. Times in seconds."""

    base_url: str
    credentials: Mapping[str, str] = field(repr=False)
    timeout_s: float = 25
    max_in_flight: int = 512
    portfolio: str | None = None
    circuit: str = "auto"


def _guarded(method: Callable[..., T]) -> Callable[..., T]:
    """An adapter's operation: what its mapping stumbles over is turned into "unreadable reply", and the breaker
    is told how it ended."""

    @functools.wraps(method)
    def guarded(self: Bank, *args: Any, **kwargs: Any) -> T:
        with self._judged():
            try:
                return method(self, *args, **kwargs)
            except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as fault:
                # The fault's own text may quote the bank's body: only its kind and place are logged.
                traceback = fault.__traceback__
                while traceback and traceback.tb_next:
                    traceback = traceback.tb_next
                line = f"{traceback.tb_frame.f_code.co_name}:{traceback.tb_lineno}" if traceback else "?"
                log.error("bank_reply_unmapped", bank=self.name, fault=type(fault).__name__, at=line)
                raise ProviderError from None

    return guarded


def _counted(method: Callable[..., T]) -> Callable[..., T]:
    """An adapter's call, with its outcome and duration kept for the metrics."""

    @functools.wraps(method)
    def counted(self: Bank, *args: Any, **kwargs: Any) -> T:
        with bank_call(self.name, method.__name__):
            return method(self, *args, **kwargs)

    return counted


class Bank:
    """One bank: facts as class attributes, the operations as methods: dataclass in, dataclass out.

    `deadline` is absolute, in `time.monotonic()` seconds: no call of this object outlasts it. One object does one
    operation at a time.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    #: How the holder is authorized: evidence, biometrics, chat or sms.
    authorization: ClassVar[str] = "evidence"
    #: Whether a query may send the holder a message; such a query is never repeated blindly.
    notifies_holder: ClassVar[bool] = False
    #: Whether the bank calls back when a holder's step ended; such a bank has `verify_callback`.
    calls_back: ClassVar[bool] = False
    #: Whether the auction look-up is asked here: the service's own bank.
    runs_auctions: ClassVar[bool] = False
    #: What `submit` needs beyond the blocks required of all, in dotted field names.
    required: ClassVar[tuple[str, ...]] = ()
    accepts_pix: ClassVar[bool] = True
    #: Native status words; a word that is not here means "unknown" and moves nothing.
    statuses: ClassVar[Mapping[str, ProposalStatus]] = {}
    #: The longest time the bank takes to show a submission: only then is "not found" final.
    processing_time_s: ClassVar[int] = 60
    #: Whether a second submission under one reference is answered with the first proposal. Where it is not, sending
    #: again has to wait until "not found" is final.
    deduplicates: ClassVar[bool] = False
    #: False where requests are signed one by one instead of bearing a token from `login`.
    uses_token: ClassVar[bool] = True
    #: (requests, seconds) that one token serves, where the bank limits it.
    token_budget: ClassVar[tuple[int, float] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for operation in OPERATIONS:
            if operation in cls.__dict__:
                setattr(cls, operation, _counted(_guarded(cls.__dict__[operation])))

    def __init__(self, connection: Connection, *, deadline: float, request_id: str) -> None:
        self.connection = connection
        self.deadline = deadline
        self.request_id = request_id
        #: Called once, when the first authenticated request is about to go out: not while the breaker, the limit in
        #: flight, a failed login or the deadline keeps it back.
        self.before_request: Callable[[], None] | None = None
        self._breaker = Breaker(self.name)
        self._operating = False
        self._let_out = False

    # --- The calls; a bank overrides what it supports ---------------------------------------------------

    def query(self, query: BankQuery) -> BankResult:
        """Ask for offers. May open an external step. Raises an ApiError for a failure or a refusal."""
        raise NotSupported

    def check(self, query: BankQuery, reference: str) -> BankResult:
        """How the external step `reference` stands, without side effects (no second message to the
        holder); where it is approved, with the offers for `query`."""
        raise NotSupported

    def submit(self, submission: BankSubmission) -> BankProposal:
        """Create the proposal. A BankFailure with `sent` leaves the outcome unknown: ask `find` first."""
        raise NotSupported

    def find(self, reference: str) -> BankProposal | None:
        """The proposal that was submitted under the service's own `reference`, None where there is none."""
        raise NotSupported

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        """Have the contract issued and the signature link made; `channel` is sms, whatsapp or None."""
        raise NotSupported

    def status(self, native_id: str) -> BankProposal:
        """The proposal as it stands at the bank."""
        raise NotSupported

    def cancel(self, native_id: str, reason: str | None) -> BankProposal:
        """Cancel the proposal. Banks that can't keep this default."""
        raise NotSupported("Este banco não permite cancelamento.")

    def auction_proposal(self, key: str) -> dict[str, Any]:
        """The auction's record behind `key`, without side effects. Raises NotFound."""
        raise NotSupported

    @classmethod
    def verify_callback(cls, secret: str, headers: Mapping[str, str], body: bytes) -> str:
        """The reference of the step (see `BankAction`) that a callback of this bank is about.

        No request is made and nothing but `secret` is needed, so that who takes callbacks need not hold the
        bank's credentials. `headers` are looked up in any case of letters, `body` is the raw one. Raises
        Unauthorized where the callback is not the bank's, was altered or is older than CALLBACK_MAX_AGE_S, and
        where `secret` is empty. It is no proof of how the step ended: whoever gets the reference asks `check`,
        so that a replay within that time changes nothing.
        """
        raise NotSupported

    def faults(self, submission: BankSubmission) -> list[Detail]:
        """Rules of this bank on a submission beyond `required`, checked before any call. Empty: all well."""
        return []

    # --- The dialect's hooks ------------------------------------------------------------------------------

    def login(self, old: Token | None) -> Token:
        """A fresh token by way of `exchange`. `old`, where given, may hold a refresh token."""
        raise NotSupported

    def login_refused(self, reply: Reply) -> bool:
        """Whether the bank says that our credentials are wrong: no outage, and nothing that passes by itself."""
        return 400 <= reply.status < 500

    def authorize(self, token: Token | None, method: str, path: str, body: bytes) -> dict[str, str]:
        """The headers that authenticate a request."""
        return {}

    def token_refused(self, reply: Reply) -> bool:
        """Whether the bank says that the token is not (or no longer) good. It has done nothing then."""
        return reply.status == 401

    def refusal(self, reply: Reply) -> ApiError | None:
        """The error that the partner shall see, where `reply` is the bank's own way to say no."""
        return None

    def proposal_status(self, word: str) -> ProposalStatus | None:
        """The normalized status of a native word; an unknown one is logged and moves nothing."""
        status = self.statuses.get(word)
        if status is None:
            log.warning("bank_status_unknown", bank=self.name, word=word[:60])
        return status

    # --- The seam -------------------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        safe: bool = False,
    ) -> Reply:
        """One authenticated request; returns the bank's answer where it is not an error.

        `json` and `form` are the body; Decimals become JSON numbers. `safe` tells that the request may be
        sent again where a connection broke before an answer. Raises ProviderUnavailable, ProviderError or
        whatever `refusal` made of the answer.
        """
        self._ask_breaker()
        reply = self._authenticated(method, path, *encoded(json, form, headers), safe)
        self._refuse_errors(reply)
        return reply

    def exchange(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        safe: bool = True,
    ) -> Reply:
        """One request without a token, for `login`. Answers of 400 and above raise."""
        body, sent_headers = encoded(json, form, headers)
        reply = self._send(method, path, body, sent_headers, safe)
        if self.login_refused(reply):
            log.error("bank_login_refused", bank=self.name, status=reply.status)
            raise ProviderError(sent=False)
        if reply.status >= 500:
            raise ProviderUnavailable(sent=False)
        return reply

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """Tells the breaker once how the operation inside ended, if it let a request of it out.

        Only then is it known whether the bank can be worked with: an answer may be well by its status and say
        nothing that can be read. A refusal is an answer; what the service itself held back says nothing.
        """
        if self._operating:
            yield  # part of the operation around it
            return
        self._operating, self._let_out = True, False
        good: bool | None = None
        try:
            yield
            good = True
        except BankFailure as failure:
            good = None if failure.held_back else False
            raise
        except ApiError:
            good = True
            raise
        finally:
            self._operating = False
            if self._let_out and good is not None:
                self._breaker.record(good)

    def _ask_breaker(self) -> None:
        """Once for the operation as a whole: a login and further requests belong to it, also where it is the
        breaker's probe. Raises ProviderUnavailable."""
        if self._operating and self._let_out:
            return
        circuit = self.connection.circuit
        if circuit == "open" or (circuit == "auto" and not self._breaker.allows()):
            raise ProviderUnavailable(sent=False, held_back=True)
        self._let_out = True

    def _authenticated(self, method: str, path: str, body: bytes, headers: dict[str, str], safe: bool) -> Reply:
        """The request with the bank's authentication; once more with a fresh token, or a fresh signature,
        where it refused ours."""
        cache = tokens(self.name, _fingerprint(self.connection), self.token_budget) if self.uses_token else None
        for _ in range(2):
            token = self._token(cache) if cache is not None else None
            proof = self.authorize(token, method, path, body)
            sent_at = time.monotonic()
            reply = self._send(method, path, body, headers | proof, safe, announce=True)
            if not self.token_refused(reply):
                return reply
            if cache is not None:
                cache.discard(sent_at)
        log.error("bank_token_refused", bank=self.name)
        raise ProviderError(sent=False)

    def _token(self, cache: TokenCache) -> Token:
        """A token; a failure to get one means that the request itself was never sent."""
        try:
            return cache.take(self.login, timeout=max(0.0, self.deadline - time.monotonic()))
        except BankFailure as failure:
            failure.sent = False
            raise

    def _refuse_errors(self, reply: Reply) -> None:
        error = self.refusal(reply)
        if error is not None:
            raise error
        if reply.status >= 500:
            raise ProviderUnavailable
        if not 200 <= reply.status < 300:
            raise ProviderError

    def _send(
        self, method: str, path: str, body: bytes, headers: dict[str, str], safe: bool, *, announce: bool = False
    ) -> Reply:
        with self._place_in_flight():
            if announce and self.before_request is not None and time.monotonic() < self.deadline:
                self.before_request()
                self.before_request = None
            request = Request(method, path, body, {"X-Request-Id": self.request_id} | headers, safe)
            connection = self.connection
            return send(
                request,
                connection.base_url,
                connections=connection.max_in_flight,
                deadline=self.deadline,
                timeout_s=connection.timeout_s,
            )

    @contextmanager
    def _place_in_flight(self) -> Iterator[None]:
        """One of the bank's places, for the time of one request."""
        places = _places(self.name, self.connection.max_in_flight)
        if not places.acquire(timeout=max(0.0, self.deadline - time.monotonic())):
            log.warning("bank_in_flight_limit", bank=self.name)
            raise ProviderUnavailable(sent=False, held_back=True)
        try:
            yield
        finally:
            places.release()


_lock = threading.Lock()
_semaphores: dict[tuple[str, int], threading.BoundedSemaphore] = {}


def _places(name: str, limit: int) -> threading.BoundedSemaphore:
    """The bank's places in flight in this process: a hanging bank fills its own, never another's."""
    with _lock:
        return _semaphores.setdefault((name, limit), threading.BoundedSemaphore(limit))


def _fingerprint(connection: Connection) -> str:
    """Names a bank's account, so that changed credentials never meet an old token."""
    parts = [
        connection.base_url,
        *(f"{key}={value}" for key, value in sorted(connection.credentials.items())),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
