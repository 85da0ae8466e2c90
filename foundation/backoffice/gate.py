"""The middleware of the back office: Django's for operators' sessions and for compression, for its pages only; and the
checks before each page: the host, the session's age, the second factor, and the content security policy."""

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from csp.constants import NONE, SELF, UNSAFE_EVAL, UNSAFE_INLINE
from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.signals import user_logged_in
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.dispatch import receiver
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import split_domain_port
from django.middleware.gzip import GZipMiddleware
from django_otp.middleware import OTPMiddleware

from foundation import audit

PREFIX = "/admin/"
SECOND_FACTOR = f"{PREFIX}second-factor/"
#: Pages that need no second factor.
_OPEN = (f"{PREFIX}login/", f"{PREFIX}logout/", SECOND_FACTOR)
#: The theme loads its scripts from files and evaluates expressions in its pages (Alpine). Its styles are inline.
POLICY = {
    "default-src": [NONE],
    "script-src": [SELF, UNSAFE_EVAL],
    "style-src": [SELF, UNSAFE_INLINE],
    "img-src": [SELF, "data:"],
    "font-src": [SELF],
    "connect-src": [SELF],
    "form-action": [SELF],
    "base-uri": [NONE],
    "frame-ancestors": [NONE],
}
#: Session keys, in seconds since the epoch: the login, and the last request for a page.
_BEGAN, _SEEN = "began_at", "seen_at"
#: The time of a request is not stored within this many seconds of the last one, to avoid a write per page.
_NOTE_AFTER_S = 60


def for_pages(middleware: Any) -> Any:
    """The class `middleware`, which passes requests for other paths on. Nobody else has a session. Elsewhere this
    middleware would take time from every call. It would also let the request and its message storage refer to each
    other, so that only a garbage collection frees them."""

    class ForPages(middleware):
        def __call__(self, request: HttpRequest) -> Any:
            is_page = request.path.startswith(PREFIX)
            return super().__call__(request) if is_page else self.get_response(request)

    return ForPages


Compression = for_pages(GZipMiddleware)  # a list of 50 rows has 130 KB, which become 13 KB
Sessions = for_pages(SessionMiddleware)
Operators = for_pages(AuthenticationMiddleware)
SecondFactors = for_pages(OTPMiddleware)
Messages = for_pages(MessageMiddleware)


class BackOfficeMiddleware:
    """Runs after Django's session and authentication middleware, and inside of the policy's middleware."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_page = request.path.startswith(PREFIX)
        if _is_elsewhere(request, is_page):
            raise Http404
        if not is_page:
            return self.get_response(request)
        _take_nul_out(request)
        _end_what_is_over(request)
        response = _ask_for_second_factor(request) or self.get_response(request)
        if response.status_code == HTTPStatus.FORBIDDEN:
            _note_refusal(request)
        if not hasattr(response, "_csp_config"):  # a view with its own policy has set this attribute for django-csp
            response._csp_config = POLICY  # type: ignore[attr-defined]
        return response


def _take_nul_out(request: HttpRequest) -> None:
    """Replace NUL in the address, which PostgreSQL refuses, by a character that no row has."""
    request.path_info = request.path_info.replace("\0", "\ufffd")
    if "%00" in request.META.get("QUERY_STRING", ""):
        given = request.GET.copy()
        for name, values in request.GET.lists():
            given.setlist(name, [value.replace("\0", "\ufffd") for value in values])
        request.GET = given  # type: ignore[assignment]


def _ask_for_second_factor(request: HttpRequest) -> HttpResponse | None:
    """A redirect to the second factor's page, if the second factor is required and this session has not passed it."""
    if not settings.SECOND_FACTOR or request.path in _OPEN or not request.user.is_authenticated:
        return None
    if request.user.is_verified():  # type: ignore[attr-defined]  # set by django-otp
        return None
    return HttpResponseRedirect(f"{SECOND_FACTOR}?{urlencode({'next': request.path})}")


def _note_refusal(request: HttpRequest) -> None:
    """Record that an operator asked for something without permission."""
    match = request.resolver_match
    if request.user.is_authenticated and match is not None:
        detail = f"{request.method} {request.path}"
        audit.record(
            audit.Action.DENIED, request=request, obj=audit.Subject(id=match.kwargs.get("object_id", "")), detail=detail
        )


def _is_elsewhere(request: HttpRequest, is_page: bool) -> bool:
    """True if BACKOFFICE_HOST separates the back office from the API, and this request came to the wrong host."""
    own = settings.BACKOFFICE_HOST
    if not own or request.path.startswith(f"/{settings.STATIC_URL.lstrip('/')}"):
        return False
    return (split_domain_port(request.get_host())[0].rstrip(".") == own) is not is_page


@receiver(user_logged_in)
def _begin(sender: object, request: HttpRequest, **_: Any) -> None:
    """Store the login time in the session."""
    request.session[_BEGAN] = request.session[_SEEN] = int(time.time())


def _end_what_is_over(request: HttpRequest) -> None:
    """Log out an operator whose session was idle or lasted for too long. Such a session is treated like no session."""
    if not request.user.is_authenticated:
        return
    now, session = int(time.time()), request.session
    idle, age = now - session.get(_SEEN, 0), now - session.get(_BEGAN, 0)
    if idle > settings.SESSION_IDLE_S or age > settings.SESSION_COOKIE_AGE:
        logout(request)
    elif idle >= _NOTE_AFTER_S:
        session[_SEEN] = now
