"""What a worker tells about one piece of work, to every process that wants to hear it.

Each piece of work has a unique id and two channels of Redis: one for its beginning and its end, one for its results.
A process has one connection that listens for all of its requests, instead of a blocked connection for each. Results
are also kept in Redis for a while, so that whoever listens late is told them first. Everything is encrypted, because
Redis writes what is kept to its append-only file. A worker sends by one pipeline at a time; what comes meanwhile fills
the next one.

If Redis is lost, what it held is lost. Listeners connect again and get `READY`: whoever waits looks at PostgreSQL then,
which holds what counts.
"""

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import msgspec
import structlog
from redis import Connection
from redis.exceptions import RedisError, TimeoutError

from foundation.encryption import WrongKey, seal, unseal
from foundation.redis import listening_connection, per_process, redis, reserved_redis

log = structlog.get_logger(__name__)

#: Kinds of messages. READY comes from the listener itself: what is told from now on arrives here, what was told before
#: may be missing. FAILED says that a worker gave up, or which error ended its work. NEWS says that there is something
#: new in the database.
READY, START, ANSWER, END, FAILED, NEWS = "ready", "start", "answer", "end", "failed", "news"
#: How long results are kept after the last of them came, in seconds, if nobody could store them because the database
#: was away.
_KEPT_S = 900
_RETRY_S = 0.2
#: After this many seconds without a message the listener asks whether Redis is still there.
_QUIET_S = 10.0


class Inbox:
    """The messages for one waiting request, as (kind, payload)."""

    def __init__(self, work: str, results: bool) -> None:
        self.work = work
        self._results = results
        self._messages: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()

    def put(self, kind: str, payload: bytes = b"") -> None:
        """Add a message."""
        self._messages.put((kind, payload))

    def get(self, timeout_s: float) -> tuple[str, bytes] | None:
        """The next message, or None if none came within `timeout_s`. After READY, the kept results come again."""
        message = self.first(timeout_s)
        if self._results and message is not None and message[0] == READY:
            for results in kept(self.work):
                self.put(ANSWER, results)
        return message

    def first(self, timeout_s: float) -> tuple[str, bytes] | None:
        """Like `get`, for a request whose work has not begun: no result is kept."""
        try:
            return self._messages.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None


class _Listener:
    """Everything that this process listens to, on one connection."""

    def __init__(self) -> None:
        self._inboxes: dict[bytes, tuple[Inbox, ...]] = {}
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, name="channels", daemon=True).start()

    @contextmanager
    def listen(self, work: str, results: bool) -> Iterator[Inbox]:
        """The inbox of `listen`."""
        channels = (_results(work), _events(work)) if results else (_events(work),)
        inbox, names = Inbox(work, results), [channel.encode() for channel in channels]
        with self._lock:
            for name in names:
                self._inboxes[name] = (*self._inboxes.get(name, ()), inbox)
            self._send("SUBSCRIBE", *names)
        try:
            yield inbox
        finally:
            with self._lock:
                for name in names:
                    self._inboxes[name] = tuple(each for each in self._inboxes[name] if each is not inbox)
                unheard = [name for name in names if not self._inboxes[name]]
                for name in unheard:
                    del self._inboxes[name]
                if unheard:
                    self._send("UNSUBSCRIBE", *unheard)

    def _send(self, *command: str | bytes) -> None:
        """Send a command without an answer of its own. Without a connection the listener sends it once it has one."""
        if self._connection is not None:
            with suppress(RedisError):  # the connection is closed then, which the listener notices
                self._connection.send_command(*command, check_health=False)

    def _listen(self) -> None:
        while True:
            try:
                connection = self._connect()
                while True:
                    self._read(connection)
            except RedisError:
                log.warning("channels_unreachable")
            except Exception:  # all requests of this process need the listener, so it goes on whatever came
                log.exception("channels_broke")
            with self._lock:
                if self._connection is not None:
                    self._connection.disconnect()
                self._connection = None
            time.sleep(_RETRY_S)

    def _connect(self) -> Connection:
        connection = listening_connection(_QUIET_S)
        with self._lock:
            self._connection = connection
            self._send("SUBSCRIBE", "everybody", *self._inboxes)  # a connection without a channel would read no PONG
        return connection

    def _read(self, connection: Connection) -> None:
        """Hand the next message to its inboxes. Raises RedisError."""
        try:
            message = connection.read_response(disconnect_on_error=False)
        except TimeoutError:
            with self._lock:
                self._send("PING")
            message = connection.read_response()
        kind, channel, content = message if len(message) == 3 else (b"pong", b"", b"")
        inboxes = self._inboxes.get(channel, ())
        if not inboxes:
            return
        if kind == b"subscribe" and channel.startswith(b"work:"):  # the last of an inbox's channels
            for inbox in inboxes:
                inbox.put(READY)
        elif kind == b"message":
            try:
                name, payload = _opened(inboxes[0].work, content)
            except (WrongKey, UnicodeDecodeError):
                log.error("message_unreadable")  # somebody else can write to Redis
                return
            for inbox in inboxes:
                inbox.put(name, payload)


def listen(work: str, *, results: bool = True) -> AbstractContextManager[Inbox]:
    """An inbox for what is told about `work`, until the end of the context; without `results` only its beginning and
    end. Its first message is READY, unless Redis is away. READY comes again after each loss of the connection."""
    return _listener().listen(work, results)


_listener = per_process(_Listener)


# --- Workers ----------------------------------------------------------------------------------------------------


def tell(work: str, kind: str, content: Any = None, patience_s: float = 0) -> None:
    """Tell everybody who listens to `work`: `content` is anything that msgspec encodes.

    Repeated for up to `patience_s` seconds while Redis is away, so a message may arrive twice. Raises RedisError.
    """
    send(message(work, kind, content), patience_s=patience_s)


def keep(work: str, results: Sequence[Any], patience_s: float) -> None:
    """Keep these further results of `work`, and tell them together as one ANSWER: an array of anything that msgspec
    encodes.

    Repeated for up to `patience_s` seconds while Redis is away, so they may be kept twice. Raises RedisError.
    """
    sealed = _sealed(work, ANSWER, results)
    # Kept before they are told: whoever listens too late to be told finds them kept.
    keeping = (("RPUSH", _kept(work), sealed), ("EXPIRE", _kept(work), _KEPT_S))
    send(*keeping, ("PUBLISH", _results(work), sealed), patience_s=patience_s)


def tell_end(work: str, content: Any, patience_s: float) -> None:
    """Delete the kept results of `work`, which are stored now, and tell END with `content`.

    Repeated for up to `patience_s` seconds while Redis is away. Raises RedisError.
    """
    send(("DEL", _kept(work)), message(work, END, content), patience_s=patience_s)


def kept(work: str) -> list[bytes]:
    """The kept results of `work`, as the JSON arrays that `keep` told. Empty, with a log line, while Redis is away."""
    try:
        found: Any = redis().lrange(_kept(work), 0, -1)
    except RedisError:
        log.warning("kept_results_unreachable", work=work)
        return []
    opened: list[bytes] = []
    for sealed in found:
        with suppress(WrongKey):
            opened.append(_opened(work, sealed)[1])
    return opened


def send(*commands: tuple[Any, ...], patience_s: float = 0) -> list[Any]:
    """Send `commands` in this order, each in the form of redis-py's `execute_command`. Returns their results.

    Repeated for up to `patience_s` seconds while Redis is unavailable; the commands may then run twice. Raises
    RedisError.
    """
    end = time.monotonic() + patience_s
    while True:
        try:
            return _sender().add(*commands)
        except RedisError:
            if time.monotonic() >= end:
                raise
            log.warning("redis_away")
            time.sleep(_RETRY_S)


class _Sender:
    """Sends a process's commands: all waiting commands in one pipeline; further ones wait until it returns. The sender
    has its own connection, because a thousand tasks share the pool."""

    def __init__(self) -> None:
        self._redis = reserved_redis()
        self._waiting: queue.SimpleQueue[tuple[Sequence[tuple[Any, ...]], queue.SimpleQueue[Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._send, name="channels-send", daemon=True).start()

    def add(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Send `commands` in this order. Returns their results. Raises RedisError."""
        mine: queue.SimpleQueue[list[Any] | Exception] = queue.SimpleQueue()  # costs half as much as a Future
        self._waiting.put((commands, mine))
        results = mine.get()
        if isinstance(results, Exception):
            raise results
        return results

    def _send(self) -> None:
        while True:
            batch = [self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            try:
                pipe = self._redis.pipeline(transaction=False)
                for commands, _ in batch:
                    for command in commands:
                        pipe.execute_command(*command)
                found = iter(pipe.execute())
            except Exception as fault:  # the waiting callers raise it; the sender continues with the next batch
                for _, caller in batch:
                    caller.put(fault)
            else:
                for commands, caller in batch:
                    caller.put([next(found) for _ in commands])


_sender = per_process(_Sender)


def message(work: str, kind: str, content: Any = None) -> tuple[Any, ...]:
    """The Redis command that tells `content`."""
    return ("PUBLISH", _events(work), _sealed(work, kind, content))


def _sealed(work: str, kind: str, content: Any) -> bytes:
    return seal(kind.encode() + b" " + msgspec.json.encode(content), work.encode())


def _opened(work: str, sealed: bytes) -> tuple[str, bytes]:
    """The kind and the payload of a message. Raises WrongKey."""
    kind, _, payload = unseal(sealed, work.encode()).partition(b" ")
    return kind.decode(), payload


def _events(work: str) -> str:
    return f"work:{work}"


def _results(work: str) -> str:
    return f"results:{work}"


def _kept(work: str) -> str:
    return f"kept:{work}"
