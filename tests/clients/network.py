"""A broken network between a partner's client and the service: a proxy that loses, cuts off or refuses calls."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple

import urllib3

from tests.receiver import Received, Receiver, Reply

RETRY_AFTER_S = 1
_LIMITED = b'{"code": "rate_limited", "message": "Espere.", "retryable": true, "field": null}'
#: The call does not arrive: its connection ends, or a proxy's page or 429 is the answer.
_BEFORE = {
    "refuse": Reply(reset=True),
    "gateway": Reply(502, b"<h1>Bad Gateway</h1>"),
    "limited": Reply(429, _LIMITED, {"Retry-After": str(RETRY_AFTER_S)}),
}
#: The call arrives, and its answer is lost, or is a proxy's page. `half`: it is cut off.
_AFTER = {"lose": Reply(reset=True), "late_gateway": Reply(504, b"<h1>Gateway Time-out</h1>")}
_SERVICE = urllib3.PoolManager(retries=False, timeout=60)
FAULTS = (*_BEFORE, *_AFTER, "half")


class Call(NamedTuple):
    """A call that a client made, what happened to it, and when (seconds, monotonic)."""

    method: str
    path: str
    fault: str
    at: float


class Network(Receiver):
    """The proxy to the service at `address`. `fault` names what happens to a call ("" for nothing)."""

    def __init__(self, address: str, fault: Callable[[str, str], str] = lambda method, path: "") -> None:
        super().__init__(self._pass_on)
        self.fault = fault
        self.calls: list[Call] = []
        self._address = address

    def _pass_on(self, request: Received) -> Reply:
        fault = self.fault(request.method, request.path)
        self.calls.append(Call(request.method, request.path, fault, time.monotonic()))
        return _BEFORE.get(fault) or self._ask(request, fault)

    def _ask(self, request: Received, fault: str) -> Reply:
        url, sent = self._address + request.path, {**request.headers, "connection": "close"}
        try:
            answer = _SERVICE.request(
                request.method, url, body=request.body or None, headers=sent, preload_content=False
            )
            kind = answer.headers.get("Content-Type", "")
            if kind.startswith("text/event-stream"):
                return Reply(answer.status, _stream(answer, fault), {"Content-Type": kind})
            body = answer.read()
        except urllib3.exceptions.HTTPError:  # the service was killed
            return Reply(reset=True)
        headers = {name: text for name, text in answer.headers.items() if name == "Retry-After"}
        return _AFTER.get(fault) or Reply(answer.status, body, headers, half=fault == "half")


def _stream(answer: urllib3.BaseHTTPResponse, fault: str) -> Iterator[bytes]:
    """The lines of a stream. Every fault cuts the stream off: in the middle of its second event."""
    events = 0
    with closing(answer):
        try:
            for line in (line for part in answer.stream() for line in part.splitlines(keepends=True)):
                events += line == b"\n"
                is_cut = bool(fault and events and line.startswith(b"data"))
                yield line[: len(line) // 2] if is_cut else line
                if is_cut:
                    raise ConnectionAbortedError
        except urllib3.exceptions.HTTPError:  # the service was killed
            raise ConnectionAbortedError from None


def once(fault: str, method: str = "POST") -> Callable[[str, str], str]:
    """The fault for the first call with `method`."""
    left = [fault]
    return lambda called, path: left.pop() if called == method and left else ""
