"""The sandbox seed: complete at once, harmless to repeat, impossible in production."""

import io
import json

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from partners.models import SANDBOX_KEY, ApiKey, Partner, WebhookEvent
from providers import registry
from providers.models import Provider
from providers.words import data_of
from simulator.front import prepare

pytestmark = pytest.mark.django_db
BANKS = registry.names()


def seed() -> str:
    out = io.StringIO()
    call_command("seed_sandbox", stdout=out)
    return out.getvalue()


@pytest.mark.urls("tests.partners.urls")
def test_an_empty_database_becomes_a_sandbox(settings, client):
    settings.SIMULATOR_URL = "http://127.0.0.1:8100"
    said = seed()
    assert list(Provider.objects.values_list("name", "base_url", "enabled")) == [
        (name, f"http://127.0.0.1:8100/{name}", True) for name in BANKS
    ]
    calling_back = {bank.name for bank in registry.BANKS if bank.calls_back}
    assert calling_back >= {"canela", "imbuia"}
    assert set(Provider.objects.exclude(callback_secret=None).values_list("name", flat=True)) == calling_back
    partner = Partner.objects.get()
    assert (partner.name, partner.webhook_url) == ("Parceiro Sandbox", "")
    assert partner.webhook_events == WebhookEvent.values
    assert [bank.name for bank in partner.allowed_banks()] == BANKS
    [secret] = partner.webhook_secrets()
    assert secret not in said
    assert "whsec_" not in said
    assert f"manage.py set_webhook {partner.pk} --url URL --rotate-secret" in said
    assert SANDBOX_KEY in said
    answer = client.get("/partners/v1/probe", headers={"X-Partner-Api-Key": SANDBOX_KEY})
    assert answer.json()["partner"] == str(partner.pk)
    signed_in = client.post("/admin/login/", {"username": "admin", "password": "admin", "next": "/admin/"})
    assert signed_in.status_code == 302


def state():
    """What operators may have changed."""
    partner, key, user = Partner.objects.get(), ApiKey.objects.get(), User.objects.get()
    banks = Provider.objects.order_by("name")
    return {
        "partner": (partner.pk, partner.name, partner.webhook_url, partner.status, partner.webhook_secrets()),
        "access": (key.revoked_at, user.password),
        "banks": [(each.enabled, each.timeout_s, dict(each.credentials), each.callback_secret) for each in banks],
    }


def test_a_second_run_keeps_what_operators_changed_and_follows_the_simulator(settings):
    """A bank that is new in the sandbox joins, and a bank that lacks credentials gets them."""
    seed()
    partner, operator = Partner.objects.get(), User.objects.get()
    partner.name, partner.webhook_url = "Renomeado", "http://127.0.0.1:9/w"
    partner.save()
    partner.suspend()
    partner.allow_only(["ipe"])
    ApiKey.objects.get().revoke()
    operator.set_password("uma senha muito melhor")
    operator.save()
    Provider.objects.filter(name="ipe").update(enabled=False, timeout_s=3)
    cedro, imbuia, canela = (Provider.objects.get(name=name) for name in ("cedro", "imbuia", "canela"))
    cedro.credentials = {**cedro.credentials, "password": "trocada"}
    imbuia.callback_secret = "trocado"
    cedro.save(), imbuia.save()
    before = state()
    canela.credentials, canela.callback_secret = {}, None
    canela.save()
    Provider.objects.filter(name="jatoba").delete()
    assert state() != before

    settings.SIMULATOR_URL = "http://simulator:9000"
    assert "whsec_" not in seed()
    assert state() == before
    assert [bank.name for bank in Partner.objects.get().allowed_banks()] == ["ipe", "jatoba"]
    assert Provider.objects.get(name="ipe").base_url == "http://simulator:9000/ipe"


def test_production_refuses_and_stays_empty(settings):
    settings.PRODUCTION = True
    with pytest.raises(CommandError, match="produção"):
        seed()
    assert not Partner.objects.exists()
    assert not User.objects.exists()


def test_a_sandbox_that_others_reach_has_no_user_whose_password_everybody_knows(settings):
    """Before the fix, `admin` / `admin` opened every sandbox, even a public one."""
    seed()
    settings.DEVELOPMENT_SECRETS_ALLOWED = False
    assert "createsuperuser" in seed()
    assert not User.objects.get().has_usable_password()
    User.objects.all().delete()
    seed()
    assert not User.objects.exists()
    User.objects.create_superuser("admin", password="a-password-of-its-own")
    seed()
    assert User.objects.get().check_password("a-password-of-its-own")


def test_the_banks_of_a_front_that_wants_our_certificate_are_reached_through_it(settings, tmp_path):
    """Before the fix, no bank of `make run` demanded a certificate or was reached through a proxy."""
    settings.SIMULATOR_URL = "http://127.0.0.1:8100"
    seed()
    prepare(tmp_path / "front")
    settings.SIMULATOR_FRONT_DIR = str(tmp_path / "front")
    seed()
    known = json.loads((tmp_path / "front" / "front.json").read_text())
    fronted = {name for name in registry.names() if data_of(name).sandbox.get("has_front")}
    assert {each.name for each in Provider.objects.exclude(certificate="")} == fronted
    bank = Provider.objects.get(name=min(fronted))
    gateway = f"https://127.0.0.1:{known['gateway_port']}"
    assert bank.base_url == f"{gateway}/{bank.name}"
    [way] = bank.connection().ways
    assert way.proxy == f"http://{known['user']}@127.0.0.1:{known['proxy_port']}"
    seed()
    prepare(tmp_path / "front")
    assert Provider.objects.get(pk=bank.pk).updated_at == bank.updated_at, "a second start changes nothing"
    settings.SIMULATOR_FRONT_DIR = ""
    seed()
    plain = Provider.objects.get(pk=bank.pk)
    assert (plain.certificate, plain.base_url) == ("", f"http://127.0.0.1:8100/{bank.name}")
    assert dict(plain.credentials) == dict(bank.credentials)
    assert [each.proxy for each in plain.connection().ways] == [""]


def test_a_front_in_whose_folder_a_file_is_missing_is_made_anew(tmp_path):
    prepare(tmp_path / "front")
    first = (tmp_path / "front" / "certificate.pem").read_text()
    prepare(tmp_path / "front")
    assert (tmp_path / "front" / "certificate.pem").read_text() == first
    (tmp_path / "front" / "front.json").unlink()
    prepare(tmp_path / "front")
    assert (tmp_path / "front" / "certificate.pem").read_text() != first
    assert (tmp_path / "front").stat().st_mode & 0o77 == 0
