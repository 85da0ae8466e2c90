"""What stands before every page of the back office: its host, the time of a session, the second factor, and the
browser's policy."""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from csp.constants import NONE, SELF, UNSAFE_EVAL, UNSAFE_INLINE
from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.signals import user_logged_in
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect

from foundation import audit

PREFIX = "/admin/"
SECOND_FACTOR = f"{PREFIX}second-factor/"
#: Pages for which a password is enough.
_OPEN = (f"{PREFIX}login/", f"{PREFIX}logout/", SECOND_FACTOR)
#: The theme's scripts come from files and work out expressions in its pages (Alpine), and its styles stand in them.
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
#: Moments in a session, in seconds since 1970: when its operator logged in, and when a page was last asked for.
_BEGAN, _SEEN = "began_at", "seen_at"
#: A page asked for within this time of the last is not noted: that would be a write for every page.
_NOTE_AFTER_S = 60


class BackOfficeMiddleware:
    """Stands behind Django's sessions and users, and inside of the middleware that writes the policy's header."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_page = request.path.startswith(PREFIX)
        if _is_elsewhere(request, is_page):
            raise Http404
        if not is_page:
            return self.get_response(request)
        _end_what_is_over(request)
        response = _ask_for_second_factor(request) or self.get_response(request)
        if response.status_code == HTTPStatus.FORBIDDEN:
            _note_refusal(request)
        if not hasattr(response, "_csp_config"):  # by which a view tells django-csp of a policy of its own
            response._csp_config = POLICY  # type: ignore[attr-defined]
        return response


def _ask_for_second_factor(request: HttpRequest) -> HttpResponse | None:
    """The way to the page that asks for it, where it is required and was not given in this session."""
    if not settings.SECOND_FACTOR or request.path in _OPEN or not request.user.is_authenticated:
        return None
    if request.user.is_verified():  # type: ignore[attr-defined]  # put there by django-otp
        return None
    return HttpResponseRedirect(f"{SECOND_FACTOR}?{urlencode({'next': request.path})}")


def _note_refusal(request: HttpRequest) -> None:
    """An operator asked for what his permissions do not cover. Strangers are sent to the log-in instead."""
    match = request.resolver_match
    if request.user.is_authenticated and match is not None:
        detail = f"{request.method} {match.view_name}"
        audit.record(audit.Action.DENIED, request=request, object_id=match.kwargs.get("object_id", ""), detail=detail)


def note_beginnings() -> None:
    """From now on a session knows when its operator logged in."""
    user_logged_in.connect(_begin, dispatch_uid="backoffice.gate")


def _is_elsewhere(request: HttpRequest, is_page: bool) -> bool:
    """True where BACKOFFICE_HOST keeps the back office and everything else apart, and this request crosses."""
    own = settings.BACKOFFICE_HOST
    if not own or request.path.startswith((f"/{settings.STATIC_URL.lstrip('/')}", "/health/")):
        return False
    return (request.get_host().partition(":")[0] == own) is not is_page


def _begin(sender: object, request: HttpRequest, **_: Any) -> None:
    request.session[_BEGAN] = request.session[_SEEN] = int(time.time())


def _end_what_is_over(request: HttpRequest) -> None:
    """Log an operator out whose session was idle, or lasted, for too long. Neither is told apart from no session."""
    if not request.user.is_authenticated:
        return
    now, session = int(time.time()), request.session
    idle, age = now - session.get(_SEEN, 0), now - session.get(_BEGAN, 0)
    if idle > settings.SESSION_IDLE_S or age > settings.SESSION_COOKIE_AGE:
        logout(request)
    elif idle >= _NOTE_AFTER_S:
        session[_SEEN] = now
