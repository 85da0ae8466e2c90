"""Lets web processes have work done by workers, and hear what these tell about it.

A web process publishes a Celery task, once. Each piece of work has a unique id and two channels of Redis: one for its
beginning and its end, one for its results. A process has one connection that listens for all of its requests, instead
of a blocked connection for each. Results are also kept in Redis for a while, for whoever listens late.

What is asked and told is encrypted, because nothing of a holder may pass through the broker in clear, and Redis writes
what is kept to its append-only file. If Redis is lost, what it held is lost. Listeners connect again and get `READY`:
whoever waits looks at PostgreSQL then, which holds what counts.
"""

import base64
import math
import queue
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from typing import Any

import msgspec
import structlog
from celery import current_app
from django.conf import settings
from django.db import connection
from django.utils import timezone
from redis import Connection
from redis.exceptions import RedisError, TimeoutError

from foundation.database import give_back_connection
from foundation.encryption import WrongKey, context_of, decrypt, encrypt, seal, unseal
from foundation.errors import ApiError, error_from_dict
from foundation.redis import TIMEOUT_S, Command, own_connection, per_process, redis, to_broker, to_redis

log = structlog.get_logger(__name__)

#: A Celery task, and its arguments: ids, and what is encrypted.
Task = tuple[str, tuple[str, ...]]
#: A message: its kind, and its content as JSON.
Message = tuple[str, bytes]

#: Kinds of messages. READY comes from the listener itself: what is told from now on arrives here, what was told before
#: may be missing. FAILED says that a worker gave up, or which error ended its work. NEWS: look at the database.
READY, START, ANSWER, END, FAILED, NEWS = "ready", "start", "answer", "end", "failed", "news"
#: How long a call tries to publish its task while the broker is unreachable, in seconds. A restart takes about one.
BROKER_PATIENCE_S = 5.0
#: How long results are kept after the last of them came, in seconds, while nobody can store them.
_KEPT_S = 900
_RETRY_S = 0.2
#: After this many seconds without a message the listener asks whether Redis is still there.
_QUIET_S = 10.0
#: Before the id of a piece of work: its two channels, and the key of its kept results.
_EVENTS, _RESULTS, _KEPT = "work:", "results:", "kept:"
#: KEYS: where results are kept, and their channel. ARGV: results, and how long they are kept in seconds. Results are
#: kept before they are told: whoever listens too late to be told finds them kept.
_KEEP = """
redis.call('rpush', KEYS[1], ARGV[1])
redis.call('expire', KEYS[1], ARGV[2])
redis.call('publish', KEYS[2], ARGV[1])
"""


class SecondCopy(Exception):
    """Another copy of the same task does the work, and answers."""


# --- Whoever has work done ----------------------------------------------------------------------------------------


def ask(task: str, seconds: float, *content: Any) -> bytes | None:
    """Have a worker run `task`, which calls `answer_question`, with `content`: anything that msgspec encodes. Wait at
    most `seconds` for its end. Returns the answer as JSON, and None if the time is over, the broker is unreachable, or
    the worker gave up. Raises the ApiError that ended the work."""
    work = uuid.uuid4().hex
    question = encrypt(msgspec.json.encode(content).decode(), context_of("question", work))
    for kind, payload in filter(None, hear(work, time.monotonic() + seconds, task=(task, (work, question)))):
        if kind == FAILED and payload != b"null":
            raise error_from_dict(msgspec.json.decode(payload))
        if kind in (END, FAILED):
            return payload if kind == END else None
    return None


def hear(
    work: str, until: float, pause_s: float = math.inf, *, results: bool = False, task: Task | None = None
) -> Generator[Message | None]:
    """What is told about `work` until `until` (monotonic seconds), and None after each `pause_s` seconds without a
    message. With `results` also its results; after each READY, those that are kept come again. With `task`, which must
    tolerate two copies, a worker is first told to run it; nothing comes if the broker is unreachable.

    Gives back the caller's database connection first, so that none is held while waiting.
    """
    connection.close()
    with listen(work, results=results) as inbox:
        if task is not None:
            patience_ends = min(until, time.monotonic() + BROKER_PATIENCE_S)
            # READY comes first: what a fast worker told before it would not be heard.
            inbox.next(patience_ends - time.monotonic())
            now = time.monotonic()
            if not publish(*task, expires_s=until - now, patience_s=patience_ends - now):
                return
        while (left := until - time.monotonic()) > 0:
            message = inbox.next(min(left, pause_s))
            yield message
            if results and message is not None and message[0] == READY:
                yield from ((ANSWER, each) for each in kept(work))


def publish(task: str, arguments: tuple[Any, ...], *, expires_s: float, patience_s: float = 0) -> bool:
    """Publish a task whose arguments are ids only. False if the broker is unreachable for `patience_s`; at least one
    attempt is made. An attempt with an unknown result may have succeeded, so a task may arrive more than once."""
    try:
        # The last attempt at a hanging broker takes its whole time-out.
        to_broker().send(("LPUSH", *task_message(task, arguments, expires_s)), patience_s=patience_s - TIMEOUT_S)
    except RedisError as fault:
        log.error("broker_unreachable", task=task, fault=type(fault).__name__)
        return False
    return True


@lru_cache(maxsize=64)
def _queue_of(task: str) -> str:
    """The queue, which is a list of Redis, that workers take `task` from."""
    name: str = current_app.amqp.router.route({}, task)["queue"].name
    return name


def task_message(task: str, arguments: tuple[Any, ...], expires_s: float) -> tuple[str, bytes]:
    """The list of Redis that workers take `task` from, and Celery's message for it, without result, in the form of
    kombu's transport for Redis. Celery's own way of sending costs ten times as much."""
    queue, key = _queue_of(task), str(uuid.uuid4())
    expires = timezone.now() + timedelta(seconds=max(1.0, expires_s))
    # Without the texts of the arguments, Celery would write these into the message a second time, for its logs.
    headers, properties, body, _ = current_app.amqp.as_task_v2(
        key, task, arguments, expires=expires, argsrepr="", kwargsrepr="", ignore_result=True
    )
    delivery = {"delivery_mode": 2, "delivery_info": {"exchange": "", "routing_key": queue}, "delivery_tag": key}
    message = {
        "body": base64.b64encode(msgspec.json.encode(body)).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": headers,
        "properties": {**properties, **delivery, "priority": 0, "body_encoding": "base64"},
    }
    return queue, msgspec.json.encode(message)


class Inbox(queue.SimpleQueue[Message]):
    """The messages for one waiting request."""

    def next(self, timeout_s: float) -> Message | None:
        with suppress(queue.Empty):
            return self.get(timeout=max(0.0, timeout_s))
        return None


def listen(work: str, *, results: bool = False) -> AbstractContextManager[Inbox]:
    """An inbox for what is told about `work`, until the end of the context; without `results` only its beginning and
    end. Its first message is READY, unless Redis is away. READY comes again after each loss of the connection."""
    return _listener().listen(work, results)


class _Listener:
    """Everything that this process listens to, on one connection."""

    def __init__(self) -> None:
        self._inboxes: dict[bytes, tuple[Inbox, ...]] = {}
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, name="workers-listen", daemon=True).start()

    @contextmanager
    def listen(self, work: str, results: bool) -> Iterator[Inbox]:
        channels = (_RESULTS, _EVENTS) if results else (_EVENTS,)
        inbox, names = Inbox(), [(channel + work).encode() for channel in channels]
        with self._lock:
            is_heard = self._inboxes.keys() >= set(names)
            for name in names:
                self._inboxes[name] = (*self._inboxes.get(name, ()), inbox)
            if is_heard:  # or Redis would confirm it to all who listen already
                inbox.put((READY, b""))
            else:
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
            connection = own_connection(settings.REDIS_URL, _QUIET_S)
            try:
                connection.connect()
                with self._lock:
                    self._connection = connection
                    # A connection without a channel would read no PONG.
                    self._send("SUBSCRIBE", "everybody", *self._inboxes)
                while True:
                    self._read(connection)
            except RedisError:
                log.warning("channels_unreachable")
            except Exception:  # all requests of this process need the listener, so it goes on whatever came
                log.exception("channels_broke")
            with self._lock:
                self._connection = None
                connection.disconnect()
            time.sleep(_RETRY_S)

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
        which, _, work = channel.decode().partition(":")
        if kind == b"subscribe" and which == "work":  # the last of an inbox's channels
            told: Message | None = (READY, b"")
        else:
            told = _opened(work, content) if kind == b"message" and inboxes else None
        if told is not None:
            for inbox in inboxes:
                inbox.put(told)


_listener = per_process(_Listener)


# --- Workers ------------------------------------------------------------------------------------------------------


def answer_question(work: str, question: str, patience_s: float, do: Callable[..., Any]) -> None:
    """For the task that `ask` published: `answer` what `do` returns for the content of `question`."""
    answer(work, patience_s, lambda: do(*msgspec.json.decode(decrypt(question, context_of("question", work)))))


def answer(work: str, patience_s: float, do: Callable[[], Any]) -> None:
    """From a worker: `do` the work, then tell END with what it returned: anything that msgspec encodes, or None if the
    answer is in the database. Tells FAILED if it raises an exception, with the error if that is an ApiError; others go
    on. Tells nothing if it raises SecondCopy.

    The work needs no Redis. Gives back the database connection. Raises RedisError if the end could not be told for
    `patience_s` seconds.
    """
    kind, content = FAILED, None
    try:
        content = do()
        kind = END
    except SecondCopy:
        kind = ""
    except ApiError as error:
        log.info("work_refused", code=error.code)
        content = error.as_dict()
    finally:
        give_back_connection()
        if kind:
            tell(work, kind, content, patience_s)


def tell(work: str, kind: str, content: Any = None, patience_s: float = 0) -> None:
    """Tell everybody who listens to `work`: `content` is anything that msgspec encodes.

    Repeated for up to `patience_s` seconds while Redis is away, so a message may arrive twice. Raises RedisError.
    """
    to_redis().send(message(work, kind, content), patience_s=patience_s)


def message(work: str, kind: str, content: Any = None) -> Command:
    """The Redis command that tells `content`."""
    return ("PUBLISH", _EVENTS + work, _sealed(work, kind, content))


def keep(work: str, results: Sequence[Any], patience_s: float) -> None:
    """Keep these further results of `work`, and tell them as one ANSWER: an array of what msgspec encodes.

    Repeated for up to `patience_s` seconds while Redis is away, so they may be kept twice. Raises RedisError.
    """
    sealed = _sealed(work, ANSWER, results)
    keys = (_KEPT + work, _RESULTS + work)
    to_redis().send(("EVAL", _KEEP, len(keys), *keys, sealed, _KEPT_S), patience_s=patience_s)


def tell_end(work: str, content: Any, patience_s: float) -> None:
    """Delete the kept results of `work`, which are stored now, and tell END with `content`.

    Repeated for up to `patience_s` seconds while Redis is away. Raises RedisError.
    """
    to_redis().send(("DEL", _KEPT + work), message(work, END, content), patience_s=patience_s)


def kept(work: str) -> list[bytes]:
    """The kept results of `work`, as the JSON arrays that `keep` told. Empty, with a log line, while Redis is away."""
    try:
        found: Any = redis().lrange(_KEPT + work, 0, -1)
    except RedisError:
        log.warning("kept_results_unreachable", work=work)
        return []
    return [message[1] for sealed in found if (message := _opened(work, sealed)) is not None]


def _sealed(work: str, kind: str, content: Any) -> bytes:
    return seal(kind.encode() + b" " + msgspec.json.encode(content), work.encode())


def _opened(work: str, sealed: bytes) -> Message | None:
    """The kind and the payload of a message. None, with a log line, if somebody else wrote it into Redis."""
    try:
        kind, _, payload = unseal(sealed, work.encode()).partition(b" ")
        return kind.decode(), payload
    except (WrongKey, UnicodeDecodeError):
        log.error("message_unreadable")
        return None
