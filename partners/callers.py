"""Remembers for some weeks from which addresses a partner calls the API. An acceptance from such an address may come
from the partner instead of the holder.

No call waits for this. The process notes keyed digests of new addresses in memory, and a thread sends them to Redis.
Partner and holder may share an address (NAT, a company's proxy), so nothing is refused because of it.
"""

from __future__ import annotations

import queue
import threading
import time
from uuid import UUID

import structlog
from django.http import HttpRequest
from redis.exceptions import RedisError

from foundation.client_ip import client_ip, network_of
from foundation.encryption import blind_index
from foundation.redis import per_process, redis

log = structlog.get_logger(__name__)

REMEMBERED_FOR_S = 30 * 24 * 3600
#: A process sends an address again after this many seconds, so that a Redis that was emptied knows it soon.
SENT_EVERY_S = 600.0
#: How many sent addresses a process remembers. At this number its memory is emptied.
MOST_REMEMBERED = 10_000
#: A longer header is not kept.
LONGEST_HEADER = 200
#: How long Redis is not used after an error, in seconds.
AWAY_S = 1.0
_AT_ONCE = 500

#: The partner, the connection's address and the X-Forwarded-For header: the input of `client_ip`.
Caller = tuple[UUID, str, str]


def note(partner_id: UUID, request: HttpRequest) -> None:
    """Note the address of this request of the partner."""
    meta = request.META
    _sender().note((partner_id, meta.get("REMOTE_ADDR", ""), meta.get("HTTP_X_FORWARDED_FOR", "")), request)


def calls_from(partner_id: UUID, address: str) -> bool | None:
    """True if the partner has recently called from `address` or its IPv6 network. None if Redis is unavailable."""
    try:
        return bool(redis().exists(_key(partner_id, address)))
    except RedisError:
        log.warning("callers_unreachable")
        return None


def _key(partner_id: UUID, address: str) -> str:
    return f"caller:{blind_index('api-caller', f'{partner_id} {network_of(address)}')}"


class _AddressSender:
    """Sends the addresses that this process noted to Redis."""

    def __init__(self) -> None:
        self._sent_at: dict[Caller, float] = {}
        self._waiting: queue.SimpleQueue[tuple[Caller, str]] = queue.SimpleQueue()
        threading.Thread(target=self._send, name="callers", daemon=True).start()

    def note(self, caller: Caller, request: HttpRequest) -> None:
        if self._is_sent(caller):
            return
        try:
            address = client_ip(request)
        except (KeyError, ValueError):  # without an address, as behind a Unix socket
            return
        if len(caller[2]) > LONGEST_HEADER:
            caller = (caller[0], address, "")
            if self._is_sent(caller):
                return
        if len(self._sent_at) >= MOST_REMEMBERED:
            self._sent_at.clear()
        self._sent_at[caller] = time.monotonic()
        self._waiting.put((caller, _key(caller[0], address)))

    def _is_sent(self, caller: Caller) -> bool:
        sent_at = self._sent_at.get(caller)
        return sent_at is not None and time.monotonic() - sent_at < SENT_EVERY_S

    def _send(self) -> None:
        while True:
            waiting = [self._waiting.get()]
            while len(waiting) < _AT_ONCE and not self._waiting.empty():
                waiting.append(self._waiting.get())
            try:
                pipe = redis().pipeline(transaction=False)
                for _, key in waiting:
                    pipe.set(key, 1, ex=REMEMBERED_FOR_S)
                pipe.execute()
            except RedisError:
                log.warning("callers_not_sent", callers=len(waiting))
                for caller, _ in waiting:
                    self._sent_at.pop(caller, None)  # so that the next call sends it again
                time.sleep(AWAY_S)


_sender = per_process(_AddressSender)
