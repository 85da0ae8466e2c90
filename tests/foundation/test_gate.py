"""The checks before every page of the back office."""

from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from tests.unit.test_settings import GOOD, read, refusal

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
    assert "<script>" not in page.content.decode()


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
    assert ask("/health/live", HOST) == ask("/health/live", "api.example.com") == 200


def test_production_names_its_cookies_for_one_host_and_limits_its_sessions() -> None:
    names = ("SESSION_COOKIE_NAME", "CSRF_COOKIE_NAME", "SESSION_IDLE_S", "SESSION_COOKIE_AGE", "ALLOWED_HOSTS")
    found = read(**GOOD, BACKOFFICE_HOST=HOST)
    session, csrf, idle, age, hosts = (found[name] for name in names)
    assert (session, csrf, idle, age) == ("__Host-session", "__Host-csrf", 1800, 43200)
    assert hosts == ["api.example.com", "www.example.com", HOST]
    assert "SESSION_IDLE_MINUTES must not be above 30" in refusal(**GOOD, SESSION_IDLE_MINUTES="31")
    assert "SESSION_HOURS must not be above 12" in refusal(**GOOD, SESSION_HOURS="13")
