"""The back office's login: limits on failures, on the processor time for passwords, and its audit entries. After the
password the second factor: a code from the operator's phone, or a recovery code.

django-axes counts the failures (docs/decisions/0080-log-in.md). Its backend is the first one, so that a login refused
for earlier failures costs no password hash.
"""

import threading
import time
from typing import Any

import django_otp
import segno
from django import forms
from django.conf import settings
from django.contrib import admin
from django.contrib.auth import authenticate, get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.contrib.auth.views import redirect_to_login
from django.db import transaction
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from foundation import audit, client_ip
from foundation.audit import Action
from foundation.backoffice.pages import page
from foundation.database import give_back_connection
from foundation.encryption import WrongKey, blind_index, context_of, decrypt, encrypt
from foundation.models import AuditEntry, RegisteredPhone, in_groups, new_key

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
    """True if `password` is that of the logged-in operator. A wrong one counts like a failed login."""
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


# --- The second factor ----------------------------------------------------------------------------------------

_TEMPLATE = "backoffice/second_factor.html"
WRONG = "Código inválido. Depois de um código errado, espere alguns segundos antes de tentar de novo."
WRONG_PASSWORD = "Senha incorreta."  # noqa: S105 - a message
#: The session's entry with the sealed key that the page shows until a code confirms it.
_OFFERED = "offered_key"


class CodeForm(forms.Form):
    """The code that the operator types. Its form is not checked: whatever is wrong has to count as wrong."""

    code = forms.CharField(
        label="Código",
        required=False,
        strip=True,
        widget=UnfoldAdminTextInputWidget(
            attrs={"autocomplete": "one-time-code", "maxlength": 24, "autofocus": True, "spellcheck": "false"}
        ),
    )


class RegistrationForm(CodeForm):
    """The first code of a phone, and the password again: an open session alone must not register a phone."""

    password = forms.CharField(
        label="Sua senha",
        strip=False,
        required=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "current-password"}),
    )
    field_order = ("password", "code")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["code"].widget.attrs.pop("autofocus")  # the password comes first


@never_cache
@csrf_protect
def second_factor(request: HttpRequest) -> HttpResponse:
    """The page that asks for the code. If the operator has no phone yet, or has passed and wants to register another,
    the page shows a key instead."""
    if not request.user.is_authenticated:
        return redirect_to_login(_next(request), "/admin/login/")
    has_passed = request.user.is_verified()  # type: ignore[attr-defined]  # set by django-otp
    if has_passed or not RegisteredPhone.objects.filter(user_id=request.user.pk).exists():
        return _registration(request)
    form = CodeForm(request.POST or None)
    if request.method == "POST":
        with transaction.atomic():
            phone = RegisteredPhone.objects.select_for_update().get(user_id=request.user.pk)
            left = len(phone.recovery_digests)
            if phone.verify_token(request.POST.get("code", "").strip()):
                used = left - len(phone.recovery_digests)
                return _pass(request, phone, f"Código de recuperação; restam {left - used}." if used else "")
            audit.record(Action.SECOND_FACTOR_FAILED, request=request)
        form.is_valid()
        form.add_error("code", WRONG)
    return page(request, _TEMPLATE, "Segundo fator", form=form)


def _registration(request: HttpRequest) -> HttpResponse:
    """Shows a new key at each visit. A code of that key, with the password, registers the phone, replaces an earlier
    one, and shows the recovery codes once."""
    form = RegistrationForm(request.POST or None)
    key = _offered_key(request) if request.method == "POST" else None
    if key is not None and form.is_valid():
        phone = RegisteredPhone(user_id=request.user.pk, name="telefone", key=key)
        if not is_own_password(request, form.cleaned_data["password"]):
            form.add_error("password", WRONG_PASSWORD)
        elif not phone.accepts(form.cleaned_data["code"]):
            form.add_error("code", WRONG)
        else:
            return _register(request, phone)
        audit.record(Action.SECOND_FACTOR_FAILED, request=request)
    if key is None:
        key = new_key()
        request.session[_OFFERED] = encrypt(key, _context_of(request))
    address = RegisteredPhone(user_id=request.user.pk, key=key).address(request.user.get_username())
    image = segno.make(address).svg_data_uri(scale=4, light="white")
    return page(request, _TEMPLATE, "Registrar um telefone", form=form, key=in_groups(key), image=image)


def _offered_key(request: HttpRequest) -> str | None:
    try:
        return decrypt(request.session.get(_OFFERED, ""), _context_of(request))
    except WrongKey:
        return None


def _context_of(request: HttpRequest) -> bytes:
    return context_of("second factor", _OFFERED, request.user.pk)


def _register(request: HttpRequest, phone: RegisteredPhone) -> HttpResponse:
    codes = phone.issue_recovery_codes()
    with transaction.atomic():
        get_user_model()._default_manager.select_for_update().get(pk=phone.user_id)
        earlier = RegisteredPhone.objects.filter(user_id=phone.user_id)
        if earlier.exists() and not request.user.is_verified():  # type: ignore[union-attr]
            return HttpResponseRedirect(request.get_full_path())  # another session has registered a phone meanwhile
        earlier.delete()
        phone.save()
        audit.record(Action.SECOND_FACTOR_SET_UP, request=request)
        target = _pass(request, phone, "").url
    del request.session[_OFFERED]
    return page(request, _TEMPLATE, "Códigos de recuperação", recovery_codes=codes, next=target)


def _pass(request: HttpRequest, phone: RegisteredPhone, detail: str) -> HttpResponseRedirect:
    request.session.cycle_key()
    django_otp.login(request, phone)
    audit.record(Action.SECOND_FACTOR_PASSED, request=request, detail=detail)
    return HttpResponseRedirect(_next(request))


def _next(request: HttpRequest) -> str:
    target = request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
    return target if is_ours and target.startswith("/admin/") else reverse("admin:index")
