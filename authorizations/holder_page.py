"""How a page for the holder is answered. Knows nothing of the API, so that processes without routes can load it."""

from typing import Any

from csp.constants import NONCE, NONE, SELF
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

# Nothing is loaded from other hosts. Inline style and script need the response's own nonce.
PAGE_POLICY = {
    "default-src": [NONE],
    "script-src": [NONCE],
    "style-src": [NONCE],
    "img-src": ["data:"],
    "form-action": [SELF],
    "base-uri": [NONE],
    "frame-ancestors": [NONE],
}


def holder_page(request: HttpRequest, template: str, context: dict[str, Any], http_status: int = 200) -> HttpResponse:
    """A page for the holder. It may ask for the location; all other browser permissions are denied."""
    response = render(request, f"authorizations/{template}.html", context, status=http_status)
    response["Permissions-Policy"] = "geolocation=(self), camera=(), microphone=(), payment=()"
    return response
