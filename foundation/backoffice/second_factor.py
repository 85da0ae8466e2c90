"""The back office's second factor: a code from the operator's phone (TOTP, RFC 6238), checked by django-otp."""

from __future__ import annotations

from typing import Any

import django_otp
import segno
from django import forms
from django.contrib import admin
from django.contrib.auth.views import redirect_to_login
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django_otp.plugins.otp_totp.models import TOTPDevice
from unfold.widgets import UnfoldAdminTextInputWidget

from foundation import audit

WRONG = "Código inválido. Depois de um código errado, espere alguns segundos antes de tentar de novo."


class CodeForm(forms.Form):
    """The six digits that the phone shows."""

    code = forms.RegexField(
        r"^[0-9]{6}$",
        label="Código de 6 dígitos",
        error_messages={"invalid": WRONG},
        widget=UnfoldAdminTextInputWidget(
            attrs={"autocomplete": "one-time-code", "inputmode": "numeric", "maxlength": 6, "autofocus": True}
        ),
    )


@never_cache
@csrf_protect
def second_factor(request: HttpRequest) -> HttpResponse:
    """The page that asks for the code. At an operator's first login the page also shows the key for the phone.
    `manage.py reset_second_factor NAME` lets an operator who lost the phone start again."""
    if not request.user.is_authenticated:
        return redirect_to_login(_next(request), "/admin/login/")
    with transaction.atomic():
        device = _device(request)
        form = CodeForm(request.POST if request.method == "POST" else None)
        if form.is_valid() and device.verify_token(form.cleaned_data["code"]):
            return _passed(request, device)
        if request.method == "POST":
            audit.record(audit.Action.SECOND_FACTOR_FAILED, request=request)
            if not form.errors:
                form.add_error("code", WRONG)
    return TemplateResponse(request, "backoffice/second_factor.html", _context(request, device, form))


def _device(request: HttpRequest) -> TOTPDevice:
    """The operator's device, locked until the end of the transaction. A new device is confirmed by its first code."""
    devices = TOTPDevice.objects.select_for_update().filter(user_id=request.user.pk)
    registered = devices.order_by("-confirmed", "pk").first()
    device: TOTPDevice = registered or TOTPDevice.objects.create(
        user_id=request.user.pk, name="telefone", confirmed=False
    )
    return device


def _passed(request: HttpRequest, device: TOTPDevice) -> HttpResponse:
    if not device.confirmed:
        device.confirmed = True
        device.save(update_fields=["confirmed"])
        audit.record(audit.Action.SECOND_FACTOR_SET_UP, request=request)
    request.session.cycle_key()
    django_otp.login(request, device)
    audit.record(audit.Action.SECOND_FACTOR_PASSED, request=request)
    return HttpResponseRedirect(_next(request))


def _next(request: HttpRequest) -> str:
    target = request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
    return target if is_ours and target.startswith("/admin/") else reverse("admin:index")


def _context(request: HttpRequest, device: TOTPDevice, form: CodeForm) -> dict[str, Any]:
    setup = {}
    if not device.confirmed:
        address = device.config_url
        key = address.partition("secret=")[2].partition("&")[0]
        setup = {"key": " ".join(key[start : start + 4] for start in range(0, len(key), 4))}
        setup["image"] = segno.make(address).svg_data_uri(scale=4, light="white")
    return {**admin.site.each_context(request), "title": "Segundo fator", "form": form, **setup}
