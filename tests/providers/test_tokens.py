"""A token that all processes share, for a bank that allows each user few tokens."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from foundation.redis import redis
from providers.errors import BankTimedOut
from providers.tokens import MARGIN_S, SharedTokenCache, Token, TokenCache
from tests.processes import wait_until

KEY = "a-bank:a-user"


class Login:
    """A bank that gives numbered tokens, each after a short delay."""

    def __init__(self, lasting_s: float = 600) -> None:
        self.given = 0
        self.lasting_s = lasting_s

    def __call__(self, old: Token | None) -> Token:
        time.sleep(0.1)
        self.given += 1
        return Token.lasting(f"token-{self.given}", self.lasting_s)


def taken(cache: SharedTokenCache, login: Login) -> str:
    return cache.take(login, timeout=5).value


def test_processes_share_one_login() -> None:
    login, processes = Login(), [SharedTokenCache(KEY) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        found = set(pool.map(lambda cache: taken(cache, login), processes))
    assert (found, login.given) == ({"token-1"}, 1)


def test_a_refused_token_is_replaced_once_for_all() -> None:
    login, first, second = Login(), SharedTokenCache(KEY), SharedTokenCache(KEY)
    assert {taken(first, login), taken(second, login)} == {"token-1"}
    sent_at = time.monotonic()
    first.discard(sent_at)
    assert taken(first, login) == "token-2"
    second.discard(sent_at)  # the second had sent the old token too, before the new login
    assert taken(second, login) == "token-2"
    assert login.given == 2


def test_a_token_near_its_end_is_replaced() -> None:
    login = Login(lasting_s=MARGIN_S + 0.3)
    assert taken(SharedTokenCache(KEY), login) == "token-1"
    wait_until(lambda: taken(SharedTokenCache(KEY), login) == "token-2", 5, "the token is replaced")


def test_redis_holds_no_token_that_can_be_read() -> None:
    taken(SharedTokenCache(KEY), Login())
    stored = redis().get(f"bank-token:{KEY}")
    assert stored is not None
    assert b"token-1" not in stored


def test_a_login_that_fails_keeps_nobody_waiting() -> None:
    def failing(old: Token | None) -> Token:
        raise LookupError("no token")

    with pytest.raises(LookupError):
        SharedTokenCache(KEY).take(failing, timeout=5)
    assert taken(SharedTokenCache(KEY), Login()) == "token-1"


def test_without_redis_each_process_logs_in(settings: Any) -> None:
    url, settings.REDIS_URL = settings.REDIS_URL, "redis://127.0.0.1:1/0"
    redis.cache_clear()
    try:
        login = Login()
        assert [taken(SharedTokenCache(KEY), login) for _ in range(2)] == ["token-1", "token-2"]
    finally:
        settings.REDIS_URL = url
        redis.cache_clear()


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
