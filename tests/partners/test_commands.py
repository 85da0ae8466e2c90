"""The operator's commands: one JSON object each, and clear refusals that change nothing."""

import os
import re
import subprocess
import sys
import uuid
from datetime import timedelta

import pytest
from django.conf import settings as configured
from django.core.management import CommandError
from django.utils import timezone

from partners.models import Allowance, ApiKey, Partner
from tests.factories import PartnerFactory, ProviderFactory, issue_key, update_encrypted
from tests.operators import printed

pytestmark = pytest.mark.django_db
URL = "https://parceiro.example.com/webhooks"


@pytest.fixture(autouse=True)
def banks():
    for name in ("ipe", "jatoba", "cedro"):
        ProviderFactory(name=name)


def refusal(command: str, *arguments: object) -> str:
    with pytest.raises(CommandError) as caught:
        printed(command, *arguments)
    return str(caught.value)


def test_create_partner_shows_everything_once():
    result = printed("create_partner", "Fintech Ipê", "--providers", "jatoba, ipe,ipe")
    assert list(result) == ["partner_id", "key_id", "api_key", "webhook_secret"]
    partner = Partner.objects.get(pk=result["partner_id"])
    assert (partner.name, partner.status, partner.webhook_url) == ("Fintech Ipê", "active", "")
    assert [bank.name for bank in partner.allowed_banks()] == ["ipe", "jatoba"]
    assert partner.webhook_events == ["lead", "authorization_result", "authorization.completed"]
    assert re.fullmatch(r"cpk_test_[A-Za-z0-9_-]{43}", result["api_key"])
    assert str(ApiKey.find(result["api_key"]).pk) == result["key_id"]
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", result["webhook_secret"])
    assert partner.webhook_secrets() == [result["webhook_secret"]]
    result = printed("create_partner", "P", "--providers", "ipe", "--webhook-url", URL, "--events", "proposal,lead")
    partner = Partner.objects.get(pk=result["partner_id"])
    assert (partner.webhook_url, partner.webhook_events) == (URL, ["proposal", "lead"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["P", "--providers", "ipe,xpto"],
            "Banco desconhecido: xpto. Bancos cadastrados: cedro, ipe, jatoba.",
        ),
        (["P", "--providers", " , "], "Informe ao menos um banco"),
        (["P", "--providers", "ipe", "--events", "leads"], "Evento desconhecido: leads. Eventos: lead, "),
        (["P", "--providers", "ipe", "--webhook-url", "parceiro.com"], "A URL do webhook deve ser completa"),
        ([" ", "--providers", "ipe"], "name: "),
        (["x" * 121, "--providers", "ipe"], "name: "),
        (["P"], "--providers"),
    ],
)
def test_create_partner_refuses_and_leaves_nothing_behind(arguments, told):
    assert told in refusal("create_partner", *arguments)
    assert not Partner.objects.exists()


def test_set_providers_replaces_the_allowlist_and_keeps_the_portfolio_of_what_stays():
    partner = PartnerFactory(providers=["ipe", "cedro"])
    Allowance.objects.filter(partner=partner, provider="cedro").update(portfolio="CLT-ESPECIAL")
    result = printed("set_providers", partner.pk, "--providers", "jatoba,cedro")
    assert result == {"partner_id": str(partner.pk), "providers": ["cedro", "jatoba"]}
    assert [(bank.name, bank.portfolio, bank.enabled) for bank in partner.allowed_banks()] == [
        ("cedro", "CLT-ESPECIAL", True),
        ("jatoba", None, True),
    ]
    assert "xpto" in refusal("set_providers", partner.pk, "--providers", "ipe,xpto")
    assert [bank.name for bank in partner.allowed_banks()] == ["cedro", "jatoba"]


def test_issue_api_key_adds_a_key():
    old, _ = issue_key()
    result = printed("issue_api_key", old.partner_id, "--label", "produção", "--expires-in", 30)
    assert list(result) == ["key_id", "api_key"]
    key = ApiKey.find(result["api_key"])
    assert (str(key.pk), key.partner_id, key.label) == (result["key_id"], old.partner_id, "produção")
    assert timedelta(days=29, hours=23) < key.expires_at - timezone.now() <= timedelta(days=30)
    assert old.is_live(timezone.now())


def test_issue_api_key_refuses_a_useless_validity_and_a_label_that_does_not_fit():
    partner = PartnerFactory()
    for days in ("0", "-1", "x", "1.5", "99999999999999999999", "3651"):
        assert "informe de 1 a 3650 dias" in refusal("issue_api_key", partner.pk, f"--expires-in={days}")
    assert "label: " in refusal("issue_api_key", partner.pk, "--label", "x" * 61)
    assert not ApiKey.objects.exists()


def test_revoke_api_key_twice_keeps_the_first_time():
    key, _ = issue_key()
    first = printed("revoke_api_key", key.pk)
    assert first["key_id"] == str(key.pk)
    assert first["revoked_at"].endswith("Z")
    assert printed("revoke_api_key", key.pk) == first
    key.refresh_from_db()
    assert not key.is_live(timezone.now())


def test_suspend_and_resume():
    partner = PartnerFactory()
    told = {"partner_id": str(partner.pk), "status": "suspended"}
    assert printed("suspend_partner", partner.pk) == told
    assert printed("suspend_partner", partner.pk, "--hold-deliveries") == told | {"deliveries_held": True}
    assert printed("suspend_partner", partner.pk) == told | {"deliveries_held": True}, (
        "to suspend again releases nothing"
    )
    partner.refresh_from_db()
    assert (partner.status, partner.deliveries_held) == ("suspended", True)
    assert printed("resume_partner", partner.pk) == told | {"status": "active"}
    partner.refresh_from_db()
    assert (partner.status, partner.deliveries_held) == ("active", False)


def test_set_webhook_alone_keeps_the_secret():
    partner = PartnerFactory()
    secret = partner.rotate_webhook_secret()
    result = printed("set_webhook", partner.pk, "--url", URL)
    events = partner.webhook_events
    assert result == {"webhook_url": URL, "webhook_events": events, "webhook_secret": None}
    partner.refresh_from_db()
    assert (partner.webhook_url, partner.webhook_secrets()) == (URL, [secret])
    assert printed("set_webhook", partner.pk, "--events", "lead")["webhook_events"] == ["lead"]
    assert printed("set_webhook", partner.pk, "--url", "") == {**result, "webhook_url": "", "webhook_events": ["lead"]}
    assert "Evento desconhecido" in refusal("set_webhook", partner.pk, "--events", "zzz")


def test_a_rotated_secret_overlaps_each_older_one_until_that_ones_end():
    partner = PartnerFactory()
    first, second = partner.rotate_webhook_secret(), partner.rotate_webhook_secret()
    third = printed("set_webhook", partner.pk, "--url", URL, "--rotate-secret")["webhook_secret"]
    partner.refresh_from_db()
    assert partner.webhook_secrets() == [third, second, first]
    (_, until), _ = partner.retiring_secrets()
    assert timedelta(hours=23) < until - timezone.now() <= timedelta(hours=24)
    ends = [[second, until.isoformat()], [first, timezone.now().isoformat()]]
    update_encrypted(Partner.objects.all(), retired_webhook_secrets=ends)
    partner.refresh_from_db()
    assert partner.webhook_secrets() == [third, second]
    partner.rotate_webhook_secret()
    assert [old for old, _ in partner.retired_webhook_secrets] == [third, second], "the first one is forgotten"


NO_ADDRESSES = """
    ftp://x.com https:// https:///x x https://x.com:99999 https://[::1 https://u:p@x.com https://x.com/#a
    javascript:alert(1) https://é.com
"""


def test_set_webhook_refuses_what_is_no_address():
    partner = PartnerFactory(webhook_url=URL)
    for url in (*NO_ADDRESSES.split(), "https://a b.com", "https://x.com/\n", "https://x.com/" + "a" * 500):
        assert refusal("set_webhook", partner.pk, "--url", url).startswith("webhook_url: "), url
    partner.refresh_from_db()
    assert partner.webhook_url == URL


OWN_ADDRESSES = """
    http://x.com https://127.0.0.1/ https://[::1]/ https://10.0.0.1 https://169.254.169.254/ https://localhost:8443
    https://parceiro.example.com:9443/webhooks https://[::ffff:10.0.0.1]/
"""


def test_http_and_private_addresses_only_where_the_deployment_allows_them(settings):
    partner = PartnerFactory()
    for url in OWN_ADDRESSES.split():
        settings.WEBHOOKS_ALLOW_PRIVATE = True
        assert printed("set_webhook", partner.pk, "--url", url)["webhook_url"] == url
        settings.WEBHOOKS_ALLOW_PRIVATE = False
        assert "A URL do webhook" in refusal("set_webhook", partner.pk, "--url", url)
    assert printed("set_webhook", partner.pk, "--url", URL)["webhook_url"] == URL


def test_a_wrong_id_is_told_plainly():
    unknown, keys = uuid.uuid4(), {"revoke_api_key": "chave de API"}
    for command in ("suspend_partner", "resume_partner", *keys, "issue_api_key", "list_events"):
        assert refusal(command, "xpto") == "“xpto” não é um UUID."
        assert refusal(command, unknown) == f"Não há {keys.get(command, 'parceiro')} com o id {unknown}."


def test_a_database_that_does_not_answer_is_told_in_one_line():
    environment = {**os.environ, "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none"}
    done = subprocess.run(
        [sys.executable, "manage.py", "issue_api_key", str(uuid.uuid4())],
        cwd=configured.BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("O banco de dados não responde.")
    assert done.stderr.count("\n") == 1


def test_set_limits_changes_what_is_given_and_prints_all():
    partner = PartnerFactory()
    told = {"partner_id": str(partner.pk), "per_minute": None, "in_flight": 128, "cpfs_per_day": None}
    assert printed("set_limits", partner.pk) == told
    told |= {"per_minute": 600, "cpfs_per_day": 5000}
    assert printed("set_limits", partner.pk, "--per-minute", 600, "--cpfs-per-day", 5000) == told
    told |= {"per_minute": None, "in_flight": None}
    assert printed("set_limits", partner.pk, "--per-minute", 0, "--in-flight", 0) == told
    partner.refresh_from_db()
    assert (partner.rate_limit, partner.in_flight_limit, partner.daily_cpf_limit) == (None, None, 5000)
    for wrong in ("-1", "1.5", "muitas", "99999999999"):
        assert "0: sem limite" in refusal("set_limits", partner.pk, f"--per-minute={wrong}")
