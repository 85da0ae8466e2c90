"""The token in our page's form. It proves that the page was shown for this session in this browser a short time ago.

The browser is recognized by a random cookie, which reveals nothing about the holder and has no other use. Without the
cookie the token is worthless, so a copied form cannot be sent from elsewhere.
"""

import re
import secrets
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse

from authorizations.models import Session
from foundation.formats import iso_utc

#: How long an open page can be answered.
VALIDITY = timedelta(hours=12)
Layout = Literal["folded", "open"]
_BROWSER = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)


@dataclass(frozen=True)
class Shown:
    """What our page showed. `at` is an ISO 8601 time in UTC. `round` is the session's `page_round` at that time.
    `layout` says how the page was delivered: with the terms folded under their headings, or open."""

    at: str
    declaration: str
    round: int
    layout: Layout


def cookie_name() -> str:
    """The name of the browser's cookie. In production, browsers accept it only from this very host by https."""
    return "__Host-holder" if settings.PRODUCTION else "holder"


def browser_of(request: HttpRequest) -> str:
    """The browser's random mark from its cookie, or a new one."""
    return _brought_by(request) or secrets.token_urlsafe(16)


def remember(response: HttpResponse, browser: str) -> None:
    """Set the cookie with the browser's mark, until the browser is closed."""
    # Lax: the cookie is sent when the URL is opened from a chat, and with our own form.
    response.set_cookie(cookie_name(), browser, path="/", secure=settings.PRODUCTION, httponly=True, samesite="Lax")


def issue(session: Session, browser: str, now: datetime, layout: Layout) -> str:
    """The token for a page that is shown now in the browser with this mark."""
    shown = Shown(iso_utc(now), session.declaration, session.page_round, layout)
    return signing.dumps(asdict(shown), salt=_salt(session.authorization_id, browser))


def read(token: object, authorization_id: str, request: HttpRequest) -> Shown | None:
    """The content of this session's token. None if the token is forged, too old, or of another session or browser."""
    browser = _brought_by(request)
    if browser is None or not isinstance(token, str):
        return None
    try:
        return Shown(**signing.loads(token, salt=_salt(authorization_id, browser), max_age=VALIDITY))
    except (signing.BadSignature, TypeError):  # TypeError: a token of another release
        return None


def _brought_by(request: HttpRequest) -> str | None:
    match = _BROWSER.fullmatch(request.COOKIES.get(cookie_name(), ""))
    return match and match[0]


def _salt(authorization_id: str, browser: str) -> str:
    return f"authorizations.page:{authorization_id}:{browser}"
