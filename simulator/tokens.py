"""Access tokens of one bank."""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from simulator.clock import Clock


@dataclass
class _Token:
    kind: str
    expires_at: datetime
    uses: deque[datetime] = field(default_factory=deque)


class Tokens:
    """Issues tokens that expire by the simulator's clock. `kind` separates access from refresh tokens at banks with
    both."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens: dict[str, _Token] = {}

    def issue(self, ttl_s: float, kind: str = "access") -> str:
        """A new opaque token, valid for `ttl_s` seconds."""
        value = secrets.token_urlsafe(32)
        self._tokens[value] = _Token(kind, self._clock.now() + timedelta(seconds=ttl_s))
        return value

    def valid(self, value: str, kind: str = "access") -> bool:
        """True if the bank issued this token and it has not expired."""
        token = self._tokens.get(value)
        return token is not None and token.kind == kind and token.expires_at > self._clock.now()

    def uses_in_last_minute(self, value: str) -> int:
        """Count one more use of a valid token. Returns the number of uses within the last 60 s, including this one."""
        now = self._clock.now()
        uses = self._tokens[value].uses
        uses.append(now)
        while uses[0] <= now - timedelta(seconds=60):
            uses.popleft()
        return len(uses)

    def reset(self, keep: bool) -> None:
        """Drop every token; with `keep`, reset only the counts of their uses."""
        if not keep:
            self._tokens.clear()
        for token in self._tokens.values():
            token.uses.clear()

    def forget(self, kind: str = "access") -> None:
        """Drop every token of that kind, as a bank does when it restarts its login service."""
        self._tokens = {value: token for value, token in self._tokens.items() if token.kind != kind}
