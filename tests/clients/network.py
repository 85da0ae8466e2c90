"""A broken network between a partner's client and the service: a proxy that loses, cuts off or refuses calls."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self

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


class Network:
    """The proxy to the service at `address`. `fault` names what happens to a call (""  : nothing)."""

    def __init__(self, address: str, fault: Callable[[str, str], str] = lambda method, path: "") -> None:
        self.fault = fault
        self.calls: list[Call] = []
        network, (host, _, port) = self, address.removeprefix("http://").partition(":")

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fault = network.fault(self.command, self.path)
                network.calls.append(Call(self.command, self.path, fault, time.monotonic()))
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if fault == "refuse":
                    return self.cut()
                if fault == "gateway":
                    return self.tell(502, b"<h1>Bad Gateway</h1>")
                if fault == "limited":
                    return self.tell(429, _LIMITED, {"Retry-After": str(RETRY_AFTER_S)})
                service = http.client.HTTPConnection(host, int(port), timeout=60)
                try:
                    service.request(self.command, self.path, body, dict(self.headers))
                    self.pass_on(service.getresponse(), fault)
                except OSError:  # the service, or the client, was killed
                    self.cut()
                finally:
                    service.close()
                return None

            do_POST = do_PUT = do_GET

            def pass_on(self, answer: http.client.HTTPResponse, fault: str) -> None:
                if answer.getheader("Content-Type", "").startswith("text/event-stream"):
                    return self.stream(answer, fault)
                body = answer.read()
                if fault == "lose":
                    return self.cut()
                if fault == "late_gateway":
                    return self.tell(504, b"<h1>Gateway Time-out</h1>")
                headers = {name: text for name, text in answer.getheaders() if name == "Retry-After"}
                self.tell(answer.status, body, headers, half=fault == "half")
                return None

            def stream(self, answer: http.client.HTTPResponse, fault: str) -> None:
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
                        return self.cut()
                self.wfile.write(b"0\r\n\r\n")
                return None

            def tell(self, status: int, body: bytes, headers: dict[str, str] | None = None, half: bool = False) -> None:
                self.send_response(status)
                for name, text in {**(headers or {}), "Content-Length": str(len(body))}.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if half else body)

            def cut(self) -> None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def once(fault: str, method: str = "POST") -> Callable[[str, str], str]:
    """The fault for the first call with `method`."""
    left = [fault]
    return lambda called, path: left.pop() if called == method and left else ""
