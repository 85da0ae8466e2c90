"""Access tokens of the banks, one cache per account and process: renewed before they end, when the bank
drops them early, and when a bank's limit of requests per token is used up."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from providers.errors import BankFailure, BankTimedOut, ProviderUnavailable

#: A token is renewed this many seconds before its end: it must outlive the request that bears it.
MARGIN_S = 30.0


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
    """One login under way: those who wait for its token, and the failure that they share with it."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.waiting = 0
        self.failure: BankFailure | None = None


class TokenCache:
    """The tokens of one account; more than one only where the bank limits the requests of each.

    No lock is held during a login. Callers that find no token share as few logins as will serve them all.
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
            if flight.failure is not None:
                raise type(flight.failure)(flight.failure.message, sent=False)
        return self._log_in(flight, login, old)

    def discard(self, sent_at: float) -> None:
        """The bank refused the token of a request sent at that moment (`time.monotonic()`): forget it, and all
        that are as old, for what ended it early may have ended them too. Newer ones stay."""
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
            # A use is counted here when its token is taken, at the bank when the request arrives: up to a
            # time-out later. So it is forgotten here that much later too.
            while self._limited and token.uses and now - token.uses[0] > self._seconds + MARGIN_S:
                token.uses.popleft()
            if len(token.uses) < self._requests:
                if self._limited:
                    token.uses.append(now)
                return token
        return None


_caches: dict[tuple[str, str], TokenCache] = {}
_lock = threading.Lock()


def tokens(name: str, account: str, budget: tuple[int, float] | None) -> TokenCache:
    """The cache of the bank `name` for the account named by the fingerprint `account`."""
    with _lock:
        return _caches.setdefault((name, account), TokenCache(budget))


def forget_all() -> None:
    """Drop every cached token of this process."""
    with _lock:
        _caches.clear()
