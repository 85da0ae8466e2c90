"""How the web processes run, here and in production: `gunicorn -c config/gunicorn.py config.wsgi`."""

import contextlib
import errno
import json
import os
import socket
import struct
import time
import uuid
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import gevent
from gunicorn import glogging, util
from gunicorn.http.errors import (
    InvalidResponseHeader,
    InvalidResponseHeaderName,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
    UnsupportedTransferCoding,
)
from gunicorn.workers.ggevent import GeventWorker

#: So long a request's body may take; its headers, and an idle connection, have `keepalive`.
BODY_TIMEOUT_S = float(os.environ.get("BODY_TIMEOUT_S", "20"))
#: So long a client may take to take its answer; of a stream, each single write.
SEND_TIMEOUT_S = float(os.environ.get("SEND_TIMEOUT_S", "30"))
#: How long, and how much, the rest of a refused body is still read before its connection is closed.
LINGER_S = 5
LINGER_BYTES = 8 * 1024 * 1024
#: Answers of any length: streams of events, and exported lists (foundation/backoffice/exporting.py).
_STREAMED = {("Content-Type", "text/event-stream"), ("Content-Type", "text/csv; charset=utf-8")}
#: Between two reads of it: 6 MB a second of each connection. Without it four clients kept a process busy with reading.
LINGER_PAUSE_S = 0.01


class Worker(GeventWorker):
    """gevent's worker with five differences: what fails before or beyond the application (a malformed request,
    headers that are too large) is answered with the contract's error object and a request id too, not with a page of
    HTML; a refusal does not wait for the body that it leaves unread; nor is a client asked to send such a body;
    a body has its time; and so has an answer."""

    wsgi: Any

    def load_wsgi(self) -> None:
        super().load_wsgi()
        application = self.wsgi

        def timed(environ: dict[str, Any], start_response: Any) -> Any:
            environ["wsgi.input"] = TimedBody(environ["wsgi.input"])

            def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
                environ["gunicorn.socket"].is_stream = not _STREAMED.isdisjoint(headers)
                return start_response(status, headers, *more)

            return application(environ, start)

        self.wsgi = timed

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> Any:
        """Serve one request. Raises StopIteration where the connection ends with it."""
        body = req.body
        if _may_be_too_long(body):
            # gunicorn would read all of it before the next request, without a pause in which others have their turn.
            req.must_close = True
        if req._expected_100_continue:
            req._expected_100_continue = False
            req.body = AwaitedBody(req, sock)
        try:
            return super().handle_request(listener_name, req, TimedSocket(sock), addr)
        except StopIteration:
            _read_out(body, sock)
            raise
        finally:
            req.body = body

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer on the bare socket `client` and log the kind of `exc`: its text may quote a key or a secret path."""
        # Here, since this file is read before gevent has patched what the project imports.
        from foundation.errors import ApiError, InternalError, InvalidInput, NotSupported, PayloadTooLarge

        error: ApiError = InvalidInput("Requisição HTTP malformada.")
        if isinstance(exc, LimitRequestLine | LimitRequestHeaders):
            error = PayloadTooLarge("O endereço ou os cabeçalhos da requisição são grandes demais.")
        elif isinstance(exc, UnsupportedTransferCoding):
            error = NotSupported("Codificação de transferência não suportada.")
        elif isinstance(exc, InvalidResponseHeader | InvalidResponseHeaderName) or not isinstance(exc, ParseException):
            error = InternalError()
        request_id = uuid.uuid4().hex
        ours = exc if isinstance(error, InternalError) else None
        self.log.warning("request not served: %s request_id=%s", type(exc).__name__, request_id, exc_info=ours)
        body = json.dumps(error.as_dict(), ensure_ascii=False).encode()
        head = (
            f"HTTP/1.1 {error.http_status} {HTTPStatus(error.http_status).phrase}",
            "Connection: close",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            f"X-Request-Id: {request_id}",
        )
        try:
            util.write_nonblock(client, "\r\n".join((*head, "", "")).encode() + body)
        except OSError:
            self.log.debug("the client is gone")


def post_worker_init(worker: Any) -> None:
    """gunicorn's hook: the application is loaded, no request has been taken yet."""
    from foundation.memory import freeze_what_is_loaded

    freeze_what_is_loaded()

    from partners.failed_calls import keep_writing

    keep_writing()


def worker_exit(server: Any, worker: Any) -> None:
    """gunicorn's hook: the process ends, all its requests are answered."""
    from partners.failed_calls import write

    write()


class TimedBody:
    """A request's body, all of which has to come within `BODY_TIMEOUT_S` of the first look at it, however it drips.
    Then reading it raises OSError, as where the client is gone. No database connection is held meanwhile."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self._end: float | None = None

    def read(self, size: int = -1) -> bytes:
        return self._in_time(self._body.read, size)

    def readline(self, size: int = -1) -> bytes:
        return self._in_time(self._body.readline, size)

    def _in_time(self, read: Callable[[int], bytes], size: int) -> bytes:
        if self._end is None:
            from django.db import connection

            self._end = time.monotonic() + BODY_TIMEOUT_S
            if not connection.in_atomic_block:
                connection.close()
        with gevent.Timeout(max(0.0, self._end - time.monotonic()), OSError("the body came too slowly")):
            return read(size)


class TimedSocket:
    """A client's socket, for one answer, all of which has to leave within `SEND_TIMEOUT_S` of its first byte; of a
    stream (`is_stream`), each write. Else the connection is reset, and sending raises BrokenPipeError: a client that
    never reads would keep it for as long as it likes."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._end: float | None = None
        self.is_stream = False

    def sendall(self, data: bytes) -> None:
        self._in_time(self._sock.sendall, data)

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> None:
        self._in_time(self._sock.sendfile, file, offset, count)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def _in_time(self, send: Callable[..., Any], *arguments: Any) -> None:
        if self._end is None or self.is_stream:
            self._end = time.monotonic() + SEND_TIMEOUT_S
        late = BrokenPipeError(errno.EPIPE, "the answer was not taken in time")
        try:
            with gevent.Timeout(max(0.0, self._end - time.monotonic()), late):
                send(*arguments)
        except BrokenPipeError as error:
            if error is late:
                # What the kernel still holds for this client is not sent any more either.
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise


class AwaitedBody:
    """The body of a client that waits for `100 Continue`, which it gets when the body is first read. One that never
    is may come or not: the connection has no known place for a next request, and ends."""

    def __init__(self, req: Any, sock: Any) -> None:
        self._req, self._body, self._sock = req, req.body, sock
        self._closes, req.must_close = req.must_close, True

    def read(self, size: int | None = None) -> bytes:
        return self._asked().read(size)

    def readline(self, size: int | None = None) -> bytes:
        return self._asked().readline(size)

    def _asked(self) -> Any:
        if self._sock is not None:
            self._sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._sock, self._req.must_close = None, self._closes
        return self._body


def _may_be_too_long(body: Any) -> bool:
    """True for a body that announces more than the service takes, and for one in chunks, which announces nothing."""
    from django.conf import settings

    length = getattr(body.reader, "length", None)
    return length is None or length > settings.MAX_BODY_BYTES


def _read_out(body: Any, sock: Any) -> None:
    """After the answer, before the connection is closed: read what was left of the body. A socket that is closed on
    unread data is reset, and a client that is still sending would lose the answer."""
    if getattr(body.reader, "length", None) == 0:  # all was read, or there was none
        return
    with contextlib.suppress(OSError), gevent.Timeout(LINGER_S, False):
        sock.shutdown(socket.SHUT_WR)
        for _ in range(LINGER_BYTES // 65536):
            if not sock.recv(65536):
                return
            gevent.sleep(LINGER_PAUSE_S)  # other requests have their turn, and the client its own pace


class Log(glogging.Logger):
    """gunicorn's own lines in UTC, as those of the application: its workers would write local time, since Django sets
    the process's zone, and its master whatever the machine has."""

    datefmt = "%Y-%m-%dT%H:%M:%SZ"

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for handler in self.error_log.handlers:
            if handler.formatter is not None:
                handler.formatter.converter = time.gmtime


bind = f"{os.environ.get('HOST', '127.0.0.1')}:{os.environ.get('PORT', '8000')}"
workers = int(os.environ.get("WEB_CONCURRENCY", min(2, os.cpu_count() or 1)))
# A request waits for banks most of its time: greenlets hold thousands of them.
worker_class = Worker
logger_class = Log
worker_connections = 2000
# The kernel spreads connections over the workers; a shared listener leaves most of them with one.
reuse_port = True
# Longer than the deadline of an aggregated query, which a deployment must not cut off.
graceful_timeout = 40
timeout = 60
keepalive = 75
# Heartbeat files belong in memory, not on a disk that may stall.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - gunicorn makes its own unlinked file
# Only these may say that a request came in by https.
forwarded_allow_ips = os.environ.get("TRUSTED_PROXIES", "")
# No header says where the application begins, a trusted proxy's neither: it may hand on what its client wrote.
forwarder_headers = ""
control_socket_disable = True
# An oversized header is the application's to refuse, with the contract's error object, not with a page of HTML.
limit_request_field_size = 64 * 1024
