"""The token in our page's form: that the page was shown, for this session, in this browser, a short time ago.

The browser is known by a random cookie, which says nothing of the holder and serves nothing else. Without the cookie
the token is worthless: who copies the page's form can't send it from elsewhere.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse

from authorizations.models import Session
from foundation.formats import iso_utc

#: So long a page that stays open can be answered.
VALIDITY = timedelta(hours=12)
_BROWSER = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)


@dataclass(frozen=True)
class Shown:
    """What our page showed: `at` is the time in ISO 8601, UTC, `round` the session's `page_round` then."""

    at: str
    declaration: str
    round: int


def cookie_name() -> str:
    """The name of the browser's cookie. In production browsers take it from this very host by https only."""
    return "__Host-holder" if settings.PRODUCTION else "holder"


def browser_of(request: HttpRequest) -> str:
    """The browser's mark, or a new one where the request brings none."""
    return _brought_by(request) or secrets.token_urlsafe(16)


def remember(response: HttpResponse, browser: str) -> None:
    """Let the browser bring its mark with the next requests, until it is closed."""
    # Lax: the cookie comes back when the link is opened again from a chat, and with our own form.
    response.set_cookie(cookie_name(), browser, path="/", secure=settings.PRODUCTION, httponly=True, samesite="Lax")


def issue(session: Session, browser: str, now: datetime) -> str:
    """The token for a page that is shown now in the browser with this mark."""
    shown = Shown(iso_utc(now), session.declaration, session.page_round)
    return signing.dumps(asdict(shown), salt=_salt(session.authorization_id, browser))


def read(token: object, authorization_id: str, request: HttpRequest) -> Shown | None:
    """What the token of this session says. None for one that is forged, too old, or of another session or browser."""
    browser = _brought_by(request)
    if browser is None or not isinstance(token, str):
        return None
    try:
        return Shown(**signing.loads(token, salt=_salt(authorization_id, browser), max_age=VALIDITY))
    except (signing.BadSignature, TypeError):  # TypeError: of another release
        return None


def _brought_by(request: HttpRequest) -> str | None:
    found = _BROWSER.fullmatch(request.COOKIES.get(cookie_name(), ""))
    return found and found[0]


def _salt(authorization_id: str, browser: str) -> str:
    return f"authorizations.page:{authorization_id}:{browser}"
