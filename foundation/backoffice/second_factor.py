"""The back office's second factor: a code from the operator's phone, or a recovery code."""

from typing import Any

import django_otp
import segno
from django import forms
from django.contrib.auth import get_user_model
from django.contrib.auth.views import redirect_to_login
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from foundation import audit
from foundation.backoffice.login import is_own_password
from foundation.backoffice.pages import page
from foundation.encryption import WrongKey, context_of, decrypt, encrypt
from foundation.phones import RegisteredPhone, in_groups, new_key

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
            audit.record(audit.Action.SECOND_FACTOR_FAILED, request=request)
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
        audit.record(audit.Action.SECOND_FACTOR_FAILED, request=request)
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
        audit.record(audit.Action.SECOND_FACTOR_SET_UP, request=request)
        target = _pass(request, phone, "").url
    del request.session[_OFFERED]
    return page(request, _TEMPLATE, "Códigos de recuperação", recovery_codes=codes, next=target)


def _pass(request: HttpRequest, phone: RegisteredPhone, detail: str) -> HttpResponseRedirect:
    request.session.cycle_key()
    django_otp.login(request, phone)
    audit.record(audit.Action.SECOND_FACTOR_PASSED, request=request, detail=detail)
    return HttpResponseRedirect(_next(request))


def _next(request: HttpRequest) -> str:
    target = request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
    return target if is_ours and target.startswith("/admin/") else reverse("admin:index")
