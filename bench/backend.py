"""The tour's partner: a backend that calls the service, and its webhook endpoint."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests

from bench.narration import NotAsShown, say, show

TIMEOUT_S = 45
WEBHOOK_WAIT_S = 30


class Caller:
    """A partner's backend with its `key`, or a holder's browser without one. Prints requests and answers."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = f"{url}/partners/v1"
        self.session = requests.Session()
        self.session.trust_env = False
        if key:
            self.session.headers["X-Partner-Api-Key"] = key
        self.last_body: Any = None

    def _show_body(self, body: Any) -> None:
        if body == self.last_body and body:
            say("    the same body", "2")
        elif body is not None:
            show(body)
            self.last_body = body

    def call(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        """The answer's JSON. Raises NotAsShown unless its HTTP status is `status`."""
        say(f"{method} /partners/v1{path}", "1")
        self._show_body(body)
        began = time.monotonic()
        answer = self.session.request(method, self.url + path, json=body, timeout=TIMEOUT_S)
        say(f"{answer.status_code} {answer.reason}, {(time.monotonic() - began) * 1000:.0f} ms", "1")
        result = answer.json()
        show(result)
        if answer.status_code != status:
            raise NotAsShown(f"HTTP {status} expected")
        return result

    def stream(self, body: Any) -> Iterator[tuple[float, dict[str, Any]]]:
        """The events of a streamed query as they arrive, each with the milliseconds since the request."""
        say("POST /partners/v1/consultas/stream", "1")
        self._show_body(body)
        began = time.monotonic()
        address = f"{self.url}/consultas/stream"
        with self.session.post(address, json=body, stream=True, timeout=TIMEOUT_S) as answer:
            say(f"{answer.status_code} {answer.reason}, {answer.headers['Content-Type']}", "1")
            for line in answer.iter_lines():
                if line.startswith(b"data: "):
                    yield (time.monotonic() - began) * 1000, json.loads(line[6:])


class Receiver:
    """The partner's webhook endpoint, on a free port of this machine. Accepts deliveries signed with `secret`."""

    def __init__(self) -> None:
        self.secret = ""
        self.events: list[dict[str, Any]] = []
        self.forged = 0
        self.news = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                genuine = receiver.take(body, self.headers["X-Service-Signature"] or "", self.headers["webhook-id"])
                self.send_response(204 if genuine else 401)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """The tour prints what arrived."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/webhooks"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, body: bytes, signature: str, webhook_id: str) -> bool:
        """Keep a delivery if it is genuine: HMAC-SHA256 of the raw body, compared in constant time."""
        expected = hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()
        genuine = hmac.compare_digest(expected, signature)
        with self.news:
            if genuine:
                self.events.append({"webhook-id": webhook_id, "X-Service-Signature": signature, **json.loads(body)})
            else:
                self.forged += 1
            self.news.notify_all()
        return genuine

    def wait_for(self, event: str, **fields: Any) -> dict[str, Any]:
        """The first event with that name and these fields. Raises NotAsShown if none arrived in time."""

        def found() -> dict[str, Any] | None:
            expected = {"event": event, **fields}
            return next((each for each in self.events if expected.items() <= each.items()), None)

        with self.news:
            self.news.wait_for(lambda: found() or self.forged, WEBHOOK_WAIT_S)
            if self.forged:
                raise NotAsShown("every webhook bears the right signature")
            event_found = found()
        if event_found is None:
            raise NotAsShown(f"the webhook {event} arrives within {WEBHOOK_WAIT_S} s")
        say(f"webhook {event}", "1")
        show(event_found)
        say("✓ the webhook arrived, and its signature is genuine", "32")
        return event_found
