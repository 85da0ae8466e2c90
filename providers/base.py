"""What a bank is, and the one seam through which every call to a bank goes.

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
from urllib.parse import urlencode, urlsplit

import msgspec
import structlog
import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
)

from foundation.errors import ApiError, Detail, NotSupported
from providers.breaker import Breaker
from providers.errors import BankFailure, ProviderError, ProviderUnavailable
from providers.metrics import bank_call
from providers.tokens import Token, TokenCache, tokens
from providers.types import BankProposal, BankQuery, BankResult, BankSubmission, ProposalStatus

log = structlog.get_logger(__name__)
T = TypeVar("T")

MAX_REPLY_BYTES = 2 * 1024 * 1024
CONNECT_TIMEOUT_S = 5.0
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
# Decimals leave as JSON numbers, digit for digit: no binary float ever stands between.
_encoder = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True)
class Connection:
    """How one bank is reached: an operator's settings, without the ORM. Times in seconds."""

    base_url: str
    credentials: Mapping[str, str] = field(repr=False)
    timeout_s: float = 25
    max_in_flight: int = 512
    portfolio: str | None = None
    circuit: str = "auto"


@dataclass(frozen=True)
class Reply:
    """A bank's HTTP answer, read completely. Nothing of it may reach a log or a partner unmapped."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def read(self, shape: type[T]) -> T:
        """The JSON body as `shape` (a msgspec Struct, or any type msgspec knows). Raises ProviderError."""
        try:
            return msgspec.json.decode(self.body, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProviderError from None

    def peek(self, shape: type[T]) -> T | None:
        """Like `read`, but None where the body is not of that shape: for telling kinds of answers apart."""
        try:
            return self.read(shape)
        except ProviderError:
            return None


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
        reply = self._authenticated(method, path, *_encoded(json, form, headers), safe)
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
        body, sent_headers = _encoded(json, form, headers)
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
            try:
                return self._once(method, path, body, headers)
            except ProviderUnavailable as failure:
                if not (safe and failure.broken):
                    raise
                # A pooled connection that the bank closed meanwhile looks like this; once is enough.
                return self._once(method, path, body, headers)

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

    def _once(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        started = time.monotonic()
        remaining = min(self.deadline - started, self.connection.timeout_s)
        if remaining <= 0:
            raise ProviderUnavailable("O banco não respondeu a tempo.", sent=False, held_back=True)
        end = started + remaining
        sent_headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "origination/1",
            "X-Request-Id": self.request_id,
        } | headers
        try:
            response = _pool(self.connection).urlopen(
                method,
                urlsplit(self.connection.base_url).path.rstrip("/") + path,
                body=body or None,
                headers=sent_headers,
                timeout=urllib3.Timeout(connect=min(CONNECT_TIMEOUT_S, remaining), read=remaining),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except HTTPError as fault:
            raise _transport_failure(fault) from None
        try:
            content = _read_body(response, end)
        except HTTPError as fault:
            response.close()
            failure = _transport_failure(fault)
            failure.broken = False
            raise failure from None
        except BaseException:
            response.close()
            raise
        response.release_conn()
        return Reply(response.status, response.headers, content)


def _encoded(
    json: Any, form: Mapping[str, str] | None, headers: Mapping[str, str] | None
) -> tuple[bytes, dict[str, str]]:
    """The body's bytes, and the headers with the content type that goes with them."""
    if form is not None:
        own, body = {"Content-Type": "application/x-www-form-urlencoded"}, urlencode(form).encode()
    elif json is not None:
        own, body = {"Content-Type": "application/json"}, _encoder.encode(json)
    else:
        own, body = {}, b""
    return body, {**own, **(headers or {})}


def _transport_failure(fault: HTTPError) -> ProviderUnavailable:
    """Our error for a failure below HTTP. `sent` is False only where no connection was ever made."""
    if isinstance(fault, ReadTimeoutError):
        return ProviderUnavailable("O banco não respondeu a tempo.")
    never_sent = isinstance(fault, NewConnectionError | ConnectTimeoutError | NameResolutionError)
    failure = ProviderUnavailable(sent=not never_sent)
    failure.broken = isinstance(fault, ProtocolError) or never_sent
    return failure


def _read_body(response: urllib3.BaseHTTPResponse, end: float) -> bytes:
    """The whole body, at most MAX_REPLY_BYTES, before `end` (monotonic) however slowly it drips.

    Raises ProviderUnavailable when the time is over, ProviderError when the body is too large or encoded.
    """
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise ProviderError
    chunks: list[bytes] = []
    size = 0
    while True:
        remaining = end - time.monotonic()
        if remaining <= 0:
            raise ProviderUnavailable("O banco não respondeu a tempo.")
        socket = getattr(response.connection, "sock", None)
        if socket is not None:
            socket.settimeout(remaining)
        chunk = response.read1(65536)
        if not chunk:
            return b"".join(chunks)
        size += len(chunk)
        if size > MAX_REPLY_BYTES:
            raise ProviderError
        chunks.append(chunk)


_lock = threading.Lock()
_pools: dict[tuple[str, int], urllib3.HTTPConnectionPool] = {}
_semaphores: dict[tuple[str, int], threading.BoundedSemaphore] = {}


def _pool(connection: Connection) -> urllib3.HTTPConnectionPool:
    """The connections kept to one bank. urllib3 reads no proxy or netrc setting of the machine."""
    key = (connection.base_url, connection.max_in_flight)
    with _lock:
        if key not in _pools:
            _pools[key] = urllib3.connection_from_url(connection.base_url, maxsize=connection.max_in_flight)
        return _pools[key]


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
