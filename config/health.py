"""Liveness and readiness checks for a supervisor or load balancer. They reveal nothing about partners or banks."""

import json
import threading
import time
import uuid
from collections.abc import Callable
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

from django.db import Error, connection
from redis.exceptions import RedisError

from config.metrics import HTTP_REQUESTS
from config.middleware import kept_id
from foundation import workers
from foundation.redis import to_broker

#: How long the result of a readiness check is reused, in seconds.
FRESH_S = 2.0


def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes] | None:
    """The WSGI response to a check; None for any other request. `/health/live` is 200 while the process answers.
    `/health/ready` is 200 if the database, the broker and a bank worker answer, otherwise 503, and names each part.

    Both are public and called all the time. Django's middleware would cost ten times as much as the checks.
    """
    path, method = environ.get("PATH_INFO"), environ["REQUEST_METHOD"]
    has_body = environ.get("CONTENT_LENGTH", "0") not in ("", "0") or "HTTP_TRANSFER_ENCODING" in environ
    if path not in _PATHS or method not in ("GET", "HEAD") or has_body:
        return None
    began = time.monotonic()
    status, report = (200, _LIVE) if path == _LIVE_PATH else _readiness()
    body = json.dumps(report).encode()
    headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("X-Request-Id", kept_id(environ.get("HTTP_X_REQUEST_ID", "")) or uuid.uuid4().hex),
        ("X-Content-Type-Options", "nosniff"),
    ]
    start_response(f"{status} {HTTPStatus(status).phrase}", headers)
    HTTP_REQUESTS.labels(path.removeprefix("/"), method, status).observe(time.monotonic() - began)
    return [b"" if method == "HEAD" else body]


_LIVE = {"status": "ok"}
_LIVE_PATH = "/health/live"
_PATHS = (_LIVE_PATH, "/health/ready")


def _readiness() -> tuple[int, dict[str, Any]]:
    """Status and body. The result of a check is reused for `FRESH_S`, because each check costs a worker's answer. While
    one request checks, the others wait for its result."""
    with _looking:
        if time.monotonic() > _state.good_until:
            _state.parts = _look()
            _state.good_until = time.monotonic() + FRESH_S
        parts = _state.parts
    healthy = all(parts.values())
    return 200 if healthy else 503, {
        "status": "ok" if healthy else "unavailable",
        "parts": {name: "ok" if up else "down" for name, up in parts.items()},
    }


_state = SimpleNamespace(parts={}, good_until=0.0)
_looking = threading.Lock()


def _look() -> dict[str, bool]:
    parts = {"database": _database(), "broker": _broker()}
    parts["bank_worker"] = parts["broker"] and ping(timeout_s=2.0)
    return parts


def ping(timeout_s: float) -> bool:
    """True if a bank worker takes a task from the broker and replies within `timeout_s` seconds."""
    return workers.ask("foundation.tasks.pong", timeout_s) is not None


def _broker() -> bool:
    try:
        return bool(to_broker().send(("PING",)))
    except RedisError:
        return False


def _database() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return False
    finally:
        connection.close()
    return True
