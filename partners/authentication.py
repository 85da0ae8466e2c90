"""`X-Partner-Api-Key`: which partner calls."""

from __future__ import annotations

import re
from datetime import timedelta

import structlog
from django.conf import settings
from django.db.models import Q
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from foundation.client_ip import client_ip
from partners import callers
from partners.models import VISIBLE, ApiKey, Partner

log = structlog.get_logger(__name__)

HEADER = "X-Partner-Api-Key"
_SHAPE = re.compile(r"cpk_(live|test)_[A-Za-z0-9_-]{43}", re.ASCII)
_LAST_USED_EVERY = timedelta(minutes=1)


def visible_prefix(secret: str) -> str:
    """What an operator may see of a key that was sent: its first characters, empty for what has not a key's form."""
    return secret[:VISIBLE] if _SHAPE.fullmatch(secret) else ""


class ApiKeyAuthentication(BaseAuthentication):
    """Makes `request.user` the Partner and `request.auth` the ApiKey.

    A missing, unknown, expired or revoked key, one from an address that it may not come from, and a suspended partner
    all end in the same 401, so that a stranger learns nothing. Nothing is cached: revocation and suspension count from
    the next request on.
    The look-up is by a keyed digest. An attacker who measures its time learns nothing without the pepper.
    """

    def authenticate(self, request: Request) -> tuple[Partner, ApiKey]:
        """Raises AuthenticationFailed."""
        secret = request.headers.get(HEADER, "")
        shape = _SHAPE.fullmatch(secret)
        # Test keys open nothing in production. The sandbox's key is public.
        if shape is None or (settings.PRODUCTION and shape[1] == "test"):
            raise AuthenticationFailed
        key = ApiKey.find(secret)
        now = timezone.now()
        if key is None or not key.is_live(now) or key.partner.status != Partner.Status.ACTIVE:
            raise AuthenticationFailed
        if key.networks and not key.may_come_from(_address(request)):
            log.warning("api_key_from_elsewhere", key=str(key.pk), partner=str(key.partner_id))
            raise AuthenticationFailed
        if key.last_used_at is None or key.last_used_at < now - _LAST_USED_EVERY:
            stale = Q(last_used_at=None) | Q(last_used_at__lt=now - _LAST_USED_EVERY)
            ApiKey.objects.filter(stale, pk=key.pk).update(last_used_at=now)
        callers.note(key.partner_id, request._request)
        request._request.partner_id = key.partner_id  # type: ignore[attr-defined]  # for the request's log line
        return key.partner, key

    def authenticate_header(self, request: Request) -> str:
        """The challenge of a 401; without one DRF would answer 403."""
        return HEADER


def _address(request: Request) -> str:
    """Where the request comes from; empty where nobody can tell, as behind a Unix socket."""
    try:
        return client_ip(request._request)
    except (KeyError, ValueError):
        return ""
