"""Request id, one log line per request, and chunked bodies."""

import io
import re
import time
import uuid
from collections.abc import Callable

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from gunicorn.http.errors import ParseException

from config.exceptions import is_api, note_failure, reply
from config.metrics import count_request
from foundation.errors import PayloadTooLarge
from foundation.formats import is_tax_number
from foundation.json import body_length

log = structlog.get_logger("request")

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,128}", re.ASCII)


class RequestMiddleware:
    """Keeps a valid incoming `X-Request-Id` or creates one, binds it to every log line, and returns it.

    The log line names the route and never the path, because authorization ids and auction keys in paths are secrets.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        # Evidence needs an id that is certainly our own. The caller may choose the other one.
        own_id = uuid.uuid4().hex
        request_id = kept_id(request.headers.get("X-Request-Id", "")) or own_id
        request.request_id, request.own_id = request_id, own_id  # type: ignore[attr-defined]
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        if request_id != own_id:
            structlog.contextvars.bind_contextvars(own_id=own_id)
        _buffer_chunks(request)
        started = time.monotonic()
        response = _refuse_large_body(request) or self.get_response(request)
        response["X-Request-Id"] = request_id
        if request.method == "HEAD" and not response.streaming:
            # A HEAD response has the length of the GET response and no body, of which the server would warn.
            response["Content-Length"], response.content = str(len(response.content)), b""
        seconds = time.monotonic() - started
        count_request(request, response.status_code, seconds)
        if response.status_code >= 400 and is_api(request):
            note_failure(request, response.status_code)
        if request.path != "/metrics":  # called every few seconds
            log.info(
                "request",
                method=request.method,
                route=request.resolver_match.route if request.resolver_match else None,
                status=response.status_code,
                ms=round(seconds * 1000),
                partner=str(getattr(request, "partner_id", "")) or None,
            )
        return response


def kept_id(incoming: str) -> str | None:
    """The request id that the caller sent, if it is valid and is neither a CPF nor a CNPJ."""
    return incoming if _REQUEST_ID.fullmatch(incoming) and not is_tax_number(incoming) else None


def _buffer_chunks(request: HttpRequest) -> None:
    """Give a chunked body a length: Django takes a request without Content-Length for one with an empty body.

    Reads one byte more than allowed, so that a body that is too large is noticed. One whose chunks are malformed or end
    early is empty, but not by its length: `read_body` refuses it after path, key and method.
    """
    environ = request.META
    if environ.get("CONTENT_LENGTH") or "chunked" not in environ.get("HTTP_TRANSFER_ENCODING", "").lower():
        return
    try:
        body = environ["wsgi.input"].read(settings.MAX_BODY_BYTES + 1)
        environ["CONTENT_LENGTH"] = str(len(body))
    except (OSError, ParseException):
        body = b""
        environ["CONTENT_LENGTH"] = "1"
    request._stream = io.BytesIO(body)


def _refuse_large_body(request: HttpRequest) -> HttpResponse | None:
    """The refusal of a body that is longer than allowed, before any of it is read. Routes of the API refuse later,
    after path, key and method (`read_body`)."""
    if is_api(request) or body_length(request) <= settings.MAX_BODY_BYTES:
        return None
    return reply(request, PayloadTooLarge())
