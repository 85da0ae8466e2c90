"""The operator's page for banks: credentials go in and never come out."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from foundation.models import AuditEntry
from providers import operation, registry
from providers.breaker import ALL, Breaker
from providers.errors import LoginRefused, ProviderUnavailable
from providers.models import Provider
from providers.outcomes import Outcome
from tests.factories import ProviderFactory, move_bank
from tests.privacy import overheard
from tests.providers.samples import CREDENTIALS
from tests.receiver import Receiver

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.partners.urls")]
BANK = registry.BANKS[0]


@pytest.fixture
def bank() -> Provider:
    return ProviderFactory(
        name=BANK.name,
        credentials={"client_id": "quem-somos", "client_secret": "muito-secreto"},
        callback_secret="segredo-dos-avisos",
    )


def url_of(bank: Provider) -> str:
    return reverse("admin:providers_provider_change", args=[bank.pk])


def form(**changes: object) -> dict[str, object]:
    return {
        "enabled": "on",
        "base_url": f"http://127.0.0.1:1/{BANK.name}/",
        "portfolio": "CLT",
        "timeout_s": "20",
        "max_in_flight": "64",
        "circuit": "auto",
        "new_credentials": "",
        "new_callback_secret": "",
        "maintenance-TOTAL_FORMS": "0",
        "maintenance-INITIAL_FORMS": "0",
        **changes,
    }


def test_settings_change_and_blank_credentials_stay(admin_client, bank):
    assert admin_client.post(url_of(bank), form(circuit="open")).status_code == 302
    bank.refresh_from_db()
    assert (bank.base_url, bank.portfolio, bank.timeout_s, bank.max_in_flight, bank.circuit) == (
        f"http://127.0.0.1:1/{BANK.name}",
        "CLT",
        20,
        64,
        "open",
    )
    assert bank.credentials == {"client_id": "quem-somos", "client_secret": "muito-secreto"}
    assert bank.callback_secret == "segredo-dos-avisos"


def test_new_credentials_are_merged_and_null_removes(admin_client, bank):
    sent = '{"client_secret": "renovado", "client_id": null, "scope": "all"}'
    assert admin_client.post(url_of(bank), form(new_credentials=sent)).status_code == 302
    bank.refresh_from_db()
    assert bank.credentials == {"client_secret": "renovado", "scope": "all"}


def test_no_credential_is_ever_shown(admin_client, bank):
    sent = '{"client_secret": "recém-chegado"}'
    renewed = form(new_credentials=sent, new_callback_secret="aviso-renovado")
    pages = [admin_client.get(url_of(bank)), admin_client.get(reverse("admin:providers_provider_changelist"))]
    pages.append(admin_client.post(url_of(bank), renewed, follow=True))
    pages.append(admin_client.get(reverse("admin:providers_provider_history", args=[bank.pk])))
    for page in pages:
        text = page.content.decode()
        secrets = ("quem-somos", "muito-secreto", "recém-chegado", "segredo-dos-avisos", "aviso-renovado")
        assert not any(secret in text for secret in secrets)
    assert "client_id, client_secret" in pages[0].content.decode()
    assert "guardado" in pages[0].content.decode()
    assert not any(word in LogEntry.objects.get().change_message for word in ("recém", "renovado"))


def test_a_new_callback_secret_replaces_the_stored_one(admin_client, bank):
    assert admin_client.post(url_of(bank), form(new_callback_secret="outro")).status_code == 302
    bank.refresh_from_db()
    assert bank.callback_secret == "outro"
    with connection.cursor() as cursor:
        cursor.execute("SELECT callback_secret FROM providers_provider")
        assert "outro" not in cursor.fetchone()[0]


@pytest.mark.parametrize("sent", ["{", "[]", '"x"', '{"a": 1}', '{"a": {"b": "c"}}', "[" * 100_000])
def test_unreadable_credentials_are_refused(admin_client, bank, sent):
    response = admin_client.post(url_of(bank), form(new_credentials=sent))
    assert response.status_code == 200
    assert "JSON" in "".join(response.context["adminform"].errors["new_credentials"])
    bank.refresh_from_db()
    assert bank.credentials["client_secret"] == "muito-secreto"


@pytest.mark.parametrize(
    "sent", ["api.banco.com.br", "ftp://x.com", "https://", "https://u:p@x.com", "https://x.com?a=1"]
)
def test_an_address_must_be_whole(admin_client, bank, sent):
    response = admin_client.post(url_of(bank), form(base_url=sent))
    assert "base_url" in response.context["adminform"].errors


def test_a_bank_without_an_adapter_cannot_be_added(admin_client):
    url = reverse("admin:providers_provider_add")
    assert f'value="{BANK.name}"' in admin_client.get(url).content.decode()
    assert "name" in admin_client.post(url, form(name="xpto")).context["adminform"].errors
    assert admin_client.post(url, form(name=BANK.name)).status_code == 302
    assert Provider.objects.get().name == BANK.name
    assert f'value="{BANK.name}"' not in admin_client.get(url).content.decode()


def test_the_name_is_not_changed_later(admin_client, bank):
    assert admin_client.post(url_of(bank), form(name="outro")).status_code == 302
    assert Provider.objects.get().name == BANK.name


OPEN = "fora: falhas seguidas"
UNREAD = "desconhecido (Redis não responde)"


def standing_of(client, bank):
    """The bank's state as the list and its page show it."""
    shown = [client.get(url).content.decode() for url in (reverse("admin:providers_provider_changelist"), url_of(bank))]
    return [
        re.findall(rf">\s*(no ar|desligado|{OPEN}|{re.escape(UNREAD)}|fora do ar[^<;]*)", page)[0] for page in shown
    ]


@pytest.fixture
def untouched_breakers(bank):
    yield
    Breaker(bank.name)._close(ALL)
    Breaker.forget()


def test_the_breaker_is_shown_as_it_stands(admin_client, bank, untouched_breakers):
    assert standing_of(admin_client, bank) == ["no ar"] * 2
    for _ in range(10):
        Breaker(bank.name).record(Outcome.FAILED)
    assert standing_of(admin_client, bank) == [OPEN] * 2


def test_without_redis_the_pages_come_and_say_so(admin_client, bank, freeze_redis):
    with freeze_redis():
        assert standing_of(admin_client, bank) == [UNREAD] * 2


def test_the_list_reads_all_banks_by_two_looks_at_redis(admin_client, bank):
    for other in registry.BANKS[1:]:
        ProviderFactory(name=other.name)
        for _ in range(20):
            Breaker(other.name).record(Outcome.ANSWERED)
    with overheard() as heard:
        admin_client.get(reverse("admin:providers_provider_changelist"))
    assert len([command for command in heard if command.startswith("MGET")]) == 1


def test_the_list_needs_no_key_to_the_credentials(admin_client, bank, settings):
    settings.FIELD_ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    assert BANK.label in admin_client.get(reverse("admin:providers_provider_changelist")).content.decode()


# --- Where the credentials go


ELSEWHERE = "https://outro.banco.com.br"


def test_a_new_origin_opens_none_of_the_old_credentials(admin_client, bank):
    """Before the fix, whoever changed the address had client id, secret and holders' data sent to it."""
    refused = admin_client.post(url_of(bank), form(base_url=ELSEWHERE, new_credentials='{"client_id": "novo"}'))
    [fault] = refused.context["adminform"].errors["new_credentials"]
    assert "client_secret" in fault
    typed = '{"client_id": "novo", "client_secret": "outro-segredo"}'
    assert admin_client.post(url_of(bank), form(base_url=ELSEWHERE, new_credentials=typed)).status_code == 302
    assert Provider.objects.get().credentials == {"client_id": "novo", "client_secret": "outro-segredo"}


def test_a_statement_that_changes_the_address_has_nothing_sent_there(bank):
    """Before the fix, one UPDATE had everything sent to the new address."""
    bank.credentials = CREDENTIALS[BANK.name]
    bank.save()
    with Receiver() as elsewhere:
        Provider.objects.update(base_url=elsewhere.root)
        with pytest.raises(LoginRefused):
            operation.client(BANK.name, request_id="r", partner="p").status("N-1")
        assert elsewhere.received == []


def test_another_path_of_the_same_origin_keeps_the_credentials(admin_client, bank):
    assert admin_client.post(url_of(bank), form(base_url="http://127.0.0.1:1/v2")).status_code == 302
    assert Provider.objects.get().credentials["client_secret"] == "muito-secreto"


@pytest.mark.parametrize("url", ["http://api.banco.com.br", "https://10.0.0.8", "https://[::1]", "https://127.0.0.1"])
def test_production_takes_https_and_public_addresses_only(admin_client, bank, settings, url):
    """Before the fix, a bank could have any address, our own network's too."""
    settings.BANK_PRIVATE_HOSTS = frozenset({"gateway.interno"})
    typed = '{"client_id": "novo", "client_secret": "outro-segredo"}'
    refused = admin_client.post(url_of(bank), form(base_url=url, new_credentials=typed))
    assert "BANK_PRIVATE_HOSTS" in refused.context["adminform"].errors["base_url"][0]
    allowed = form(base_url="http://gateway.interno:8080", new_credentials=typed)
    assert admin_client.post(url_of(bank), allowed).status_code == 302


def test_the_connection_asks_again_whether_the_address_may_be_called(bank, settings):
    settings.BANK_PRIVATE_HOSTS = frozenset()
    bank.credentials = CREDENTIALS[BANK.name]
    bank.save()
    with Receiver() as elsewhere:
        move_bank(BANK.name, elsewhere.root)
        with pytest.raises(ProviderUnavailable) as failure:
            operation.client(BANK.name, request_id="r", partner="p").status("N-1")
        assert (failure.value.sent, elsewhere.received) == (False, [])


def test_the_role_operation_changes_neither_address_nor_secrets(client, bank, django_user_model):
    """Before the fix, the role could send a bank's credentials wherever it liked."""
    called = django_user_model.objects.create_user("operadora", password="x", is_staff=True)
    called.groups.add(Group.objects.get(name="Papel: operação"))
    client.force_login(called)
    typed = '{"client_id": "novo", "client_secret": "outro-segredo"}'
    sent = form(base_url=ELSEWHERE, new_credentials=typed, new_callback_secret="novo", circuit="open")
    assert client.post(url_of(bank), sent).status_code == 302
    bank.refresh_from_db()
    assert (bank.base_url, bank.circuit) == (f"http://127.0.0.1:1/{BANK.name}", "open")
    assert (bank.credentials["client_id"], bank.callback_secret) == ("quem-somos", "segredo-dos-avisos")
    assert client.get(reverse("admin:providers_provider_add")).status_code == 403
    called.groups.set([Group.objects.get(name="Papel: contas de bancos")])
    assert client.post(url_of(bank), sent).status_code == 302
    assert Provider.objects.get().base_url == ELSEWHERE


def test_a_new_address_stands_on_the_first_page_for_a_day(admin_client, bank):
    typed = '{"client_id": "novo", "client_secret": "outro-segredo"}'
    admin_client.post(url_of(bank), form(base_url=ELSEWHERE, new_credentials=typed))
    told = f"De http://127.0.0.1:1/{BANK.name} para {ELSEWHERE}, por admin"
    assert told in admin_client.get("/admin/").content.decode()
    [entry] = AuditEntry.objects.filter(changes__has_key="base_url")
    older = {"action": entry.action, "model": entry.model, "object_id": entry.object_id, "channel": entry.channel}
    changes = {"base_url": ["https://antigo", "https://mais-antigo"]}
    AuditEntry.objects.create(at=timezone.now() - timedelta(hours=25), changes=changes, **older)
    assert "https://mais-antigo" not in admin_client.get("/admin/").content.decode()
