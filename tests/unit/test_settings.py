"""Which settings a deployment may have; and where scheduled tasks run."""

import base64
import hashlib
import io
import os
import re
import runpy
import sys
from traceback import format_exception
from typing import Any, ClassVar
from unittest.mock import patch

import environ
import pytest
import structlog
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

import config
from config.celery import app
from foundation.later import Leased
from tests.processes import ROOT

# Fixed, because they are part of test names, which must be the same in all workers of a run.
KEY, OTHER_KEY = (base64.urlsafe_b64encode(hashlib.sha256(name).digest()).decode() for name in (b"a", b"b"))
DEVELOPMENT_SECRET = "development-only-key-that-production-refuses"
DEVELOPMENT_KEY = base64.urlsafe_b64encode(hashlib.sha256(DEVELOPMENT_SECRET.encode()).digest()).decode()
GOOD = {
    "ENVIRONMENT": "production",
    "SECRET_KEY": "a-secret-of-this-test-alone-that-is-long-enough/",
    "EVIDENCE_SIGNING_KEY": hashlib.sha256(b"evidence").hexdigest(),
    "FIELD_ENCRYPTION_KEYS": f"{KEY},{OTHER_KEY}",
    "BANK_CREDENTIALS_PUBLIC_KEY": hashlib.sha256(b"a public key").hexdigest(),
    "DATABASE_URL": "postgres://user@db.example.com/name",
    "REDIS_URL": "redis://redis.example.com:6379/0",
    "ALLOWED_HOSTS": "api.example.com, www.example.com",
    "PUBLIC_BASE_URL": "https://api.example.com/",
    "TRUSTED_PROXIES": "10.0.0.0/8, 2001:db8::1",
}
SHOWN = ("FIELD_ENCRYPTION_KEYS", "ALLOWED_HOSTS", "PUBLIC_BASE_URL", "TRUSTED_PROXIES", "SECRET_KEY", "API_KEY_PEPPER")


def read(**variables: str) -> dict[str, Any]:
    """The settings of a process whose environment has only `variables`. Raises ImproperlyConfigured."""
    logs = structlog.get_config()  # which the settings replace, and loggers that were used already would not see it
    try:
        with (
            patch.dict(os.environ, variables, clear=True),
            patch.dict(sys.modules),
            patch.object(config, "environment"),
        ):
            del sys.modules["config.environment"]  # the only module that reads variables
            return runpy.run_path(str(ROOT / "config" / "settings.py"))
    finally:
        structlog.configure(**logs)


def shown(**variables: str) -> list[Any]:
    """The settings SHOWN with these variables."""
    found = read(**variables)
    return [found[name] for name in SHOWN]


def refusal(**variables: str) -> str:
    """Why a process with these variables does not start; empty if it does."""
    try:
        read(**variables)
    except ImproperlyConfigured as error:
        return str(error)
    return ""


def test_a_production_deployment_with_all_set_starts_also_with_a_redis_of_its_own_for_messages() -> None:
    keys, hosts, url, proxies, secret, _ = shown(**GOOD)
    assert keys == [KEY, OTHER_KEY]
    assert (hosts, url) == (["api.example.com", "www.example.com"], "https://api.example.com")
    assert secret == GOOD["SECRET_KEY"]
    assert proxies == ["10.0.0.0/8", "2001:db8::1"]
    own = "redis://:secret@broker.example.com:6379/1"
    assert read(**GOOD, BROKER_URL=own)["CELERY_BROKER_URL"] == own
    assert read(**GOOD, BROKER_URL="")["CELERY_BROKER_URL"] == GOOD["REDIS_URL"]


FORGOTTEN = [
    *((name, "") for name in GOOD if name not in ("ENVIRONMENT", "TRUSTED_PROXIES")),
    ("SECRET_KEY", DEVELOPMENT_SECRET),
    ("FIELD_ENCRYPTION_KEYS", DEVELOPMENT_KEY),
    ("FIELD_ENCRYPTION_KEYS", f"{KEY},{DEVELOPMENT_KEY}"),
    ("FIELD_ENCRYPTION_KEYS", f"{KEY},"),
    ("FIELD_ENCRYPTION_KEYS", "not-a-key"),
    ("SECOND_FACTOR", "ture"),
    ("BACKOFFICE_HOST", "admin.example.com:8443"),
    ("BACKOFFICE_HOST", "https://admin.example.com"),
    ("BACKOFFICE_HOST", "api.example.com"),
    ("ALLOWED_HOSTS", "*"),
    ("ALLOWED_HOSTS", "api.example.com,*"),
    ("PUBLIC_BASE_URL", "http://127.0.0.1:8000/"),
    ("PUBLIC_BASE_URL", "/"),
    ("PUBLIC_BASE_URL", "api.example.com"),
    ("DATABASE_URL", "db.example.com"),
    ("DATABASE_URL", "postgres://user:pass/word@db.example.com/name"),
    ("REDIS_URL", "redis.example.com:6379"),
    ("BROKER_URL", "broker.example.com:6379"),
    ("EVIDENCE_SIGNING_KEY", "not-a-key"),
    ("EVIDENCE_SIGNING_KEY", "a" * 64),
    ("BANK_TIMEOUT_S", "25 s"),
    # Before the fix, production started with each of these:
    ("SECRET_KEY", "x"),
    ("SECRET_KEY", "x" * 64),
    ("API_KEY_PEPPER", "1"),
    ("BLIND_INDEX_KEY", "1"),
    ("FIELD_ENCRYPTION_KEYS", "A" * 43 + "="),
    ("PUBLIC_BASE_URL", "http://api.example.com"),
    ("TRUSTED_PROXIES", "0.0.0.0/0"),
    ("TRUSTED_PROXIES", "10.0.0.1,::/0"),
    ("SMS_GATEWAY_URL", "http://sms.example.com/send"),
    ("SMS_GATEWAY_URL", "https://sms.example.com/send"),  # without SMS_GATEWAY_TOKEN
    ("LOG_LEVEL", "LOUD"),
    ("TRUSTED_PROXIES", "*"),
    ("TRUSTED_PROXIES", "proxy.example.com"),
]


@pytest.mark.control("API8", "CMN X")
def test_a_production_deployment_that_forgot_something_does_not_start() -> None:
    for name, value in FORGOTTEN:
        with pytest.raises(ImproperlyConfigured, match=f"^{name}") as refused:
            read(**{**GOOD, name: value})
        told = "".join(format_exception(refused.value))
        assert KEY not in told
        assert DEVELOPMENT_KEY not in told
        assert not {"pass", "'pass'", "word"} & set(told.split()), "no part of a password is told"


def test_what_is_empty_is_unset() -> None:
    assert shown(**GOOD, API_KEY_PEPPER="") == shown(**GOOD)
    found = shown(SECRET_KEY="", FIELD_ENCRYPTION_KEYS="", ALLOWED_HOSTS="", PUBLIC_BASE_URL="", ENVIRONMENT="")
    assert found[:3] == [[DEVELOPMENT_KEY], ["*"], "http://127.0.0.1:8000"]


def test_every_line_of_the_example_may_be_taken_as_it_is() -> None:
    """Not every reader of such a file accepts a comment after a value; django-environ does not."""

    class Example(environ.Env):
        ENVIRON: ClassVar[dict[str, str]] = {}

    lines = (ROOT / ".env.example").read_text().splitlines()
    Example.read_env(io.StringIO("\n".join(line[1:] for line in lines if re.match("#[A-Z]", line))))
    found = Example.ENVIRON
    assert found.keys() >= GOOD.keys()
    assert {name: value for name, value in found.items() if "#" in value or value != value.strip()} == {}
    assert shown(**found) == shown()


@pytest.mark.parametrize(
    ("kept", "least"),
    {"QUERY": 1, "SUBMISSION": 1, "SESSION": 1, "WEBHOOK": 1, "AUDIT": 180, "EVIDENCE": 1826}.items(),
)
def test_nothing_is_kept_for_less_than_it_is_needed(kept: str, least: int) -> None:
    """The audit trail as long as the database keeps it, evidence as long as a claim needs it."""
    name = f"{kept}_RETENTION_DAYS"
    assert refusal(**{name: f"{least - 1}"}).endswith(f"{name} must be at least {least}")


@pytest.mark.parametrize("kept", ["QUERY", "SUBMISSION", "SESSION"])
def test_rows_outlive_the_events_that_are_found_by_them(kept: str) -> None:
    assert refusal(**{f"{kept}_RETENTION_DAYS": "30"}, WEBHOOK_RETENTION_DAYS="30") == ""
    told = refusal(**{f"{kept}_RETENTION_DAYS": "29"}, WEBHOOK_RETENTION_DAYS="30")
    assert told.endswith("RETENTION_DAYS must not be below WEBHOOK_RETENTION_DAYS")


def test_what_beat_sends_is_a_task_and_stands_in_no_line_with_the_queries() -> None:
    """Also the tasks that the tick sends, because rows are due."""
    app.loader.import_default_modules()
    scheduled = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    by_tick = {rows.task for rows in apps.get_models() if issubclass(rows, Leased)}
    assert scheduled | by_tick <= app.tasks.keys()
    queues = {task: app.amqp.router.route({}, task)["queue"].name for task in scheduled | by_tick}
    assert {task for task in scheduled if queues[task] != "default"} == {"foundation.later.tick"}
    assert "banks" not in queues.values()


def test_what_waited_for_longer_than_its_interval_is_dropped() -> None:
    """Before the fix, each hour without a default worker left one more purge of events to be done."""
    for name, entry in settings.CELERY_BEAT_SCHEDULE.items():
        if isinstance(entry["schedule"], int):
            assert entry["options"] == {"expires": entry["schedule"]}, name


SANDBOX = {"ENVIRONMENT": "sandbox", "PUBLIC_BASE_URL": "https://sandbox.example.com"}


def test_a_sandbox_at_a_public_address_needs_secrets_of_its_own() -> None:
    """Before the fix, it ran with the keys that stand in the code."""
    own = {"SECRET_KEY": GOOD["SECRET_KEY"], "FIELD_ENCRYPTION_KEYS": KEY}
    assert "SECRET_KEY must be set in a sandbox" in refusal(**SANDBOX)
    assert "FIELD_ENCRYPTION_KEYS must be set in a sandbox" in refusal(**SANDBOX, SECRET_KEY=own["SECRET_KEY"])
    assert refusal(**SANDBOX, **own) == ""
    assert refusal(**SANDBOX, ALLOW_DEVELOPMENT_SECRETS="true") == ""
    for local in ("http://127.0.0.1:8000", "http://localhost:8000", "http://10.1.2.3", "http://service.internal"):
        assert refusal(**SANDBOX | {"PUBLIC_BASE_URL": local}) == ""


def test_the_image_is_for_production_unless_told_otherwise() -> None:
    """Before the fix, a container without ENVIRONMENT, or with an empty one, ran as development, with public keys."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    [settings] = [line for line in lines if line.startswith("ENV ")]
    assert "DEFAULT_ENVIRONMENT=production" in settings.split()
    for given in ({}, {"ENVIRONMENT": ""}):
        assert "must be set in production" in refusal(DEFAULT_ENVIRONMENT="production", **given)
    assert refusal(DEFAULT_ENVIRONMENT="production", ENVIRONMENT="development") == ""


def test_the_credentials_public_key_belongs_to_their_key() -> None:
    private, other = (hashlib.sha256(word).hexdigest() for word in (b"one", b"other"))
    without = {name: value for name, value in GOOD.items() if name != "BANK_CREDENTIALS_PUBLIC_KEY"}
    assert refusal(**without, BANK_CREDENTIALS_KEYS=private) == ""
    assert "BANK_CREDENTIALS_PUBLIC_KEY must be set" in refusal(**without)
    assert "BANK_CREDENTIALS_PUBLIC_KEY must be set" in refusal(**without, BANK_CREDENTIALS_KEYS="none")
    assert "does not belong" in refusal(**GOOD, BANK_CREDENTIALS_KEYS=other)
    assert "each must be 32 bytes in hex" in refusal(**without, BANK_CREDENTIALS_KEYS=f"{private},{private}0")
    assert "too weak" in refusal(**without, BANK_CREDENTIALS_KEYS="0" * 64)
