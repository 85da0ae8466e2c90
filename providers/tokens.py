"""Access tokens of the banks, one cache per user and process. A token is renewed before it expires, when the bank ends
it early, and when the bank's limit of requests per token is reached."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from providers.errors import BankFailure, BankTimedOut, ProviderUnavailable

#: A token is renewed this many seconds before it expires, so that it is still valid when the request arrives.
MARGIN_S = 30.0


@dataclass
class Token:
    """An access token. `issued_at` and `expires_at` are monotonic seconds. `refresh` is a refresh token, if any."""

    value: str = field(repr=False)
    expires_at: float
    refresh: str | None = field(default=None, repr=False)
    issued_at: float = field(default_factory=time.monotonic)
    uses: deque[float] = field(default_factory=deque, repr=False)

    @classmethod
    def lasting(
        cls, value: str, seconds: float | str = 0, refresh: str | None = None, minutes: float | str = 0
    ) -> Token:
        """A token that the bank issued now and that is valid for so long. The template `token` has these names."""
        return cls(value, time.monotonic() + float(seconds) + 60 * float(minutes), refresh)


class _Login:
    """A login in progress: the number of callers that wait for its token, and its failure, which they all get."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.waiting = 0
        self.failure: BankFailure | None = None

    def wait(self, end: float) -> None:
        """Wait for the login until `end`, in `time.monotonic()` seconds. Raises its failure, unless it failed only for
        its own caller: that one's deadline, or a request that was held back. Then this caller may try."""
        if not self.done.wait(max(0.0, end - time.monotonic())):
            raise BankTimedOut(sent=False)
        failure = self.failure
        if failure is None:
            return
        if not (isinstance(failure, BankTimedOut) or failure.held_back):
            raise type(failure)(failure.message, sent=False)
        if time.monotonic() >= end:
            raise BankTimedOut(sent=False, held_back=failure.held_back)


class TokenCache:
    """The tokens of one user. There is more than one only if the bank limits the requests per token.

    No lock is held during a login. Callers without a token wait for a login whose token can serve them.
    """

    def __init__(self, budget: tuple[int, float] | None) -> None:
        self._requests, self._seconds = budget or (10**9, 0.0)
        self._limited = budget is not None
        self._tokens: list[Token] = []
        self._logins: list[_Login] = []
        self._lock = threading.Lock()

    def take(self, login: Callable[[Token | None], Token], *, timeout: float) -> Token:
        """A token for one request. `login` is called if a fresh one is needed.

        Raises ProviderUnavailable if no token came within `timeout` seconds, and any exception of `login`.
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
            flight.wait(end)
        return self._log_in(flight, login, old)

    def discard(self, sent_at: float) -> None:
        """Forget the token of a request that was sent at `sent_at` (`time.monotonic()`) and refused, and all tokens of
        the same age or older, which the bank may have ended too. Newer tokens stay."""
        with self._lock:
            self._tokens = [token for token in self._tokens if token.issued_at > sent_at]

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
        """A valid token with requests left, counted as used once more. The caller holds the lock."""
        now = time.monotonic()
        live = [token for token in self._tokens if now < token.expires_at - MARGIN_S]
        if self._limited:
            self._tokens = live
        for token in live:
            # A use is counted when the token is taken. The bank counts it when the request arrives, at most one
            # time-out later. A use is therefore forgotten here that much later, too.
            while self._limited and token.uses and now - token.uses[0] > self._seconds + MARGIN_S:
                token.uses.popleft()
            if len(token.uses) < self._requests:
                if self._limited:
                    token.uses.append(now)
                return token
        return None


@cache
def tokens(name: str, user: str, budget: tuple[int, float] | None) -> TokenCache:
    """The token cache of the bank `name` for `user`, the fingerprint of credentials: changed ones use no old token."""
    return TokenCache(budget)
