"""Liveness and readiness, for a supervisor or a load balancer. Neither says anything of partners or banks."""

from __future__ import annotations

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from redis.exceptions import RedisError

from foundation import workers
from foundation.redis import redis


def live(request: HttpRequest) -> JsonResponse:
    """200 while the process answers at all."""
    return JsonResponse({"status": "ok"})


def ready(request: HttpRequest) -> JsonResponse:
    """200 only when the database, the broker and a bank worker answer, else 503; each part by name."""
    parts = {"database": _database(), "broker": _broker()}
    parts["bank_worker"] = parts["broker"] and workers.ping(timeout_s=2.0)
    healthy = all(parts.values())
    body = {
        "status": "ok" if healthy else "unavailable",
        "parts": {name: "ok" if up else "down" for name, up in parts.items()},
    }
    return JsonResponse(body, status=200 if healthy else 503)


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
