"""Access tokens of the banks, one cache per user and process: renewed before they end, when the bank drops them early,
and when a bank's limit of requests per token is used up. Where a bank allows a user few tokens, the processes share
one."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import msgspec
import structlog
from redis.exceptions import RedisError
from redis.lock import Lock

from foundation.encryption import WrongKey, decrypt, encrypt
from foundation.redis import redis
from foundation.sealing import Purpose, place
from providers.errors import BankFailure, BankTimedOut, ProviderUnavailable

#: A token is renewed this many seconds before its end: it must outlive the request that bears it.
MARGIN_S = 30.0
#: After so long another process may log in for a shared token.
LONGEST_LOGIN_S = 30
#: How often a process looks for the shared token that another is logging in for.
LOOK_EVERY_S = 0.05

log = structlog.get_logger(__name__)


@dataclass
class Token:
    """`issued_at` and `expires_at` are in `time.monotonic()` seconds; `refresh` is a refresh token, where the
    bank gives one."""

    value: str = field(repr=False)
    expires_at: float
    refresh: str | None = field(default=None, repr=False)
    issued_at: float = field(default_factory=time.monotonic)
    uses: deque[float] = field(default_factory=deque, repr=False)

    @classmethod
    def lasting(cls, value: str, seconds: float, refresh: str | None = None) -> Token:
        """A token that the bank gave now for `seconds`."""
        return cls(value, time.monotonic() + seconds, refresh)


class _Login:
    """One login under way: how many callers wait for its token, and its failure, which they share."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.waiting = 0
        self.failure: BankFailure | None = None


class TokenCache:
    """The tokens of one user; several only where the bank limits the requests of each token.

    No lock is held during a login. Callers that find no token share as few logins as serve them all.
    """

    def __init__(self, budget: tuple[int, float] | None) -> None:
        self._requests, self._seconds = budget or (10**9, 0.0)
        self._limited = budget is not None
        self._tokens: list[Token] = []
        self._logins: list[_Login] = []
        self._lock = threading.Lock()

    def take(self, login: Callable[[Token | None], Token], *, timeout: float) -> Token:
        """A token that is good for one request; `login` is called where a fresh one is needed.

        Raises ProviderUnavailable when no token came within `timeout` seconds, and what `login` raises.
        """
        end = time.monotonic() + timeout
        while True:
            with self._lock:
                token = self._usable()
                if token is not None:
                    return token
                flight = next((each for each in self._logins if each.waiting + 1 < self._requests), None)
                if flight is None:
                    flight = _Login()
                    self._logins.append(flight)
                    old = self._tokens[-1] if self._tokens and not self._limited else None
                    break
                flight.waiting += 1
            if not flight.done.wait(max(0.0, end - time.monotonic())):
                raise BankTimedOut(sent=False)
            failure = flight.failure
            # That the other's time was over, or that its request was held back, says nothing about this login.
            if isinstance(failure, BankTimedOut) or (failure is not None and failure.held_back):
                if time.monotonic() < end:
                    continue
                raise BankTimedOut(sent=False, held_back=failure.held_back)
            if failure is not None:
                raise type(failure)(failure.message, sent=False)
        return self._log_in(flight, login, old)

    def discard(self, sent_at: float) -> None:
        """The bank refused the token of a request sent at that moment (`time.monotonic()`). Forget that token and all
        that are as old: what ended one early may have ended them too. Newer tokens stay."""
        with self._lock:
            self._tokens = [kept for kept in self._tokens if kept.issued_at > sent_at]

    def _log_in(self, flight: _Login, login: Callable[[Token | None], Token], old: Token | None) -> Token:
        try:
            token = login(old)
        except BaseException as fault:
            flight.failure = fault if isinstance(fault, BankFailure) else ProviderUnavailable(sent=False)
            raise
        else:
            token.uses.append(time.monotonic())
            with self._lock:
                self._tokens = [*self._tokens, token] if self._limited else [token]
            return token
        finally:
            with self._lock:
                self._logins.remove(flight)
            flight.done.set()

    def _usable(self) -> Token | None:
        """A token with time and requests left, counted as used once more. The lock is held."""
        now = time.monotonic()
        live = [token for token in self._tokens if now < token.expires_at - MARGIN_S]
        if self._limited:
            self._tokens = live
        for token in live:
            # A use counts here when the token is taken. At the bank it counts when the request arrives, up to a
            # time-out later. So a use is forgotten here that much later too.
            while self._limited and token.uses and now - token.uses[0] > self._seconds + MARGIN_S:
                token.uses.popleft()
            if len(token.uses) < self._requests:
                if self._limited:
                    token.uses.append(now)
                return token
        return None


class SharedTokenCache(TokenCache):
    """The token of one user at a bank that allows few of them: all processes use the same one, encrypted in Redis.

    Only one process logs in at a time; the others wait for its token. Without Redis each process logs in for itself.
    """

    def __init__(self, key: str) -> None:
        super().__init__(None)
        self._key = f"bank-token:{key}"
        self._refused_before = float("-inf")

    def take(self, login: Callable[[Token | None], Token], *, timeout: float) -> Token:
        """See `TokenCache.take`."""
        return super().take(partial(self._fetch, login, time.monotonic() + timeout), timeout=timeout)

    def discard(self, sent_at: float) -> None:
        """See `TokenCache.discard`. A token in Redis that is as old is not used again either."""
        super().discard(sent_at)
        self._refused_before = max(self._refused_before, sent_at)

    def _fetch(self, login: Callable[[Token | None], Token], end: float, old: Token | None) -> Token:
        while True:
            try:
                if token := self._stored():
                    return token
                lock = redis().lock(f"{self._key}:login", timeout=LONGEST_LOGIN_S)
                if lock.acquire(blocking=False):
                    return self._log_in_for_all(lock, login, old)
            except RedisError:
                log.warning("bank_token_not_shared", key=self._key)
                return login(old)
            if time.monotonic() >= end:
                raise BankTimedOut(sent=False)
            time.sleep(LOOK_EVERY_S)

    def _log_in_for_all(self, lock: Lock, login: Callable[[Token | None], Token], old: Token | None) -> Token:
        try:
            if token := self._stored():  # stored by another process since the last look
                return token
            token = login(old)
            self._store(token)
            return token
        finally:
            with suppress(RedisError):  # the lock ends by itself
                lock.release()

    def _stored(self) -> Token | None:
        """The token that some process stored, unless it ends or was refused. Raises RedisError."""
        raw = redis().get(self._key)
        if raw is None:
            return None
        try:
            token = decrypt(raw if isinstance(raw, str) else raw.decode(), place(self._key), Purpose.BANK_TOKEN)
            stored = msgspec.json.decode(token, type=_Stored)
        except WrongKey:
            return None
        now, since_epoch = time.monotonic(), time.time()
        issued_at, expires_at = now - (since_epoch - stored.issued_at), now + stored.expires_at - since_epoch
        if issued_at <= self._refused_before or now >= expires_at - MARGIN_S:
            return None
        return Token(stored.value, expires_at, stored.refresh, issued_at)

    def _store(self, token: Token) -> None:
        now, since_epoch = time.monotonic(), time.time()
        lifetime = token.expires_at - now
        stored = _Stored(token.value, since_epoch + token.issued_at - now, since_epoch + lifetime, token.refresh)
        with suppress(RedisError):  # then the next process logs in for itself
            sealed = encrypt(msgspec.json.encode(stored).decode(), place(self._key), Purpose.BANK_TOKEN)
            redis().set(self._key, sealed, px=max(1, int(lifetime * 1000)))


@dataclass
class _Stored:
    """A token in Redis; times in seconds since the epoch, which all hosts share."""

    value: str
    issued_at: float
    expires_at: float
    refresh: str | None


_caches: dict[tuple[str, str], TokenCache] = {}
_lock = threading.Lock()


def tokens(name: str, user: str, budget: tuple[int, float] | None, *, shared: bool = False) -> TokenCache:
    """The cache of the bank `name` for the user named by the fingerprint `user`."""
    with _lock:
        if (name, user) not in _caches:
            _caches[name, user] = SharedTokenCache(f"{name}:{user}") if shared else TokenCache(budget)
        return _caches[name, user]


def forget_all() -> None:
    """Drop every cached token of this process."""
    with _lock:
        _caches.clear()
