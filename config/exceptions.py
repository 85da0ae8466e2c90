"""The only place that renders failures as the contract's error object.

The API's views call `handle`. Django calls the `handlerNNN` views for failures outside of them.
"""

import sys
from typing import Any

import structlog
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse

from config.logs import traceback_without_words
from foundation import errors
from foundation.backoffice.pages import refusal
from foundation.database import timed_out
from foundation.json import Response
from partners import failed_calls
from partners.authentication import HEADER, visible_prefix

log = structlog.get_logger(__name__)

API_PREFIX = "/partners/v1/"


def handle(exception: Exception, context: dict[str, Any]) -> Response:
    """REST framework's EXCEPTION_HANDLER: the error object for an exception in an API view."""
    error, view = _as_api_error(exception), context["view"]
    _remember(view.request, error)
    response = Response(error.as_dict(), status=error.http_status)
    if isinstance(error, errors.RateLimited):
        response["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, errors.Unauthorized) and view.needs_key:
        response["WWW-Authenticate"] = HEADER
    return response


def _as_api_error(exception: Exception) -> errors.ApiError:
    if isinstance(exception, errors.ApiError):
        return exception
    if isinstance(exception, Http404):
        return errors.NotFound()
    log.exception("unhandled_exception")
    return errors.InternalError()


def is_api(request: HttpRequest) -> bool:
    return f"{request.path}/".startswith(API_PREFIX)


def reply(request: HttpRequest, error: errors.ApiError) -> HttpResponse:
    """The error object for the API; a line of plain text elsewhere."""
    if is_api(request):
        _remember(request, error)
        return JsonResponse(error.as_dict(), status=error.http_status)
    return HttpResponse(error.message + "\n", status=error.http_status, content_type="text/plain; charset=utf-8")


def _remember(request: HttpRequest, error: errors.ApiError) -> None:
    """Set the code of `error`, and its field or limit, for `note_failure`. The error itself refers to the request by
    its traceback. If the request referred to the error, too, only a garbage collection could free both."""
    limit = error.limit if isinstance(error, errors.RateLimited) else ""
    request.failure = error.code, limit or failed_calls.field_name(error.field)  # type: ignore[attr-defined]


def note_failure(request: HttpRequest, status: int) -> None:
    """Keep for operators that this API call failed with `status`: the route's pattern, the partner and the reason.
    Bodies and paths are not kept. Neither waits nor raises."""
    code, field = getattr(request, "failure", ("", ""))
    sent = request.headers.get(HEADER, "")
    failed_calls.notes.note(
        failed_calls.FailedCall(
            partner_id=getattr(request, "partner_id", None),
            key_prefix=visible_prefix(sent),
            method=(request.method or "")[:10],
            route=request.resolver_match.route[:200] if request.resolver_match else failed_calls.NO_ROUTE,
            status=status,
            code=code,
            field=field,
            request_id=request.request_id,  # type: ignore[attr-defined]
        )
    )


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    too_big = isinstance(exception, RequestDataTooBig)
    return reply(request, errors.PayloadTooLarge() if too_big else errors.InvalidInput("Requisição malformada."))


def handler403(request: HttpRequest, exception: Exception | None = None, reason: str = "") -> HttpResponse:
    """Only outside the API: a back office page without permission or, as Django's CSRF_FAILURE_VIEW, with a CSRF token
    that is missing or too old."""
    return refusal(request, 403) or HttpResponse(
        "Acesso negado.\n", status=403, content_type="text/plain; charset=utf-8"
    )


def unknown(request: HttpRequest, **parts: str) -> HttpResponse:
    """The view for paths that match no route."""
    raise Http404


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    return refusal(request, 404) or reply(request, errors.NotFound())


def handler500(request: HttpRequest) -> HttpResponse:
    """The answer to an exception outside of the API's views. Django calls this while the exception is being handled."""
    error = sys.exc_info()[1]
    if timed_out(error):
        log.error("statement_timed_out", exception=traceback_without_words(error))
        return refusal(request, 503) or reply(request, errors.InternalError())
    log.error("unhandled_exception", error=type(error).__name__, exception=traceback_without_words(error))
    return reply(request, errors.InternalError())
