"""The back office's log-in: how wrong passwords are limited, and slow down nobody else; and each page's checks."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from foundation.models import AuditEntry
from foundation.tasks import purge_log_ins
from tests.processes import ROOT
from tests.unit.test_settings import GOOD, read

PASSWORD = "a-right-password-of-this-test"
LIMIT = 10


class Counting(MD5PasswordHasher):
    """Records every hash that is computed."""

    made: ClassVar[list[str]] = []

    def encode(self, password: str, salt: str) -> str:  # type: ignore[override]
        self.made.append(salt)
        return super().encode(password, salt)


@pytest.fixture
def hashes(settings: Any) -> Iterator[list[str]]:
    settings.PASSWORD_HASHERS = [f"{__name__}.Counting"]
    settings.REFUSED_LOG_IN_WAIT_S = 0
    Counting.made.clear()
    yield Counting.made
    Counting.made.clear()


@pytest.fixture
def operator(db: None, hashes: list[str]) -> User:
    return User.objects.create_superuser("operadora", password=PASSWORD)


def log_in(account: str, password: str, address: str = "203.0.113.7", **headers: str) -> Any:
    form = {"username": account, "password": password, "next": "/admin/"}
    return Client(REMOTE_ADDR=address).post("/admin/login/", form, headers=headers)


def fail(times: int, account: str = "operadora", address: str = "203.0.113.7") -> list[int]:
    """The statuses of so many attempts. Account and address may contain `{}`, the attempt's number."""
    return [log_in(account.format(n), f"wrong-{n}", address.format(n)).status_code for n in range(times)]


@pytest.mark.control("API2")
def test_after_25_wrong_passwords_the_right_one_does_not_let_in(operator: User, hashes: list[str]) -> None:
    """Before the fix, the 26th attempt was checked like the first."""
    assert fail(25) == [200] * (LIMIT - 1) + [429] * 16
    looked = len(hashes)
    refused = log_in("operadora", PASSWORD)
    assert (refused.status_code, refused["Retry-After"]) == (429, "900")
    assert "15 minutos" in refused.text
    assert len(hashes) == looked, "a refused try costs no hash"


@pytest.mark.control("V6")
def test_an_account_has_its_limit_whatever_address_fails(operator: User) -> None:
    fail(LIMIT, address="198.51.100.{}")
    assert log_in("operadora", PASSWORD, "203.0.113.200").status_code == 429


def test_an_address_has_its_limit_whatever_account_fails(operator: User, hashes: list[str]) -> None:
    fail(LIMIT, account="ninguem-{}")
    looked = len(hashes)
    assert [log_in(name, PASSWORD).status_code for name in ("operadora", "ninguem")] == [429, 429]
    assert len(hashes) == looked
    assert log_in("operadora", PASSWORD, "203.0.113.8").status_code == 302, "others go on"


def test_addresses_of_one_ipv6_network_are_one(operator: User) -> None:
    fail(LIMIT, account="ninguem-{}", address="2001:db8:0:1::1{}")
    assert log_in("operadora", PASSWORD, "2001:db8:0:1:ffff::1").status_code == 429
    assert log_in("operadora", PASSWORD, "2001:db8:0:2::1").status_code == 302


def test_a_header_of_a_stranger_is_no_address(operator: User, settings: Any) -> None:
    for number in range(LIMIT):
        log_in(f"ninguem-{number}", "wrong", **{"X-Forwarded-For": f"198.51.100.{number}"})
    assert log_in("operadora", PASSWORD, **{"X-Forwarded-For": "192.0.2.1"}).status_code == 429
    settings.TRUSTED_PROXIES = ["203.0.113.7"]
    assert log_in("operadora", PASSWORD, **{"X-Forwarded-For": "192.0.2.1"}).status_code == 302


def test_a_log_in_forgets_no_failure(operator: User) -> None:
    """Otherwise the owner of one account could clear the failures of attempts against others."""
    User.objects.create_user("outra", password=PASSWORD, is_staff=True)
    fail(LIMIT - 1)
    assert log_in("outra", PASSWORD).status_code == 302
    assert fail(1) == [429]


def test_a_refused_try_does_not_prolong_the_wait(operator: User, settings: Any) -> None:
    fail(LIMIT + 5)
    AccessAttempt.objects.update(attempt_time=AccessAttempt.objects.get().attempt_time - timedelta(minutes=16))
    assert log_in("operadora", PASSWORD).status_code == 302


def test_what_cannot_be_a_name_is_no_failure_of_the_database(operator: User) -> None:
    assert log_in("a\0b", "x").status_code == 200
    assert log_in("x" * 300, "x").status_code == 200


def test_log_ins_are_noted_with_account_and_address_but_no_password(operator: User) -> None:
    log_in("operadora", "wrong-password")
    log_in("typed-into-the-wrong-field", "x")
    assert log_in("operadora", PASSWORD).url == "/admin/"
    noted = list(AuditEntry.objects.order_by("pk").values("action", "who", "address", "object_name", "detail"))
    assert noted == [
        {"action": action, "who": who, "address": "203.0.113.7", "object_name": "", "detail": ""}
        for action, who in (("log_in_failed", "operadora"), ("log_in_failed", ""), ("logged_in", "operadora"))
    ]


def test_what_is_no_account_is_kept_as_a_keyed_hash_and_not_for_long(operator: User) -> None:
    """Before the fix, a password typed into the wrong field stayed in the table of failures for ever."""
    log_in("a-password-of-somebody", "x")
    log_in("operadora", "x")
    kept = {attempt.username: attempt for attempt in AccessAttempt.objects.all()}
    assert len(kept) == 2
    assert "operadora" in kept, "axes_reset_username finds it"
    assert "a-password-of-somebody" not in " ".join(str(vars(attempt)) for attempt in kept.values())
    AccessAttempt.objects.filter(username="operadora").update(attempt_time=timezone.now() - timedelta(minutes=16))
    purge_log_ins()
    assert "operadora" not in AccessAttempt.objects.values_list("username", flat=True)
    assert AccessAttempt.objects.count() == 1


@pytest.mark.control("CMN III")
def test_a_lock_out_is_noted_once_for_all_its_tries(operator: User) -> None:
    fail(25)
    noted = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(noted) == ["log_in_failed"] * (LIMIT - 1) + ["locked_out"]


def test_while_a_password_is_hashed_the_loop_goes_on() -> None:
    """Before the fix, no greenlet of the process ran while a password was hashed."""
    code = """
from gevent import monkey; monkey.patch_all()
import gevent, django; django.setup()
from django.contrib.auth.hashers import check_password, make_password
from foundation.hashing import OutsideTheLoop
OutsideTheLoop.iterations = 200_000  # enough for many ticks
stored = make_password("one", salt="salt" * 4)
ticks = 0
def tick():
    global ticks
    while True:
        gevent.sleep(0.002); ticks += 1
gevent.spawn(tick)
assert check_password("one", stored) and not check_password("two", stored)
assert stored.startswith("pbkdf2_sha256$")
print(ticks)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert int(done.stdout or 0) > 10, done.stderr


# --- Before each page ---------------------------------------------------------------------------------------------

HOST = "backoffice.example.com"


def let_pass(client: Client, **seconds: int) -> None:
    """Let time pass for the client's session: `idle` since its last page, `age` since its log-in."""
    session = client.session
    for name, key in {"idle": "seen_at", "age": "began_at"}.items():
        session[key] -= seconds.get(name, 0)
    session.save()


def is_in(client: Client) -> bool:
    return bool(client.get("/admin/").status_code == 200)


@pytest.mark.control("V7")
def test_a_session_ends_after_30_idle_minutes(admin_client: Client) -> None:
    """Before the fix, it lasted for 14 days."""
    let_pass(admin_client, idle=29 * 60)
    assert is_in(admin_client), "and this page was asked for now:"
    let_pass(admin_client, idle=29 * 60)
    assert is_in(admin_client)
    let_pass(admin_client, idle=31 * 60)
    assert not is_in(admin_client)
    assert not Session.objects.filter(pk=admin_client.session.session_key).exists()


def test_a_session_ends_12_hours_after_its_log_in(admin_client: Client) -> None:
    let_pass(admin_client, age=12 * 3600 - 60)
    assert is_in(admin_client)
    let_pass(admin_client, age=120)
    assert not is_in(admin_client)


def test_a_session_that_does_not_know_its_begin_is_over(admin_client: Client) -> None:
    session = admin_client.session
    del session["began_at"]
    session.save()
    assert not is_in(admin_client)


@pytest.mark.parametrize("path", ["/admin/", "/admin/login/", "/admin/auth/user/add/", "/docs/"])
@pytest.mark.control("V3")
def test_a_page_may_run_no_script_but_its_own_files(admin_client: Client, path: str) -> None:
    page = admin_client.get(path, follow=True)
    policy = dict(part.split(" ", 1) for part in page["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "unsafe-inline" not in policy["script-src"]
    assert "http" not in page["Content-Security-Policy"]
    assert "<script>" not in page.text


@pytest.mark.control("CMN XI")
def test_on_a_host_of_its_own_it_is_nowhere_else(admin_client: Client, settings: Any) -> None:
    settings.BACKOFFICE_HOST, settings.ALLOWED_HOSTS = HOST, [HOST, "api.example.com"]

    def ask(path: str, host: str) -> int:
        return admin_client.get(path, headers={"Host": host}).status_code

    assert [ask("/admin/", host) for host in (HOST, f"{HOST}:8443", "api.example.com")] == [200, 200, 404]
    for path in ("/admin/login/", "/admin/partners/partner/"):
        assert ask(path, "api.example.com") == 404
    for path, status in {"/schema/": 200, "/docs/": 200}.items():
        assert (ask(path, HOST), ask(path, "api.example.com")) == (404, status)
    settings.ALLOWED_HOSTS = ["*"]
    for same in (HOST.upper(), f"{HOST}.", f"{HOST.title()}.:8443", f"{HOST}.."):
        assert (ask("/admin/", same), ask("/schema/", same)) == (200, 404), "before the fix, the API answered there"


def test_production_names_its_cookies_for_one_host_and_limits_its_sessions() -> None:
    names = ("SESSION_COOKIE_NAME", "CSRF_COOKIE_NAME", "SESSION_IDLE_S", "SESSION_COOKIE_AGE", "ALLOWED_HOSTS")
    found = read(**GOOD, BACKOFFICE_HOST=HOST)
    session, csrf, idle, age, hosts = (found[name] for name in names)
    assert (session, csrf, idle, age) == ("__Host-session", "__Host-csrf", 1800, 43200)
    assert hosts == ["api.example.com", "www.example.com", HOST]
