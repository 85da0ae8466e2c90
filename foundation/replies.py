"""Sends a worker's replies to the web request that waits for them.

Each web process has one Redis stream and one reader, instead of a blocked connection per request. A worker adds
messages with the fields request, kind and payload to the stream. The reader fetches all new messages and puts each into
the inbox of its request. Banks' answers are encrypted, because Redis writes everything to its append-only file, where a
signature URL and offers would remain long after the message is gone. A worker sends its messages by one pipeline at a
time; messages that come meanwhile fill the next one. If Redis is lost, the current messages are lost: the reader
continues once Redis is back, and requests end at their deadline at the latest.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from redis import Redis
from redis.exceptions import RedisError

from foundation import sending
from foundation.heartbeats import BEAT_S, LOST_AFTER_S, key_of, worker_id
from foundation.redis import redis, waiting_redis
from foundation.sealing import WrongKey, seal, unseal

log = structlog.get_logger(__name__)

START, ANSWER, END, LOST = "start", "answer", "end", "lost"
#: The address prefix of mailboxes that know END.
_KNOWS_END = "replies:3:"
#: The kinds of messages that are encrypted.
_SEALED = (ANSWER, END)
_STREAM_TTL_S = 120
_STREAM_LENGTH = 20_000
_AT_ONCE = 500
#: If the workers of a request have died more often than this, its task is not published again.
_ROUNDS = 4
_RETRY_S = 0.2
#: Claim and START are atomic: a worker that dies cannot leave a claim without a START. The first copy of a task gets
#: the claim. It gets the claim again if it repeats the call because the answer was lost.
_CLAIM = """
local held = redis.call('get', KEYS[1])
if held and held ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'EX', ARGV[2])
redis.call('xadd', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', unpack(ARGV, 5))
redis.call('expire', KEYS[2], ARGV[4])
return 1
"""


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
        """The next message, or None if none came within `timeout_s`."""
        try:
            return self._messages.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None


class Mailbox:
    """The replies to one web process."""

    def __init__(self) -> None:
        self.address = f"{_KNOWS_END}{uuid.uuid4().hex}"
        self._inboxes: dict[str, tuple[Inbox, ...]] = {}
        self._lock = threading.Lock()
        self._last: bytes | str = "0"
        self._trimmed: bytes | str = self._last
        self._silent_since: dict[str, float] = {}
        threading.Thread(target=self._read, name="replies", daemon=True).start()
        threading.Thread(target=self._watch, name="replies-watch", daemon=True).start()

    @contextmanager
    def inbox(self, request: str) -> Iterator[Inbox]:
        """An inbox for `request`, deleted at the end of the context. Two inboxes for the same request get the same
        messages."""
        inbox = Inbox(self.address, request)
        with self._lock:
            self._inboxes[request] = (*self._inboxes.get(request, ()), inbox)
        try:
            yield inbox
        finally:
            with self._lock:
                others = tuple(each for each in self._inboxes.pop(request) if each is not inbox)
                if others:
                    self._inboxes[request] = others

    def _read(self) -> None:
        client: Redis | None = None
        while True:
            try:
                if client is None:
                    client = waiting_redis()
                found: Any = client.xread({self.address: self._last}, count=_AT_ONCE, block=2000)
            except RedisError:
                log.warning("replies_unreachable")
                time.sleep(_RETRY_S)
                continue
            for _, messages in found or ():
                for self._last, fields in messages:
                    try:
                        self._hand_over(fields)
                    except (KeyError, ValueError, msgspec.DecodeError, WrongKey):
                        # A worker of another release may send such a message. It must not stop the thread that all
                        # requests need.
                        log.error("reply_unreadable")

    def _hand_over(self, fields: dict[bytes, bytes]) -> None:
        request, kind, payload = fields[b"request"].decode(), fields[b"kind"].decode(), fields[b"payload"]
        inboxes = self._inboxes.get(request, ())
        if inboxes and kind in _SEALED:
            payload = unseal(payload, request.encode())
        for inbox in inboxes:
            if kind == START:
                inbox.worker = payload.decode()
            inbox.put(kind, payload)

    def _watch(self) -> None:
        """Tell requests that their worker died."""
        while True:
            time.sleep(BEAT_S)
            self._trim()
            inboxes = [inbox for waiting in list(self._inboxes.values()) for inbox in waiting]
            try:
                lost = self._lost({inbox.worker for inbox in inboxes if inbox.worker})
            except RedisError:
                self._silent_since.clear()  # Redis was unavailable, so heartbeats could be neither sent nor read
                continue
            for inbox in inboxes:
                if inbox.worker in lost:
                    inbox.worker = None
                    inbox.put(LOST, b"")

    def _lost(self, workers: set[str]) -> set[str]:
        """Those of `workers` whose heartbeat has been missing for `LOST_AFTER_S`. Raises RedisError."""
        now = time.monotonic()
        beats = redis().mget([key_of(worker) for worker in workers]) if workers else ()
        silent = {worker for worker, beat in zip(workers, beats, strict=True) if beat is None}
        self._silent_since = {worker: self._silent_since.get(worker, now) for worker in silent}
        lost = {worker for worker, since in self._silent_since.items() if now - since >= LOST_AFTER_S}
        for worker in lost:
            log.warning("worker_lost", worker=worker)
        return lost

    def _trim(self) -> None:
        """Delete the messages that were handed over since the last call, and renew the stream's time to live. The
        stream of a dead process expires by itself; no request waits longer than that."""
        if self._last != self._trimmed:
            with suppress(RedisError):  # workers limit the stream's length
                pipe = redis().pipeline(transaction=False)
                pipe.xtrim(self.address, minid=self._last, approximate=False)
                pipe.expire(self.address, _STREAM_TTL_S)
                pipe.execute()
                self._trimmed = self._last


_lock = threading.Lock()
_mailboxes: dict[int, Mailbox] = {}


def mailbox() -> Mailbox:
    """This process's mailbox. A forked process gets its own."""
    with _lock:
        if os.getpid() not in _mailboxes:
            _mailboxes[os.getpid()] = Mailbox()
        return _mailboxes[os.getpid()]


def post(address: str, request: str, kind: str, payload: Any, patience_s: float = 0) -> None:
    """From a worker: send `payload` to the request that waits at `address`. For START the payload is text; for ANSWER
    and END anything that msgspec encodes.

    Repeated for up to `patience_s` seconds while Redis is unavailable, so a message may arrive twice. Raises
    RedisError.
    """
    command = message(address, request, kind, payload)
    sending.send(command, patience_s=patience_s)


def knows_end(address: str) -> bool:
    """True if the web process at `address` waits for an END. One of the previous release does not."""
    return address.startswith(_KNOWS_END)


@dataclass
class Reply:
    """A worker's answer: anything that msgspec encodes, or None if the answer is in the database."""

    content: Any = None


@contextmanager
def answering(address: str, request: str, patience_s: float) -> Iterator[Reply]:
    """From a worker: send START to `request`, and at the end an ANSWER with the content of the yielded reply, or LOST
    after an exception.

    The work inside needs no Redis. Raises RedisError if the end could not be sent for `patience_s` seconds.
    """
    reply = Reply()
    end = LOST
    with suppress(RedisError):  # without START, the death of this process stays unnoticed; nothing else is lost
        post(address, request, START, worker_id())
        redis().expire(address, _STREAM_TTL_S)  # the stream must expire even if its reader died in the meantime
    try:
        yield reply
        end = ANSWER
    finally:
        post(address, request, end, reply.content if end == ANSWER else None, patience_s)


def claim(address: str, request: str, round_: int, ttl_s: int, patience_s: float) -> bool:
    """From a worker: True if this copy of a task should run; a published task may arrive twice. START is sent to the
    request that waits at `address` in the same step.

    Repeated for up to `patience_s` seconds while Redis is unavailable. Raises RedisError.
    """
    mine = f"{worker_id()} {uuid.uuid4().hex}"
    keys = (_claim_of(request, round_), address)
    fields = [part for field in _fields(request, START, worker_id()).items() for part in field]
    arguments = (mine, ttl_s, _STREAM_LENGTH, _STREAM_TTL_S, *fields)
    return bool(sending.patiently(lambda: redis().eval(_CLAIM, len(keys), *keys, *arguments), patience_s))


def is_at_work(request: str) -> bool:
    """True while a living worker has taken the task of `request`, for whichever web process. Raises RedisError."""
    held: Any = redis().mget([_claim_of(request, round_) for round_ in range(_ROUNDS)])
    workers = [claimed.decode().partition(" ")[0] for claimed in held if claimed]
    return bool(workers) and bool(redis().exists(*(key_of(worker) for worker in workers)))


def _claim_of(request: str, round_: int) -> str:
    """The key of the claim on the task of `request` that was published after `round_` workers had died."""
    return f"claim:{request}:{round_}"


def message(address: str, request: str, kind: str, payload: Any, sealed: bytes | None = None) -> tuple[Any, ...]:
    """The Redis command that sends `payload` as a message. `sealed` is the encrypted payload, if the caller already has
    it."""
    fields = _fields(request, kind, payload, sealed)
    return ("XADD", address, "MAXLEN", "~", _STREAM_LENGTH, "*", *(part for field in fields.items() for part in field))


def _fields(request: str, kind: str, payload: Any, sealed: bytes | None = None) -> dict[str, Any]:
    """A message's fields. An answer and an end are encrypted, or given as `sealed`."""
    content = sealed or (seal(msgspec.json.encode(payload), request.encode()) if kind in _SEALED else payload or "")
    return {"request": request, "kind": kind, "payload": content}
