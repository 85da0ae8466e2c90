"""Authentication by `X-Partner-Api-Key`, at the beginning of each call and while a long response lasts."""

import re
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta

import structlog
from django.conf import settings
from django.db import DatabaseError
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone

from foundation.client_ip import known_ip
from foundation.database import give_back_connection
from foundation.errors import Unauthorized
from partners import callers
from partners.models import VISIBLE, ApiKey, Partner

log = structlog.get_logger(__name__)

HEADER = "X-Partner-Api-Key"
_SHAPE = re.compile(r"cpk_(live|test)_[A-Za-z0-9_-]{43}", re.ASCII)
#: How often the use of a key is noted.
LAST_USED_EVERY = timedelta(minutes=1)
#: How long a process relies on its last read of a key, in seconds, however many streams it has.
LOOK_EVERY_S = 1.0
#: By key: when it was last read, in monotonic seconds, and what was found.
_looks: dict[uuid.UUID, tuple[float, bool]] = {}


def visible_prefix(secret: str) -> str:
    """The first characters of the sent key, which operators may see. Empty if the text does not have a key's form."""
    return secret[:VISIBLE] if _SHAPE.fullmatch(secret) else ""


def key_of(request: HttpRequest) -> ApiKey:
    """The live key that `request` bears, with its partner. Raises Unauthorized.

    A missing, unknown, expired or revoked key, a key from a forbidden address, and a suspended partner all get the same
    401, which reveals nothing. Nothing is cached: revocation and suspension take effect with the next request. Keys are
    found by a keyed digest, so measuring the time of the look-up reveals nothing without the pepper.
    """
    secret = request.headers.get(HEADER, "")
    shape = _SHAPE.fullmatch(secret)
    # Test keys are refused in production, because the sandbox's key is public.
    if shape is None or (settings.PRODUCTION and shape[1] == "test"):
        raise Unauthorized
    key = ApiKey.find(secret)
    if key is None:
        raise Unauthorized
    # A refused call is the partner's, too: for its log line, and for operators.
    request.partner_id = key.partner_id  # type: ignore[attr-defined]
    now = timezone.now()
    if not key.is_live(now) or key.partner.status != Partner.Status.ACTIVE:
        raise Unauthorized
    if key.networks and not key.may_come_from(known_ip(request)):
        log.warning("api_key_from_elsewhere", key=str(key.pk), partner=str(key.partner_id))
        raise Unauthorized
    if key.last_used_at is None or key.last_used_at < now - LAST_USED_EVERY:
        stale = Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_EVERY)
        ApiKey.objects.filter(stale, pk=key.pk).update(last_used_at=now)
    callers.note(key.partner_id, request)
    return key


def while_active(key: ApiKey, events: Iterator[bytes]) -> Iterator[bytes]:
    """The `events` of a stream until the first one after the end of the key or its partner's suspension."""
    for event in events:
        if not is_active(key.pk):
            return
        yield event


def is_active(key: uuid.UUID) -> bool:
    """True for a live key of an active partner. While the database is unavailable, the last read counts."""
    looked_at, active = _looks.get(key, (float("-inf"), True))
    if time.monotonic() - looked_at < LOOK_EVERY_S:
        return active
    try:
        live = ApiKey.objects.filter(ApiKey.live(timezone.now()), pk=key)
        active = live.filter(partner__status=Partner.Status.ACTIVE).exists()
    except DatabaseError:
        pass
    finally:
        give_back_connection()
    _looks[key] = (time.monotonic(), active)
    return active
