"""The operator's page for banks: credentials go in and never come out."""

import re
from datetime import timedelta
from functools import partial

import pytest
from cryptography.fernet import Fernet
from django.contrib.admin import site
from django.core.management import CommandError
from django.test import RequestFactory, override_settings
from django.urls import reverse
from django.utils import timezone

from config.metrics import _gauges
from foundation.encryption import WrongKey, sealed
from foundation.models import AuditEntry
from foundation.redis import redis
from providers import operation, registry
from providers.breaker import Breaker
from providers.certificates import REMOVE, Certificates, Change, note_refused, proxy_names, proxy_secret, refused_at
from providers.errors import LoginRefused, ProviderUnavailable
from providers.models import Provider
from providers.outcomes import Outcome
from tests.backoffice.test_roles import OPERATION, client_of
from tests.certificates import Authority
from tests.factories import ProviderFactory, move_bank
from tests.operators import Browser, bank_form, page_of, printed, says, see
from tests.plans import execute
from tests.privacy import overheard
from tests.providers.samples import CREDENTIALS
from tests.receiver import Receiver

pytestmark = pytest.mark.django_db
LIST = "/admin/providers/provider/"
BANK = next(bank for bank in registry.BANKS if "client_secret" in bank.credentials)


@pytest.fixture
def bank() -> Provider:
    return ProviderFactory(
        name=BANK.name,
        credentials={"client_id": "quem-somos", "client_secret": "muito-secreto"},
        callback_secret="segredo-dos-avisos",
    )


@pytest.fixture
def admin_client(admin_user) -> Browser:
    browser = Browser()
    browser.force_login(admin_user)
    return browser


form = partial(bank_form, BANK.name, portfolio="CLT", timeout_s="20", untried="on")


def save(client, bank, **changes: object) -> None:
    """Saves the bank's page with these changes."""
    assert client.post(page_of(bank), form(**changes)).status_code == 302
    bank.refresh_from_db()


def errors_of(user, **typed: object) -> dict[str, list[str]]:
    """The faults of what is typed, by field. The page says the same, but takes ten times as long."""
    request, bank = RequestFactory().get("/"), Provider.objects.get()
    request.user = user
    made = site.get_model_admin(Provider).get_form(request, bank, change=True)
    with override_settings(BANK_CREDENTIALS_KEYS=()):  # as in a web process
        return made(form(**typed), instance=bank).errors


def test_settings_change_and_blank_credentials_stay(admin_client, bank):
    """The path too, because it is the same origin; and not the name."""
    save(admin_client, bank, circuit="open", base_url="http://127.0.0.1:1/v2/", name="outro")
    assert (bank.name, bank.base_url, bank.portfolio, bank.timeout_s, bank.max_in_flight, bank.circuit) == (
        BANK.name,
        "http://127.0.0.1:1/v2",
        "CLT",
        20,
        64,
        "open",
    )
    assert bank.credentials == {"client_id": "quem-somos", "client_secret": "muito-secreto"}
    assert bank.callback_secret == "segredo-dos-avisos"


def test_a_typed_credential_is_merged_and_what_the_bank_does_not_know_goes(admin_client, bank):
    bank.credentials = {**bank.credentials, "scope": "all"}
    bank.save()
    save(admin_client, bank, credential_client_secret="renovado")
    assert bank.credentials == {"client_id": "quem-somos", "client_secret": "renovado"}


def test_no_credential_is_ever_shown(admin_client, bank):
    renewed = form(credential_client_secret="recém-chegado", new_callback_secret="aviso-renovado")
    secrets = ("quem-somos", "muito-secreto", "recém-chegado", "segredo-dos-avisos", "aviso-renovado")
    see(admin_client, bank, "client_id, client_secret", "guardado", hidden=secrets)
    says(admin_client.post(page_of(bank), renewed, follow=True), hidden=secrets)
    see(admin_client, LIST, hidden=secrets)
    bank.refresh_from_db()
    assert (bank.credentials["client_secret"], bank.callback_secret) == ("recém-chegado", "aviso-renovado")
    [[stored]] = execute("SELECT credentials::text || callback_secret FROM providers_provider")
    assert not any(secret in stored for secret in secrets)
    assert not any(word in str(vars(AuditEntry.objects.latest("pk"))) for word in ("recém", "renovado"))


def test_those_before_two_wrong_ones_come_back(admin_client, bank):
    """Before the fix, the page answered 500: the trail's comparison decrypted credentials in the web process."""
    for wrong in ("errado", "errado-também"):
        save(admin_client, bank, credential_client_secret=wrong)
    assert (bank.credentials["client_secret"], bank.former_credentials["client_secret"]) == (wrong, "muito-secreto")
    says(admin_client.post(page_of(bank, "restore_credentials"), follow=True), "Voltaram as credenciais anteriores.")
    bank.refresh_from_db()
    assert bank.credentials == {"client_id": "quem-somos", "client_secret": "muito-secreto"}
    assert bank.former_credentials == {}
    entry = AuditEntry.objects.get(detail="Voltaram as credenciais anteriores.")
    assert entry.changes == {"credentials": ["[oculto]"] * 2, "former_credentials": ["[oculto]", None]}


def test_each_credential_of_a_bank_has_a_password_field(admin_client, admin_user):
    """Before the fix, an operator typed raw JSON and had to know the names."""
    request = RequestFactory().get("/")
    request.user = admin_user
    for adapter in registry.BANKS:
        assert adapter.credentials.keys() == CREDENTIALS[adapter.name].keys()
        fields = site.get_model_admin(Provider).get_form(request, ProviderFactory(name=adapter.name)).base_fields
        typed = {name: field.label for name, field in fields.items() if name.startswith("credential_")}
        assert typed == {f"credential_{name}": label for name, label in adapter.credentials.items()}
    page = admin_client.get(page_of(Provider.objects.get(name=BANK.name))).text
    assert re.findall(r'<input type="password" name="credential_(\w+)"', page) == list(BANK.credentials)


@pytest.mark.parametrize(
    "sent", ["api.banco.com.br", "ftp://x.com", "https://", "https://u:p@x.com", "https://x.com?a=1"]
)
def test_an_address_must_be_whole(admin_user, bank, sent):
    assert "base_url" in errors_of(admin_user, base_url=sent)


def test_a_bank_without_an_adapter_cannot_be_added(admin_client):
    url = reverse("admin:providers_provider_add")
    assert f'value="{BANK.name}"' in admin_client.get(url).text
    assert "name" in admin_client.post(url, form(name="xpto")).context["adminform"].errors
    assert admin_client.post(url, form(name=BANK.name)).status_code == 302
    assert Provider.objects.get().name == BANK.name
    assert f'value="{BANK.name}"' not in admin_client.get(url).text


def test_the_breaker_of_a_partner_that_is_not_known_is_shown(admin_client, bank):
    """Before the fix, the page ended with an error, because the id of the failing one was none."""
    Breaker(bank.name, "partner-2").record(Outcome.ANSWERED)
    for _ in range(10):
        Breaker(bank.name, "partner-1").record(Outcome.FAILED)
    for page in (LIST, bank):
        see(admin_client, page, "fora para 1 parceiro")


def test_without_redis_the_pages_come_and_say_so(admin_client, bank, freeze_redis):
    with freeze_redis():
        for page in (LIST, bank):
            see(admin_client, page, "desconhecido (Redis não responde)")


def test_the_list_reads_all_banks_by_two_looks_at_redis(admin_client, bank):
    for other in registry.BANKS[1:]:
        ProviderFactory(name=other.name)
        for _ in range(20):
            Breaker(other.name).record(Outcome.ANSWERED)
    with overheard() as heard:
        admin_client.get(LIST)
    assert len([command for command in heard if command.startswith("MGET")]) == 1


def test_the_list_needs_no_key_to_the_credentials(admin_client, bank, settings):
    settings.FIELD_ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    see(admin_client, LIST, BANK.label)


# --- Where the credentials go


ELSEWHERE = "https://outro.banco.com.br"
TYPED = {"credential_client_id": "novo", "credential_client_secret": "outro-segredo"}


def test_a_new_origin_opens_none_of_the_old_credentials(admin_client, admin_user, bank):
    """Before the fix, whoever changed the address had client id, secret and holders' data sent to it."""
    assert list(errors_of(admin_user, base_url=ELSEWHERE, credential_client_id="novo")) == ["credential_client_secret"]
    save(admin_client, bank, base_url=ELSEWHERE, **TYPED)
    assert Provider.objects.get().credentials == {"client_id": "novo", "client_secret": "outro-segredo"}


@pytest.mark.parametrize("forged", ["address", "proxy", "proxy under its old name"])
def test_a_statement_that_forges_address_or_proxy_has_nothing_sent_there(bank, forged):
    """Before the fixes, one UPDATE, for the proxy with a box by the public key, had log-in and holders' data sent."""
    bank.credentials = CREDENTIALS[BANK.name]
    if forged != "address":
        bank.change_way(Change(proxy="http://127.0.0.1:1"))
    bank.save()
    with Receiver() as elsewhere:
        secrets = proxy_secret(elsewhere.root)
        if forged == "proxy under its old name":
            secrets = dict(zip(proxy_names(bank.way_secrets), secrets.values(), strict=True))
        way = {"base_url": elsewhere.root}
        Provider.objects.update(**way if forged == "address" else {"way_secrets": sealed(bank, "way_secrets", secrets)})
        with pytest.raises(LoginRefused):
            operation.client(BANK.name, request_id="r", partner="p").status("N-1")
        assert elsewhere.received == []


def test_other_authorities_open_none_of_the_credentials(bank):
    """Before the fix, own authorities and an own proxy had them sent in the clear, through TLS too."""
    Provider.objects.update(authorities=OURS.pem)
    with pytest.raises(WrongKey):
        dict(Provider.objects.get().credentials)


@pytest.mark.parametrize("new", ["new_proxy", "new_authorities"])
def test_another_way_takes_all_credentials_typed_again(admin_client, admin_user, bank, new):
    certificate = renew(admin_client, bank)
    assert Provider.objects.get().credentials["client_secret"] == "muito-secreto", (
        "a certificate gives nobody the credentials"
    )
    way = {"new_proxy": "http://proxy:3128", "new_authorities": OURS.pem}
    changed = {new: way[new]}
    assert list(errors_of(admin_user, **changed, credential_client_id="novo")) == ["credential_client_secret"]
    save(admin_client, bank, **changed, **TYPED)
    assert bank.credentials == {"client_id": "novo", "client_secret": "outro-segredo"}
    assert (bank.former_credentials, bank.certificate) == ({}, certificate.strip())
    assert set(errors_of(admin_user, **{new: REMOVE})) == set(TYPED)


@pytest.mark.parametrize("url", ["http://api.banco.com.br", "https://10.0.0.8", "https://[::1]", "https://127.0.0.1"])
@pytest.mark.control("API7")
def test_production_takes_https_and_public_addresses_only(admin_user, bank, settings, url):
    """Before the fix, a bank could have any address, our own network's too."""
    settings.BANK_PRIVATE_HOSTS = frozenset({"gateway.interno"})
    assert "BANK_PRIVATE_HOSTS" in errors_of(admin_user, base_url=url, **TYPED)["base_url"][0]
    assert errors_of(admin_user, base_url="http://gateway.interno:8080", **TYPED) == {}


@pytest.mark.control("CMN XI")
def test_the_connection_asks_again_whether_the_address_may_be_called(bank, settings):
    settings.BANK_PRIVATE_HOSTS = frozenset()
    bank.credentials = CREDENTIALS[BANK.name]
    bank.save()
    with Receiver() as elsewhere:
        move_bank(BANK.name, elsewhere.root)
        with pytest.raises(ProviderUnavailable) as failure:
            operation.client(BANK.name, request_id="r", partner="p").status("N-1")
        assert (failure.value.sent, elsewhere.received) == (False, [])


@pytest.mark.control("CMN IX")
def test_the_role_operation_changes_neither_address_nor_secrets(bank):
    """Before the fix, the role could send a bank's credentials wherever it liked."""
    client = client_of(OPERATION)
    sent = form(base_url=ELSEWHERE, **TYPED, new_callback_secret="novo", circuit="open")
    assert client.post(page_of(bank), sent).status_code == 302
    bank.refresh_from_db()
    assert (bank.base_url, bank.circuit) == (f"http://127.0.0.1:1/{BANK.name}", "open")
    assert (bank.credentials["client_id"], bank.callback_secret) == ("quem-somos", "segredo-dos-avisos")
    assert client.get(reverse("admin:providers_provider_add")).status_code == 403
    assert client_of("contas de bancos").post(page_of(bank), sent).status_code == 302
    assert Provider.objects.get().base_url == ELSEWHERE


def store_again(entry: AuditEntry, **changes: object) -> None:
    """Store a copy of the entry with these changes."""
    for name, value in {"pk": None, **changes}.items():
        setattr(entry, name, value)
    entry.save(force_insert=True)


def test_a_new_address_stands_on_the_first_page_for_a_day(admin_client, bank):
    admin_client.post(page_of(bank), form(base_url=ELSEWHERE, **TYPED))
    see(admin_client, "/admin/", f"De http://127.0.0.1:1/{BANK.name} para {ELSEWHERE}, por admin")
    [entry] = AuditEntry.objects.filter(changes__has_key="base_url")
    changes = {"base_url": ["https://antigo", "https://mais-antigo"]}
    store_again(entry, changes=changes, at=timezone.now() - timedelta(hours=25))
    see(admin_client, "/admin/", hidden=["https://mais-antigo"])


# --- The way to the bank


OURS = Authority()


def pair(**options: float) -> dict[str, str]:
    """A new certificate and its key, as they are typed."""
    certificate, begin, key = OURS.issue("partner", **options).partition("-----BEGIN PRIVATE")
    return {"new_certificate": certificate, "new_private_key": begin + key}


def renew(client, bank, **options: float) -> str:
    """Store a new certificate. Returns it."""
    typed = pair(**options)
    assert client.post(page_of(bank), form(**typed)).status_code == 302
    return typed["new_certificate"]


def test_the_way_to_a_bank_is_stored_sealed_and_shown_by_fingerprints(admin_client, bank):
    certificate, key = (typed := pair()).values()
    typed |= {"new_authorities": OURS.pem, **TYPED}
    pages = [admin_client.post(page_of(bank), form(**typed, new_proxy="http://us:palavra@proxy:3128"), follow=True)]
    pages.append(admin_client.get(page_of(bank)))
    pages.append(admin_client.get("/admin/"))
    fingerprint = Certificates(certificate).fingerprint
    assert fingerprint in pages[1].text
    assert "mudança de certificado de cliente, autoridades, proxy, credenciais, por admin em " in pages[2].text
    [entry] = AuditEntry.objects.filter(changes__has_key="new_certificate")
    assert fingerprint in entry.changes["new_certificate"][1]
    assert (entry.changes["new_private_key"][1], entry.changes["new_proxy"][1]) == ("[oculto]", "[oculto]")
    [[stored]] = execute("SELECT way_secrets FROM providers_provider")
    seen = [*(page.text for page in pages), str(entry.changes), stored]
    assert not any(secret in text for text in seen for secret in ("palavra", "PRIVATE", key.splitlines()[1]))
    [way] = Provider.objects.get().connection().ways
    assert (way.authorities, way.proxy) == (OURS.pem.strip(), "http://us:palavra@proxy:3128")
    assert way.identity == f"{certificate.strip()}\n{key.strip()}\n"


def test_a_renewed_certificate_is_a_neutral_notice_and_a_new_address_a_problem(admin_client, bank):
    """Before the fix, a planned renewal was `novo caminho`, in red for a day, with an address to confirm; and two
    within a minute were two equal lines."""
    typed = pair(days=90)
    admin_client.post(page_of(bank), form(**typed))
    entry = AuditEntry.objects.get(changes__has_key="new_certificate")
    store_again(entry, request_id="another")
    page = admin_client.get("/admin/")
    assert page.context["verdict"] == "Tudo bem"
    [notice] = page.context["planned"]
    assert notice.title.startswith(f"{registry.label(BANK.name)}: mudança de certificado de cliente, por admin em ")
    assert "Confirme o endereço" not in page.text
    admin_client.post(page_of(bank), form(base_url=ELSEWHERE, **TYPED, **typed))
    page = admin_client.get("/admin/")
    [moved] = page.context["problems"]
    assert moved.title == f"{registry.label(BANK.name)}: novo endereço"
    assert moved.advice.startswith("Para lá vão as credenciais")
    assert "Confirme o endereço com o banco." in moved.advice


def test_a_renewed_certificate_stands_beside_the_one_before_and_a_hyphen_removes(admin_client, bank):
    former, _, newest = (renew(admin_client, bank).strip() for _ in range(3))
    bank.refresh_from_db()
    assert (bank.certificate, bank.former_certificate) == (newest, former)
    told = [way.identity.split("-----BEGIN PRIVATE")[0].strip() for way in bank.connection().ways]
    assert told == [newest, former]
    admin_client.post(page_of(bank), form(new_certificate="-"))
    bank.refresh_from_db()
    assert (bank.certificate, bank.former_certificate, dict(bank.way_secrets)) == ("", "", {})


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"new_certificate": "xpto", "new_private_key": "xpto"}, "new_certificate"),
        ({**pair(days=-1), "new_private_key": "xpto"}, "new_certificate"),
        ({**pair(), "new_private_key": pair()["new_private_key"]}, "new_private_key"),
        ({"new_certificate": pair()["new_certificate"]}, "new_private_key"),
        ({"new_private_key": pair()["new_private_key"]}, "new_certificate"),
        ({"new_authorities": "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----"}, "new_authorities"),
        ({"new_proxy": "https://proxy:3128"}, "new_proxy"),
        ({"new_proxy": "http://us:palavra@proxy:abc"}, "new_proxy"),
        ({"new_proxy": "http://us:palavra@proxy"}, "new_proxy"),
    ],
)
def test_a_way_that_cannot_work_is_refused_at_its_field(admin_user, bank, typed, field):
    errors = errors_of(admin_user, **typed)
    assert list(errors) == [field]
    assert "palavra" not in str(errors)


def test_a_new_origin_takes_no_certificate_and_no_proxy_with_it(admin_client, admin_user, bank):
    """Before the fix, a stored proxy and a new origin had the web process decrypt secrets: 500."""
    way = pair() | {"new_proxy": "http://proxy:3128"}
    certificate = way["new_certificate"]
    save(admin_client, bank, **way, **TYPED)
    moved = {"base_url": ELSEWHERE, **TYPED}
    assert set(errors_of(admin_user, **moved)) == {"new_certificate", "new_proxy"}
    save(admin_client, bank, **moved, **way | {"new_proxy": "-"})
    [way] = Provider.objects.get().connection().ways
    assert (certificate.strip() in way.identity, way.proxy) == (True, "")


@pytest.mark.parametrize(("days", "is_shown"), [(29, True), (31, False)])
@pytest.mark.control("CMN XII")
def test_a_certificate_that_ends_within_30_days_stands_on_the_first_page_and_in_metrics(
    admin_client, bank, days, is_shown
):
    certificate = renew(admin_client, bank, days=days)
    ends_at = Certificates(certificate).ends_at
    told = f"o certificado de cliente vence em {timezone.localtime(ends_at):%d/%m/%Y} (faltam {days} dias)"
    assert (told in admin_client.get("/admin/").text) is is_shown
    [ends] = [each for each in _gauges.collect() if each.name == "bank_certificate_ends_at_seconds"]
    assert [(sample.labels, sample.value) for sample in ends.samples] == [({"bank": BANK.name}, ends_at.timestamp())]


@pytest.mark.parametrize("days", [5, 60])
def test_whether_the_bank_refused_a_new_certificate_or_has_not_seen_it_stands_on_the_first_page(
    admin_client, bank, days
):
    """Before the fixes, the page told when the new certificate ends, as if it were in use, and did not know whether the
    bank had refused it."""
    former, certificate = (renew(admin_client, bank, days=each) for each in (days, 90))
    ends = [f"{timezone.localtime(Certificates(each).ends_at):%d/%m/%Y}" for each in (former, certificate)]
    words = f"o anterior (vence em {ends[0]} (faltam {days} dias)) segue em uso"
    problems = admin_client.get("/admin/").context["problems"]
    new = f": o banco ainda não aceitou o certificado novo, e não se sabe se o recusou; {words}"
    assert [each.title.endswith(new) for each in problems] == ([True] if days < 30 else [])
    note_refused(bank.name, certificate)
    [problem] = admin_client.get("/admin/").context["problems"]
    now = f"{timezone.localtime(refused_at(bank.name, certificate)):%d/%m %H:%M}"
    assert problem.title.endswith(f": o banco recusou o certificado novo em {now}; {words}")
    assert problem.cause.startswith(f"O novo vence em {ends[1]} (faltam 90 dias).")
    assert refused_at(bank.name, former) is None
    redis().flushdb()  # before the fix, the page then said that the bank had not refused it
    told = [each.title.endswith(new) for each in admin_client.get("/admin/").context["problems"]]
    assert told == ([True] if days < 30 else [])


# --- The same by command


run = partial(printed, "set_bank_connection")


@pytest.fixture
def files(tmp_path) -> list[str]:
    """The options that name files with a new certificate and its key."""
    for name, text in pair().items():
        (tmp_path / name).write_text(text)
    return [f"--certificate={tmp_path / 'new_certificate'}", f"--key={tmp_path / 'new_private_key'}"]


def test_the_command_stores_the_way_and_says_it_by_fingerprints(bank, files, tmp_path):
    (tmp_path / "authorities").write_text(OURS.pem)
    told = run(BANK.name, *files, f"--authorities={tmp_path / 'authorities'}", "--proxy=http://us:palavra@proxy:3128")
    fingerprint = Certificates((tmp_path / "new_certificate").read_text()).fingerprint
    assert fingerprint in str(told["certificate"])
    assert (told["bank"], told["former_certificate"], told["proxy"]) == (BANK.name, "", True)
    [entry] = AuditEntry.objects.filter(object_id=BANK.name)
    assert fingerprint in entry.changes["certificate"][1]
    assert set(entry.changes) == {"certificate", "authorities", "way_secrets", "credentials"}
    assert Provider.objects.get().credentials["client_secret"] == "muito-secreto"
    for text in (str(told), str(entry.changes), entry.detail):
        assert not any(secret in text for secret in ("palavra", "PRIVATE", "BEGIN"))
    [way] = Provider.objects.get().connection().ways
    assert way.proxy == "http://us:palavra@proxy:3128"
    assert run(BANK.name, "--certificate=-", "--authorities=-", "--proxy=-") == {
        "bank": BANK.name,
        "certificate": "",
        "former_certificate": "",
        "authorities": "",
        "proxy": False,
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--certificate=/nowhere"], "Não se lê o arquivo /nowhere."),
        (["--proxy=http://us:palavra@proxy"], "Informe o proxy como http://usuario:senha@host:porta."),
    ],
)
def test_the_command_refuses_in_a_sentence_and_changes_nothing(bank, arguments, words):
    with pytest.raises(CommandError, match=re.escape(words)):
        run(BANK.name, *arguments)
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("option", ["--proxy=http://proxy:3128", "--authorities"])
def test_the_command_leads_no_credentials_elsewhere_where_it_cannot_open_them(bank, option, settings, files, tmp_path):
    """Before the fix, the credentials went through any proxy."""
    settings.BANK_CREDENTIALS_KEYS = ()
    (tmp_path / "ca").write_text(OURS.pem)
    with pytest.raises(CommandError, match="As credenciais guardadas só valem para o caminho de agora"):
        run(BANK.name, option if "=" in option else f"{option}={tmp_path / 'ca'}")
    run(BANK.name, *files)


def test_the_command_names_an_unknown_bank(bank):
    with pytest.raises(CommandError, match="Não há banco xpto"):
        run("xpto", "--proxy=-")
