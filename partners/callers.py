"""From which addresses a partner calls the API, remembered for some weeks: an acceptance from one of them may be the
partner's own.

A call waits for nothing. The process notes an address that it has not told lately in its memory, and a thread tells
Redis, which keeps keyed digests only. Behind a shared address (NAT, a company's proxy) partner and holder may look the
same, so nothing is ever refused for this.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from uuid import UUID

import structlog
from django.http import HttpRequest
from redis.exceptions import RedisError

from foundation.client_ip import client_ip, network_of
from foundation.encryption import blind_index
from foundation.redis import redis

log = structlog.get_logger(__name__)

REMEMBERED_FOR_S = 30 * 24 * 3600
#: A process tells an address again after this time, so that a Redis that was emptied knows it soon.
TOLD_EVERY_S = 600.0
#: Addresses that one process knows as told. With more it begins anew.
MOST_KNOWN = 10_000
#: A longer header is not kept in memory.
LONGEST_HEADER = 200
#: After an error Redis is left alone for this time.
AWAY_S = 1.0
_AT_ONCE = 500

#: A partner, the connection's address and the forwarding header: what `client_ip` reads.
Caller = tuple[UUID, str, str]


def note(partner_id: UUID, request: HttpRequest) -> None:
    """Remember that this request of the partner came from its address."""
    meta = request.META
    _teller().note((partner_id, meta.get("REMOTE_ADDR", ""), meta.get("HTTP_X_FORWARDED_FOR", "")), request)


def calls_from(partner_id: UUID, address: str) -> bool | None:
    """True if the partner's calls came from `address` lately, or from its IPv6 network. None where Redis can't tell."""
    try:
        return bool(redis().exists(_key(partner_id, address)))
    except RedisError:
        log.warning("callers_unreachable")
        return None


def _key(partner_id: UUID, address: str) -> str:
    return f"caller:{blind_index('api-caller', f'{partner_id} {network_of(address)}')}"


class _Teller:
    """Tells Redis what one process noted."""

    def __init__(self) -> None:
        self._told: dict[Caller, float] = {}
        self._news: queue.SimpleQueue[tuple[Caller, str]] = queue.SimpleQueue()
        threading.Thread(target=self._tell, name="callers", daemon=True).start()

    def note(self, caller: Caller, request: HttpRequest) -> None:
        if self._is_told(caller):
            return
        try:
            address = client_ip(request)
        except (KeyError, ValueError):  # as behind a Unix socket: nobody can tell
            return
        if len(caller[2]) > LONGEST_HEADER:
            caller = (caller[0], address, "")
            if self._is_told(caller):
                return
        if len(self._told) >= MOST_KNOWN:
            self._told.clear()
        self._told[caller] = time.monotonic()
        self._news.put((caller, address))

    def _is_told(self, caller: Caller) -> bool:
        told_at = self._told.get(caller)
        return told_at is not None and time.monotonic() - told_at < TOLD_EVERY_S

    def _tell(self) -> None:
        while True:
            news = [self._news.get()]
            while len(news) < _AT_ONCE and not self._news.empty():
                news.append(self._news.get())
            try:
                pipe = redis().pipeline(transaction=False)
                for (partner_id, *_), address in news:
                    pipe.set(_key(partner_id, address), 1, ex=REMEMBERED_FOR_S)
                pipe.execute()
            except RedisError:
                log.warning("callers_not_told", callers=len(news))
                for caller, _ in news:
                    self._told.pop(caller, None)  # the next call tells it again
                time.sleep(AWAY_S)


_lock = threading.Lock()
_tellers: dict[int, _Teller] = {}


def _teller() -> _Teller:
    """This process's teller; a forked process gets its own."""
    found = _tellers.get(os.getpid())
    if found is None:
        with _lock:
            found = _tellers.get(os.getpid()) or _Teller()
            _tellers[os.getpid()] = found
    return found
