"""The back office's login: limits on failures, on the processor time for passwords, and its audit entries.

django-axes counts the failures (docs/decisions/0080-log-in.md). Its backend is the first one, so that a login refused
for earlier failures costs no password hash.
"""

import threading
import time
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.auth import authenticate, get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect

from foundation import audit, client_ip
from foundation.audit import Action
from foundation.database import give_back_connection
from foundation.encryption import blind_index
from foundation.models import AuditEntry

#: How many logins one process checks at once, and how many seconds others wait for their turn.
AT_ONCE = 2
PATIENCE_S = 5.0
TOO_OFTEN = "Muitas tentativas de entrada sem sucesso. Tente novamente em {minutes} minutos.\n"
BUSY = "Há muitas tentativas de entrada agora. Tente novamente em instantes.\n"
LONGEST_NAME = 150

_turns = threading.BoundedSemaphore(AT_ONCE)


@never_cache
@csrf_protect
def login(request: HttpRequest) -> HttpResponse:
    """Django's login page. The answer is 429 after too many failures, and 503 if too many other logins are waiting."""
    if request.method != "POST":
        return admin.site.login(request)
    give_back_connection()  # a login that waits for its turn must not hold a connection
    if not _turns.acquire(timeout=PATIENCE_S):
        return _refusal(503, BUSY, after_s=int(PATIENCE_S))
    try:
        response = admin.site.login(request)
    finally:
        _turns.release()
    if getattr(request, "axes_locked_out", False):
        give_back_connection()
        time.sleep(settings.REFUSED_LOG_IN_WAIT_S)
        wait = settings.AXES_COOLOFF_TIME
        return _refusal(429, TOO_OFTEN.format(minutes=wait.seconds // 60), after_s=wait.seconds)
    return response


def is_own_password(request: HttpRequest, password: str) -> bool:
    """True if `password` is that of the operator who is logged in. A wrong one counts and is recorded like a failed
    login."""
    return authenticate(request, username=request.user.get_username(), password=password) is not None


def account_of(request: HttpRequest, credentials: dict[str, Any]) -> str:
    """AXES_USERNAME_CALLABLE: the name under which failures are counted. For a name without an account, a keyed hash,
    because the user may have typed the password into the wrong field."""
    name = str(credentials.get("username", "")).replace("\0", "")[:LONGEST_NAME]
    known: dict[str, bool] = vars(request).setdefault("_accounts", {})
    if name not in known:
        known[name] = get_user_model()._default_manager.filter(username=name).exists()
    return name if known[name] else blind_index("unknown account", name)


def network_of(request: HttpRequest) -> str | None:
    """AXES_CLIENT_IP_CALLABLE: the network under which failures are counted. An IPv4 address, the first address of an
    IPv6 network, or None without a connection, as in a test's login."""
    address = client_ip.known_ip(request)
    return client_ip.network_of(address) if address else None


@receiver(user_logged_in)
def _logged_in(sender: object, request: HttpRequest, user: AbstractBaseUser, **_: Any) -> None:
    audit.record(Action.LOGGED_IN, request=audit.source_of(request, user.get_username()))


@receiver(user_logged_out)
def _logged_out(sender: object, request: HttpRequest, user: AbstractBaseUser | None, **_: Any) -> None:
    audit.record(Action.LOGGED_OUT, request=audit.source_of(request, user.get_username() if user else ""))


@receiver(user_login_failed)
def _failed(sender: object, credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    """Record a failed login. A name without an account is not recorded, because it may be a password typed into the
    wrong field. During a lockout only one entry is written, so that attempts cannot fill the table."""
    name = str(credentials.get("username", "")).replace("\0", "")
    who = name if get_user_model()._default_manager.filter(username=name).exists() else ""
    if not getattr(request, "axes_locked_out", False):
        audit.record(Action.LOG_IN_FAILED, request=audit.source_of(request, who))
        return
    address = client_ip.known_ip(request) if request is not None else ""
    since = timezone.now() - settings.AXES_COOLOFF_TIME
    noted = AuditEntry.objects.filter(action=Action.LOCKED_OUT, at__gte=since, who=who, address=address)
    if not noted.exists():
        audit.record(Action.LOCKED_OUT, request=audit.source_of(request, who))


def _refusal(status: int, text: str, *, after_s: int) -> HttpResponse:
    headers = {"Retry-After": str(after_s)}
    return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8", headers=headers)
