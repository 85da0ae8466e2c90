"""The one HTTP client, for banks, webhooks and text messages.

Each request has one absolute deadline. A host's name is resolved once for each new connection, every address is
checked, and the connection goes to a checked one. Redirects are not followed. Proxy variables and netrc of the machine
are not read.
"""

from foundation.http.addresses import Rules, origin_of
from foundation.http.client import Exchange, Request, request
from foundation.http.errors import Broken, Malformed, NeverSent, TooLarge, Why
from foundation.http.response import retry_after_s
from foundation.http.way import Way

__all__ = [
    "Broken",
    "Exchange",
    "Malformed",
    "NeverSent",
    "Request",
    "Rules",
    "TooLarge",
    "Way",
    "Why",
    "origin_of",
    "request",
    "retry_after_s",
]
