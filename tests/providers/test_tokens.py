"""The wait for a token while another request logs in."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from providers.errors import BankTimedOut
from providers.tokens import MARGIN_S, Token, TokenCache


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
