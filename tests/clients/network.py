"""A broken network between a partner's client and the service: a proxy that loses, cuts off or refuses calls."""

import http.client
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

#: `refuse`: the call does not arrive. `gateway`: neither, and a proxy's page is the answer. `limited`: neither, and 429
#: is. `lose`, `half`, `late_gateway`: it arrives, and its answer is lost, is cut off, or is a proxy's page.
FAULTS = ("refuse", "gateway", "limited", "lose", "half", "late_gateway")
RETRY_AFTER_S = 1
_LIMITED = b'{"code": "rate_limited", "message": "Espere.", "retryable": true, "field": null}'


class Call(NamedTuple):
    """A call that a client made, what happened to it, and when (seconds, monotonic)."""

    method: str
    path: str
    fault: str
    at: float


class Network(ThreadingHTTPServer):
    """The proxy to the service at `address`. `fault` names what happens to a call ("" for nothing)."""

    daemon_threads = True

    def __init__(self, address: str, fault: Callable[[str, str], str] = lambda method, path: "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fault = fault
        self.calls: list[Call] = []
        self.service, _, port = address.removeprefix("http://").partition(":")
        self.service_port = int(port)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Network

    def do_GET(self) -> None:
        fault = self.server.fault(self.command, self.path)
        self.server.calls.append(Call(self.command, self.path, fault, time.monotonic()))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if fault == "refuse":
            self._cut()
        elif fault == "gateway":
            self._tell(502, b"<h1>Bad Gateway</h1>")
        elif fault == "limited":
            self._tell(429, _LIMITED, {"Retry-After": str(RETRY_AFTER_S)})
        else:
            self._forward(body, fault)

    do_POST = do_PUT = do_GET

    def _forward(self, body: bytes, fault: str) -> None:
        service = http.client.HTTPConnection(self.server.service, self.server.service_port, timeout=60)
        try:
            service.request(self.command, self.path, body, dict(self.headers))
            answer = service.getresponse()
            if answer.getheader("Content-Type", "").startswith("text/event-stream"):
                self._stream(answer, fault)
            else:
                self._pass_on(answer, fault)
        except (OSError, http.client.HTTPException):  # the service, or the client, was killed
            self._cut()
        finally:
            service.close()

    def _pass_on(self, answer: http.client.HTTPResponse, fault: str) -> None:
        body = answer.read()
        if fault == "lose":
            self._cut()
        elif fault == "late_gateway":
            self._tell(504, b"<h1>Gateway Time-out</h1>")
        else:
            headers = {name: text for name, text in answer.getheaders() if name == "Retry-After"}
            self._tell(answer.status, body, headers, half=fault == "half")

    def _stream(self, answer: http.client.HTTPResponse, fault: str) -> None:
        """Every fault cuts a stream off: in the middle of its second event."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = 0
        while line := answer.readline():
            events += line == b"\n"
            part = line[: len(line) // 2] if fault and events and line.startswith(b"data") else line
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            if part != line:
                return self._cut()
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _tell(self, status: int, body: bytes, headers: dict[str, str] | None = None, half: bool = False) -> None:
        self.send_response(status)
        for name, text in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if half else body)

    def _cut(self) -> None:
        self.close_connection = True
        with suppress(OSError):  # the client may have been killed
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        """Calls are kept, not printed."""


def once(fault: str, method: str = "POST") -> Callable[[str, str], str]:
    """The fault for the first call with `method`."""
    left = [fault]
    return lambda called, path: left.pop() if called == method and left else ""
