"""Configuration of the web processes, here and in production: `gunicorn -c config/gunicorn.py config.wsgi`."""

import contextlib
import errno
import json
import logging
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
from gunicorn import util
from gunicorn.http.errors import (
    InvalidResponseHeader,
    InvalidResponseHeaderName,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
    UnsupportedTransferCoding,
)
from gunicorn.workers.ggevent import GeventWorker

#: The maximum time for a request's body, in seconds. Headers, and an idle connection, are limited by `keepalive`.
BODY_TIMEOUT_S = float(os.environ.get("BODY_TIMEOUT_S", "20"))
#: The maximum time for a client to receive a response, in seconds. For a stream, the limit of each write.
SEND_TIMEOUT_S = float(os.environ.get("SEND_TIMEOUT_S", "30"))
#: How long, and how many bytes of, a refused body are still read before its connection is closed.
LINGER_S = 5
LINGER_BYTES = 8 * 1024 * 1024
#: Content types of responses of any length: event streams and exported lists (foundation/backoffice/exporting.py).
_STREAMED = {("Content-Type", "text/event-stream"), ("Content-Type", "text/csv; charset=utf-8")}
#: The pause between two such reads. It limits a connection to 6 MB a second; without it four kept a process busy.
LINGER_PAUSE_S = 0.01


class Worker(GeventWorker):
    """gevent's worker with six differences. A request names its host. Failures outside of the application (a
    malformed request, oversized headers) get the contract's error object and a request id instead of an HTML page. A
    refusal does not wait for the unread body. A body has a time limit. A response has a time limit. The head of a
    response is sent together with its body."""

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
        """Serve one request. Raises StopIteration if the connection ends with it, and ParseException for a request of
        HTTP/1.1 without Host (RFC 9112, section 3.2)."""
        if req.version >= (1, 1) and "HOST" not in dict(req.headers):
            raise ParseException
        body = req.body
        if _may_be_too_long(body):
            # Without this, gunicorn would read the whole body before the next request, while no other greenlet runs.
            req.must_close = True
        timed = TimedSocket(sock)
        try:
            goes_on = super().handle_request(listener_name, req, timed, addr)
            timed.flush()
        except StopIteration:
            timed.flush()
            _read_out(body, sock)
            raise
        return goes_on

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer on the socket `client` and log the type of `exc`. Its text may quote a key or a secret path."""
        # Imported here, because this file is read before gevent has patched the standard library.
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
            self.log.debug("client_disconnected")


def post_worker_init(worker: Any) -> None:
    """gunicorn's hook: the application is loaded, and no request has been accepted yet."""
    from foundation.memory import freeze_what_is_loaded, make_room_for_connections

    make_room_for_connections()
    freeze_what_is_loaded()

    from partners.failed_calls import keep_writing

    keep_writing()


def worker_exit(server: Any, worker: Any) -> None:
    """gunicorn's hook: the process ends after answering all its requests."""
    from partners.failed_calls import write

    write()


class TimedBody:
    """A request's body that must arrive within `BODY_TIMEOUT_S` of its first read. After that, reading raises OSError,
    as for a client that disconnected. No database connection is held while reading."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self._end: float | None = None

    def read(self, size: int = -1) -> bytes:
        return self._in_time(self._body.read, size)

    def readline(self, size: int = -1) -> bytes:
        return self._in_time(self._body.readline, size)

    def _in_time(self, read: Callable[[int], bytes], size: int) -> bytes:
        if self._end is None:
            from foundation.database import give_back_connection

            self._end = time.monotonic() + BODY_TIMEOUT_S
            give_back_connection()
        with gevent.Timeout(max(0.0, self._end - time.monotonic()), OSError("the body came too slowly")):
            return read(size)


class TimedSocket:
    """A client's socket for one response, which must be sent within `SEND_TIMEOUT_S` of its first byte; for a stream
    (`is_stream`), the limit holds per write. Otherwise the connection is reset and sending raises BrokenPipeError.
    Otherwise a client that never reads would keep the socket forever. No database connection is held.

    Except in a stream, the first write (the head) is sent with the second or by `flush`: a head that arrives alone
    would wake the client for nothing."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._end: float | None = None
        self._head: bytes | None = None
        self.is_stream = False

    def sendall(self, data: bytes) -> None:
        if self._head is None and not self.is_stream:
            self._head = data
            return
        head, self._head = self._head or b"", b""
        self._in_time(self._sock.sendall, head + data)

    def send(self, data: bytes) -> None:
        """Send what is no part of the response: gunicorn's "100 Continue". It has a time of its own."""
        self._in_time(self._sock.sendall, data)
        self._end = None

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> None:
        self.flush()
        self._in_time(self._sock.sendfile, file, offset, count)

    def flush(self) -> None:
        """Send the head if it was not sent yet."""
        if self._head:
            self.sendall(b"")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def _in_time(self, send: Callable[..., Any], *arguments: Any) -> None:
        from foundation.database import give_back_connection

        give_back_connection()
        if self._end is None or self.is_stream:
            self._end = time.monotonic() + SEND_TIMEOUT_S
        late = BrokenPipeError(errno.EPIPE, "the answer was not taken in time")
        try:
            with gevent.Timeout(max(0.0, self._end - time.monotonic()), late):
                send(*arguments)
        except BrokenPipeError as error:
            if error is late:
                # Also discard what the kernel has buffered for this client.
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise


def _may_be_too_long(body: Any) -> bool:
    """True for a body whose announced length exceeds the limit, and for a chunked one, which announces no length."""
    from django.conf import settings

    length = getattr(body.reader, "length", None)
    return length is None or length > settings.MAX_BODY_BYTES


def _read_out(body: Any, sock: Any) -> None:
    """Read the rest of the body after the answer, before the connection is closed. Closing a socket with unread data
    resets the connection, and a client that is still sending would lose the answer."""
    if getattr(body.reader, "length", None) == 0:  # everything was read, or there was no body
        return
    with contextlib.suppress(OSError), gevent.Timeout(LINGER_S, False):
        sock.shutdown(socket.SHUT_WR)
        for _ in range(LINGER_BYTES // 65536):
            if not sock.recv(65536):
                return
            gevent.sleep(LINGER_PAUSE_S)  # other greenlets run, and the client is not read faster than it sends


bind = f"{os.environ.get('HOST', '127.0.0.1')}:{os.environ.get('PORT', '8000')}"
workers = int(os.environ.get("WEB_CONCURRENCY", min(2, os.cpu_count() or 1)))
# A request mostly waits for banks. One process can hold thousands of waiting greenlets.
worker_class = Worker
# gunicorn's own lines are in UTC, like those of the application. Otherwise workers would log in Django's time zone.
logging.Formatter.converter = time.gmtime
worker_connections = 2000
# The kernel distributes connections over the workers. A shared listener would leave most of them to one worker.
reuse_port = True
# Longer than the deadline of an aggregated query, so that a deployment does not interrupt one.
graceful_timeout = 40
timeout = 60
keepalive = 75
# Heartbeat files are kept in memory, because a disk may stall.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - gunicorn makes its own unlinked file
# Only these proxies may say that a request came by https.
forwarded_allow_ips = os.environ.get("TRUSTED_PROXIES", "")
# No header may set the application's root path, not even from a trusted proxy, which may pass on its client's header.
forwarder_headers = ""
control_socket_disable = True
# The application refuses oversized headers, because gunicorn would answer with an HTML page.
limit_request_field_size = 64 * 1024
