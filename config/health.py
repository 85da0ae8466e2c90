"""Liveness and readiness, for a supervisor or a load balancer. Neither says anything of partners or banks."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from redis.exceptions import RedisError

from foundation import workers
from foundation.redis import redis

#: Seconds for which a look at the parts counts.
FRESH_S = 2.0


def live(request: HttpRequest) -> JsonResponse:
    """200 while the process answers at all."""
    return JsonResponse({"status": "ok"})


def ready(request: HttpRequest) -> JsonResponse:
    """200 only when the database, the broker and a bank worker answer, else 503; each part by name.

    Told from a look that this process took at most `FRESH_S` ago: the route is public, and a look costs a worker's
    answer. While one request looks, the others wait for what it finds.
    """
    with _looking:
        if time.monotonic() > _state.good_until:
            _state.parts = _look()
            _state.good_until = time.monotonic() + FRESH_S
        parts = _state.parts
    healthy = all(parts.values())
    body = {
        "status": "ok" if healthy else "unavailable",
        "parts": {name: "ok" if up else "down" for name, up in parts.items()},
    }
    return JsonResponse(body, status=200 if healthy else 503)


@dataclass
class _State:
    parts: dict[str, bool] = field(default_factory=dict)
    good_until: float = 0.0


_state = _State()
_looking = threading.Lock()


def _look() -> dict[str, bool]:
    parts = {"database": _database(), "broker": _broker()}
    parts["bank_worker"] = parts["broker"] and workers.ping(timeout_s=2.0)
    return parts


def _database() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    finally:
        connection.close()
    return True


def _broker() -> bool:
    try:
        return bool(redis().ping())
    except RedisError:
        return False
