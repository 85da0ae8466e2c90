"""A partner's webhook endpoint as an HTTP server that remembers everything and misbehaves on demand.

    with Receiver() as receiver:
        receiver.reply = Reply(503, headers={"Retry-After": "30"})
        ...
        [delivery] = receiver.wait_for(1)

It runs in threads of this process, on a free port of 127.0.0.1, and imports nothing of the project.
"""

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Any, Self


@dataclass(frozen=True)
class Received:
    """One request. Header names are in lower case; the body is raw. `peer` is the sender's port."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float = field(default_factory=time.time)
    peer: int = 0

    @property
    def id(self) -> str:
        """The `webhook-id`."""
        return self.headers["webhook-id"]

    def json(self) -> Any:
        """The body as parsed JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """How to answer. A body in parts is sent as they come. `hang` waits that many seconds first. `drip` sends one byte
    per that many seconds, head included. `half` ends the connection in the middle of the body, and `reset` instead of
    answering. `keep` leaves the connection open for further requests."""

    status: int = 204
    body: bytes | Iterator[bytes] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: float = 0.0
    drip: float = 0.0
    half: bool = False
    reset: bool = False
    keep: bool = False


class Receiver:
    """The server. `reply` is a Reply, or a function from Received to Reply. It may be changed at any time."""

    def __init__(self, reply: Reply | Callable[[Received], Reply] = Reply(), *, tls: SSLContext | None = None) -> None:
        self.reply = reply
        self._received: list[Received] = []
        self._news = threading.Condition()
        self._released = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.port: int = self._server.server_address[1]
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The URL to register."""
        return self.url_of("127.0.0.1")

    @property
    def root(self) -> str:
        """The URL without a path, for a test that uses the receiver as a bank."""
        return self.url_of("127.0.0.1", path="")

    def url_of(self, host: str, path: str = "/webhooks") -> str:
        """The same server under another host name or spelling of its address."""
        return f"{self._scheme}://{host}:{self.port}{path}"

    @property
    def received(self) -> list[Received]:
        """All requests so far, oldest first."""
        with self._news:
            return list(self._received)

    @property
    def ids(self) -> list[str]:
        """The `webhook-id` of every request so far."""
        return [request.id for request in self.received]

    def wait_for(self, count: int, timeout: float = 10.0) -> list[Received]:
        """All requests so far, once there are at least `count`. Raises TimeoutError."""
        with self._news:
            if not self._news.wait_for(lambda: len(self._received) >= count, timeout):
                raise TimeoutError(f"{len(self._received)} of {count} requests came within {timeout} s")
            return list(self._received)

    def forget(self) -> None:
        """Forget all requests so far."""
        with self._news:
            self._received.clear()

    def release(self) -> None:
        """End every hang and drip, and those of later requests."""
        self._released.set()

    def _take(self, request: Received) -> Reply:
        with self._news:
            self._received.append(request)
            self._news.notify_all()
        return self.reply(request) if callable(self.reply) else self.reply

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                peer = self.client_address[1]
                reply = receiver._take(Received(self.command, self.path, headers, body, peer=peer))
                self.close_connection = not reply.keep
                receiver._released.wait(reply.hang)
                if reply.reset:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                for part in _written(reply):
                    if reply.drip and receiver._released.wait(reply.drip):
                        return
                    self.wfile.write(part)

            do_GET = do_PUT = do_POST

            def log_message(self, *_: object) -> None:
                """Requests are kept, not printed."""

        return Handler


def _written(reply: Reply) -> Iterator[bytes]:
    """The bytes of an answer in the parts in which they are sent."""
    body = reply.body
    length = f"Content-Length: {len(body)}" if isinstance(body, bytes) else "Transfer-Encoding: chunked"
    head = f"HTTP/1.1 {reply.status} Told\r\n{length}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
    head += "" if reply.keep else "Connection: close\r\n"
    begin = f"{head}\r\n".encode()
    if isinstance(body, bytes):
        answer = begin + (body[: len(body) // 2] if reply.half else body)
        yield from (bytes([each]) for each in answer) if reply.drip else [answer]
        return
    yield begin
    for part in body:
        yield b"%x\r\n%s\r\n" % (len(part), part)
    yield b"0\r\n\r\n"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Some tests disconnect or fail the TLS handshake on purpose, so this prints nothing."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)
