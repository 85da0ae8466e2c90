"""How a worker's replies reach the web request that waits for them.

Each web process has one Redis stream and one reader (not a blocked connection per request). A worker adds
`[request, kind, payload]` to it; the reader takes all that came since its last look and hands each message to
the inbox of its request. Messages bear ids and offers, never a holder's data. A lost Redis costs the messages
under way: the reader goes on once it is back, and requests end by their own deadline at the latest.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import structlog
from redis.exceptions import RedisError

from providers.shared import redis

log = structlog.get_logger(__name__)

START, ANSWER, LOST = "start", "answer", "lost"
_STREAM_TTL_S = 120
_STREAM_LENGTH = 20_000
_AT_ONCE = 500
_BEAT_S = 1.0
_BEAT_TTL_S = 3
#: A worker without a heartbeat for so long is lost. A wiped Redis has forgotten a living one's until its next beat,
#: which a busy machine may delay.
_LOST_AFTER_S = 4.0
_RETRY_S = 0.2


class Inbox:
    """The messages for one waiting request, as (kind, payload)."""

    def __init__(self, address: str, request: str) -> None:
        self.address = address
        self.request = request
        self.worker: str | None = None
        self._messages: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()

    def put(self, kind: str, payload: bytes) -> None:
        self._messages.put((kind, payload))

    def get(self, timeout_s: float) -> tuple[str, bytes] | None:
        """The next message, None when none came within `timeout_s`."""
        try:
            return self._messages.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None


class Mailbox:
    """The replies of one web process."""

    def __init__(self) -> None:
        self.address = f"replies:{uuid.uuid4().hex}"
        self._inboxes: dict[str, Inbox] = {}
        self._last: bytes | str = "0"
        self._trimmed: bytes | str = self._last
        self._silent_since: dict[str, float] = {}
        threading.Thread(target=self._read, name="replies", daemon=True).start()
        threading.Thread(target=self._watch, name="replies-watch", daemon=True).start()

    @contextmanager
    def inbox(self, request: str) -> Iterator[Inbox]:
        """An inbox for `request`, which is forgotten at the end."""
        inbox = self._inboxes[request] = Inbox(self.address, request)
        try:
            yield inbox
        finally:
            del self._inboxes[request]

    def _read(self) -> None:
        while True:
            try:
                found: Any = redis().xread({self.address: self._last}, count=_AT_ONCE, block=2000)
            except RedisError:
                log.warning("replies_unreachable")
                time.sleep(_RETRY_S)
                continue
            for _, messages in found or ():
                for self._last, fields in messages:
                    self._hand_over(fields[b"m"])

    def _hand_over(self, message: bytes) -> None:
        request, kind, payload = msgspec.json.decode(message, type=tuple[str, str, msgspec.Raw])
        inbox = self._inboxes.get(request)
        if inbox is None:
            return
        if kind == START:
            inbox.worker = msgspec.json.decode(payload, type=str)
        inbox.put(kind, bytes(payload))

    def _watch(self) -> None:
        """Tell the requests of a worker that died."""
        while True:
            time.sleep(_BEAT_S)
            self._trim()
            inboxes = list(self._inboxes.values())
            try:
                lost = self._lost({inbox.worker for inbox in inboxes if inbox.worker})
            except RedisError:
                self._silent_since.clear()  # nobody's beats could be seen, nor sent
                continue
            for inbox in inboxes:
                if inbox.worker in lost:
                    inbox.worker = None
                    inbox.put(LOST, b"null")

    def _lost(self, workers: set[str]) -> set[str]:
        """Those of `workers` whose heartbeat has been missing for `_LOST_AFTER_S`. Raises RedisError."""
        now = time.monotonic()
        beats = redis().mget([_worker_key(worker) for worker in workers]) if workers else ()
        silent = {worker for worker, beat in zip(workers, beats, strict=True) if beat is None}
        self._silent_since = {worker: self._silent_since.get(worker, now) for worker in silent}
        lost = {worker for worker, since in self._silent_since.items() if now - since >= _LOST_AFTER_S}
        for worker in lost:
            log.warning("worker_lost", worker=worker)
        return lost

    def _trim(self) -> None:
        """Drop from the stream what was handed over, if anything was since the last time, and see to it that
        the stream goes when this process is gone; no request waits longer than that."""
        if self._last != self._trimmed:
            with suppress(RedisError):  # a worker caps its length
                pipe = redis().pipeline(transaction=False)
                pipe.xtrim(self.address, minid=self._last, approximate=False)
                pipe.expire(self.address, _STREAM_TTL_S)
                pipe.execute()
                self._trimmed = self._last


_lock = threading.Lock()
_mailboxes: dict[int, Mailbox] = {}
_workers: dict[int, str] = {}


def mailbox() -> Mailbox:
    """This process's mailbox; a forked process gets its own."""
    with _lock:
        if os.getpid() not in _mailboxes:
            _mailboxes[os.getpid()] = Mailbox()
        return _mailboxes[os.getpid()]


def post(address: str, request: str, kind: str, payload: Any, patience_s: float = 0) -> None:
    """From a worker: send `payload` (anything msgspec encodes) to the request that waits at `address`.

    While Redis is away it is tried again for `patience_s` seconds; a message may then arrive twice. Raises RedisError.
    """
    message: dict[Any, Any] = {"m": msgspec.json.encode((request, kind, payload))}
    end = time.monotonic() + patience_s
    while True:
        try:
            redis().xadd(address, message, maxlen=_STREAM_LENGTH, approximate=True)
            if kind == START:  # a stream whose reader died in the meantime must end too
                redis().expire(address, _STREAM_TTL_S)
        except RedisError:
            if time.monotonic() >= end:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def claim(request: str, round_: int, ttl_s: int) -> bool:
    """From a worker: whether this copy of a task is the one to run it. A published task may arrive twice."""
    return bool(redis().set(f"claim:{request}:{round_}", worker_id(), nx=True, ex=ttl_s))


def disclaim(request: str, round_: int) -> None:
    """From a worker: give a claim back before anything was done."""
    redis().delete(f"claim:{request}:{round_}")


def worker_id() -> str:
    """This worker process's id; from the first call on a heartbeat says that it lives."""
    with _lock:
        if os.getpid() not in _workers:
            name = _workers[os.getpid()] = uuid.uuid4().hex
            _beat_once(name)
            threading.Thread(target=_beat, args=(name,), name="heartbeat", daemon=True).start()
        return _workers[os.getpid()]


def _beat(name: str) -> None:
    while True:
        time.sleep(_BEAT_S)
        _beat_once(name)


def _beat_once(name: str) -> None:
    try:
        redis().set(_worker_key(name), 1, ex=_BEAT_TTL_S)
    except RedisError:
        log.warning("heartbeat_unreachable")


def _worker_key(name: str) -> str:
    return f"worker:{name}"
