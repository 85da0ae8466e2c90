"""The second factor of operators."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django_otp.oath import totp
from django_otp.plugins.otp_totp.models import TOTPDevice

from foundation.models import AuditEntry
from tests.test_settings import GOOD, read_one

PAGE = "/admin/second-factor/"


@pytest.fixture
def operator(db: None, settings: Any) -> Client:
    """An operator who has given the right password."""
    settings.SECOND_FACTOR = True
    client = Client()
    client.force_login(User.objects.create_superuser("operadora"))
    return client


def code(device: TOTPDevice | None = None, shift: int = 0) -> str:
    """The code that the phone shows, `shift` steps of 30 s from now."""
    device = device or TOTPDevice.objects.get()
    return f"{totp(device.bin_key, t0=-30 * shift):06d}"


def give(client: Client, digits: str, then: str = "/admin/partners/partner/") -> Any:
    return client.post(f"{PAGE}?next={then}", {"code": digits})


def let_pass() -> None:
    """Let the time pass for which a used or a wrong code blocks the next."""
    TOTPDevice.objects.update(last_t=-1, throttling_failure_count=0, throttling_failure_timestamp=None)


def test_no_page_opens_by_the_password_alone(operator: Client) -> None:
    for path in ("/admin/", "/admin/partners/partner/", "/admin/password_change/"):
        assert operator.get(path).url == f"{PAGE}?next={path.replace('/', '%2F')}"
    assert operator.post("/admin/partners/partner/add/", {}).status_code == 302


def test_the_first_time_shows_a_key_and_its_code_opens(operator: Client) -> None:
    page = operator.get(PAGE).content.decode()
    assert "data:image/svg+xml" in page
    assert operator.get(PAGE).content.decode().count("Código QR") == 1, "the same key, until its code came"
    assert give(operator, "000000").status_code == 200
    let_pass()
    assert give(operator, code()).url == "/admin/partners/partner/"
    assert operator.get("/admin/").status_code == 200
    assert "Código QR" not in operator.get(PAGE).content.decode(), "the key is not shown again"


def test_another_session_needs_a_code_of_its_own_and_none_counts_twice(operator: Client) -> None:
    operator.get(PAGE)
    used = code()
    give(operator, used)
    other = Client()
    other.force_login(User.objects.get())
    assert other.get("/admin/").status_code == 302
    assert give(other, used).status_code == 200, "a code counts once"
    let_pass()
    assert give(other, code()).status_code == 302
    assert other.get("/admin/").status_code == 200


def test_wrong_codes_hold_back_the_right_one(operator: Client) -> None:
    operator.get(PAGE)
    for wrong in ("000000", "12345", "1234567", "abcdef", "1\0"):
        assert give(operator, wrong).status_code == 200
    assert give(operator, code()).status_code == 200
    failed = AuditEntry.objects.filter(action="second_factor_failed")
    assert {entry.who for entry in failed} == {"operadora"}
    assert time.time() - TOTPDevice.objects.get().throttling_failure_timestamp.timestamp() < 60


def test_it_leads_to_no_other_site(operator: Client) -> None:
    operator.get(PAGE)
    assert give(operator, code(), then="https://evil.example/admin/").url == "/admin/"


def test_who_is_not_logged_in_is_led_to_the_log_in(db: None, settings: Any) -> None:
    settings.SECOND_FACTOR = True
    assert Client().get(PAGE).url.startswith("/admin/login/")


def test_a_lost_phone_is_taken_away_by_command(operator: Client) -> None:
    operator.get(PAGE)
    give(operator, code())
    out = io.StringIO()
    call_command("reset_second_factor", "operadora", stdout=out)
    assert out.getvalue() == '{"account": "operadora", "removed": 1}\n'
    assert operator.get("/admin/").status_code == 302, "open sessions too"
    with pytest.raises(CommandError):
        call_command("reset_second_factor", "ninguem")


def test_nobody_reads_the_keys_in_the_back_office(operator: Client) -> None:
    operator.get(PAGE)
    give(operator, code())
    assert operator.get("/admin/otp_totp/totpdevice/").status_code == 404


def test_production_requires_it_unless_a_setting_says_otherwise() -> None:
    assert read_one("SECOND_FACTOR", **GOOD) is True
    assert read_one("SECOND_FACTOR", **GOOD, SECOND_FACTOR="false") is False
    assert read_one("SECOND_FACTOR") is False
