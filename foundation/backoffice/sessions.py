"""Django's middleware for operators' sessions and for compression, for the pages of the back office only.

Nobody else has a session. Elsewhere this middleware would take time from every call. It would also let the request and
its message storage refer to each other, so that only a garbage collection frees them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.middleware.gzip import GZipMiddleware
from django_otp.middleware import OTPMiddleware

from foundation.backoffice.gate import PREFIX


class _ForPages:
    """Passes requests for other paths on."""

    get_response: Callable[[HttpRequest], Any]

    def __call__(self, request: HttpRequest) -> Any:
        if request.path.startswith(PREFIX):
            return super().__call__(request)  # type: ignore[misc]  # the middleware that this is mixed into
        return self.get_response(request)


class Compression(_ForPages, GZipMiddleware):
    """Compresses pages. A list of 50 rows has 400 KB, which become 16 KB."""


class Sessions(_ForPages, SessionMiddleware):
    """Sets `request.session`."""


class Operators(_ForPages, AuthenticationMiddleware):
    """Sets `request.user`."""


class SecondFactors(_ForPages, OTPMiddleware):
    """Sets `request.user.is_verified`."""


class Messages(_ForPages, MessageMiddleware):
    """Lets pages tell the operator what happened."""
