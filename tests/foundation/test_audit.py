"""The audit trail has one permanent entry for each security event and each change by an operator or a command."""

import importlib
import pkgutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from structlog.testing import capture_logs

from foundation import audit
from foundation.audit import Action, AuditedCommand
from foundation.encryption import blind_index
from foundation.models import AuditEntry, Channel
from foundation.tasks import purge_audit
from manage import FOREIGN, CommandLine
from partners.models import Partner
from tests.client import FULL_FLOW
from tests.factories import PartnerFactory, ProviderFactory, issue_key
from tests.operators import operator_with, page_of, printed, save, see
from tests.plans import execute
from tests.processes import ROOT

ADDRESS = "203.0.113.7"


@pytest.fixture
def operator(db: None) -> Client:
    """The back office as a superuser's browser sees it."""
    client = Client(REMOTE_ADDR=ADDRESS)
    client.force_login(User.objects.create_superuser("operadora", password="a-right-password"))
    return client


def entries(**wanted: Any) -> list[AuditEntry]:
    """The trail, oldest first, log-ins left out unless asked for."""
    found = AuditEntry.objects.filter(**wanted).order_by("pk")
    return list(found if wanted else found.exclude(action=Action.LOGGED_IN))


# --- One place for all pages ----------------------------------------------------------------------------------


def test_a_banks_change_tells_old_and_new_but_no_secret(operator: Client) -> None:
    """Before the fix, a bank's history said which fields had changed, but not the old and new values."""
    bank = ProviderFactory(name="ipe", base_url="https://old.example", credentials={"client_id": "c"})
    changes = {"base_url": "https://new.example", "credential_client_id": "s3cr3t-of-ipe", "untried": "on"}
    assert save(operator, bank, changes, **{"X-Request-Id": "caller-chose-it"}).status_code == 302
    [entry] = entries()
    assert (entry.who, entry.channel, entry.address, entry.action) == ("operadora", "back_office", ADDRESS, "changed")
    assert (entry.model, entry.object_id, entry.object_name) == ("providers.provider", "ipe", "ipe")
    assert entry.changes == {
        "base_url": ["https://old.example", "https://new.example"],
        "credential_client_id": [None, audit.HIDDEN],
    }
    assert len(entry.request_id) == 32, "our own id, whatever a caller chose"
    assert timezone.now() - entry.at < timedelta(minutes=1)


def test_a_form_that_changes_nothing_leaves_nothing(operator: Client) -> None:
    assert save(operator, ProviderFactory(name="ipe", base_url="https://old.example"), {}).status_code == 302
    assert entries() == []


def test_banks_of_a_contract_are_told_one_by_one(operator: Client) -> None:
    partner = PartnerFactory(providers=["ipe", "cedro"])
    ProviderFactory(name="canela")
    changes = {
        "allowances-TOTAL_FORMS": "3",
        "allowances-0-DELETE": "on",
        "allowances-1-portfolio": "ouro",
        "allowances-2-partner": partner.pk,
        "allowances-2-provider": "canela",
    }
    assert save(operator, partner, changes).status_code == 302
    [entry] = entries()
    assert {name: pair for name, pair in entry.changes.items() if name.startswith("allowance")} == {
        "allowance ipe: portfolio": [None, "ouro"],
        "allowance cedro: provider": ["cedro", None],
        "allowance canela: provider": [None, "canela"],
    }
    gone = "banco permitido {}: banco (retirado)".format
    see(operator, reverse("admin:foundation_auditentry_changelist"), gone("cedro"), hidden=[gone("canela")])


def test_an_operators_rights_are_told_and_his_data_is_hidden(operator: Client) -> None:
    user = User.objects.create_user("outra", email="outra@example.com", first_name="Maria")
    group = Group.objects.create(name="Mesa")
    sent = {"is_staff": "on", "groups": [group.pk], "email": "x@example.com", "first_name": "Ana"}
    assert save(operator, user, sent).status_code == 302
    [entry] = entries()
    assert entry.changes["groups"] == [None, ["Mesa"]]
    assert entry.changes["is_staff"] == [False, True]
    assert entry.changes["email"] == entry.changes["first_name"] == [audit.HIDDEN, audit.HIDDEN]


def test_a_password_is_told_as_changed(operator: Client) -> None:
    user = User.objects.create_user("outra")
    sent = {"password1": "a-new-password-of-hers", "password2": "a-new-password-of-hers", "usable_password": "true"}
    operator.post(reverse("admin:auth_user_password_change", args=[user.pk]), sent)
    [entry] = entries(action=Action.CHANGED)
    assert (entry.object_name, entry.changes["password"]) == ("outra", [None, audit.HIDDEN])
    assert "a-new-password" not in str(entry.changes)


def test_what_is_made_is_told(operator: Client) -> None:
    password = "a-new-password-of-his"
    operator.post("/admin/auth/user/add/", {"username": "rui", "password1": password, "password2": password})
    [made] = entries()
    assert (made.action, made.object_name, made.changes["username"]) == (Action.CREATED, "rui", [None, "rui"])
    assert password not in str(made.changes)
    see(operator, made, "senha repetida", hidden=["password1"])  # before the fix, columns of a form


def test_actions_are_told_by_their_kind(operator: Client) -> None:
    partner = PartnerFactory()
    key, _ = issue_key(partner)
    operator.post(page_of(partner, "suspend"))
    operator.post(page_of(key, "revoke"))
    suspended, revoked_at_partner, revoked = entries()
    assert (suspended.action, suspended.changes) == (Action.SUSPENDED, {"status": ["active", "suspended"]})
    assert (revoked_at_partner.action, revoked_at_partner.object_id) == (Action.REVOKED, str(partner.pk))
    assert (revoked.model, list(revoked.changes)) == ("partners.apikey", ["revoked_at"])


# --- Security events ------------------------------------------------------------------------------------------


def test_a_log_out_is_told(operator: Client) -> None:
    """Log-ins and failures: tests/foundation/test_login.py; the second factor: test_second_factor.py."""
    operator.post("/admin/logout/")
    told = AuditEntry.objects.order_by("pk").values_list("action", "who", "address")
    assert list(told)[-1] == (Action.LOGGED_OUT, "operadora", ADDRESS)


@pytest.mark.control("CMN III")
def test_what_an_operator_may_not_do_is_told(db: None) -> None:
    client = Client(REMOTE_ADDR=ADDRESS)
    client.force_login(User.objects.create_user("curiosa", is_staff=True))
    partner = PartnerFactory()
    assert client.get(page_of(partner)).status_code == 403
    [entry] = entries()
    assert (entry.action, entry.who, entry.object_id) == (Action.DENIED, "curiosa", str(partner.pk))
    assert entry.detail == f"GET {page_of(partner)}"


def test_an_entry_is_shown_in_the_words_of_the_pages_and_kept_as_it_was_written(admin_client: Client) -> None:
    """Before the fix, the page said "rate_limit", and times in UTC with microseconds."""
    partner = PartnerFactory(providers=["ipe"])
    allowance = f"allowance {partner.allowances.get()}: portfolio"
    given = {
        "rate_limit": [None, 60],
        "new_id": [None, "x"],
        allowance: ["A", "B"],
        "created_at": [None, "2026-11-22T15:04:05.123456+00:00"],
        "of a later release": [1, 2],
    }
    entry = audit.record(Action.CHANGED, obj=partner, changes=given)
    words = ("chamadas por minuto", ": carteira", "22/11/2026 12:04:05", "of a later release")
    see(admin_client, entry, *words, hidden=["rate_limit", "new_id", "portfolio", "123456"])
    entry.refresh_from_db()
    assert entry.changes == given
    command = audit.record(Action.COMMAND, changes={"since": [None, "2026-11-01"]})
    see(admin_client, command, "since")


@pytest.mark.control("LGPD 37")
def test_who_looks_for_a_person_is_told_without_the_cpf(operator: Client) -> None:
    """Before the fix, a search by CPF left no trace."""
    operator.post(reverse("search"), {"what": FULL_FLOW})
    [entry] = entries()
    assert (entry.action, entry.object_id) == (Action.SEARCHED, blind_index("cpf", FULL_FLOW))
    assert FULL_FLOW not in str(vars(entry))


# --- Commands -------------------------------------------------------------------------------------------------

#: Commands that change no row: they read, serve, or write a file.
READ_ONLY = {
    "export_chain_head", "list_events", "new_bank", "refresh_bank_list", "verify_dossier",
    "verify_evidence",
}  # fmt: skip


@pytest.mark.control("CMN VI")
def test_every_command_that_changes_something_is_audited() -> None:
    folders = {app.name: Path(app.path) / "management" / "commands" for app in apps.get_app_configs()}
    own = {
        name: importlib.import_module(f"{app}.management.commands.{name}").Command
        for app, folder in folders.items()
        if folder.is_relative_to(ROOT) and "site-packages" not in folder.parts
        for _, name, _ in pkgutil.iter_modules([str(folder)])
    }
    assert len(own) > 12
    silent = {
        name
        for name, command in own.items()
        if not issubclass(command, AuditedCommand) or getattr(command, "reads_only", False)
    }
    assert silent == READ_ONLY


def test_a_command_tells_old_and_new(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "maria")
    monkeypatch.setenv("SSH_CONNECTION", f"{ADDRESS} 51234 10.0.0.1 22")
    partner = PartnerFactory(providers=["ipe"])
    ProviderFactory(name="cedro")
    printed("set_providers", partner.pk, providers="cedro")
    printed("suspend_partner", partner.pk)
    first, second = entries()
    assert (first.who, first.channel, first.address, first.action) == ("maria", "command", ADDRESS, Action.COMMAND)
    assert (first.object_id, first.object_name) == (str(partner.pk), partner.name)
    assert first.changes == {"allowance ipe: provider": ["ipe", None], "allowance cedro: provider": [None, "cedro"]}
    assert first.detail == f"set_providers partner_id={partner.pk} providers=cedro"
    assert second.changes == {"status": ["active", "suspended"]}


def test_a_command_tells_no_secret(db: None) -> None:
    ProviderFactory(name="ipe")
    printed("create_partner", "Financeira", providers="ipe")
    partner = Partner.objects.get()
    printed("set_webhook", partner.pk, url="HTTPS://p.example/w?token=s3cr3t", rotate_secret=True)
    by_model = {entry.model: entry for entry in entries()}
    assert set(by_model) == {"partners.partner", "partners.apikey"}
    assert by_model["partners.partner"].changes["webhook_secret"] == [audit.HIDDEN, audit.HIDDEN]
    told = " ".join(str(vars(entry)) for entry in entries())
    assert "whsec_" not in told
    assert "p.example/w" in told and "s3cr3t" not in told  # noqa: PT018
    assert "cpk_test_" not in told.replace(partner.api_keys.get().prefix, "")
    assert partner.api_keys.get().digest not in told


def test_a_command_that_fails_leaves_nothing(db: None) -> None:
    partner = PartnerFactory()
    with pytest.raises(Exception, match="URL"):
        printed("set_webhook", partner.pk, url="no address")
    assert entries() == []


def test_commands_of_libraries_are_told_too(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    line = CommandLine(["manage.py"])
    call_command(line.fetch_command("axes_reset_username"), "operadora")
    assert [entry.detail for entry in entries()] == ["axes_reset_username username=['operadora']"]
    known = set(line.main_help_text(commands_only=True).split())
    assert known >= FOREIGN, "one has another name by now"


# --- Kept -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE foundation_auditentry SET who = 'nobody'",
        "DELETE FROM foundation_auditentry",
        "TRUNCATE foundation_auditentry",
    ],
)
@pytest.mark.control("CMN VI")
def test_the_database_keeps_entries(db: None, statement: str) -> None:
    audit.record(Action.CHANGED)
    with pytest.raises(IntegrityError, match="never change"), transaction.atomic():
        execute(statement)
    assert len(entries()) == 1


def test_an_entry_goes_after_its_time(db: None, settings: Any) -> None:
    settings.AUDIT_RETENTION_DAYS = 200
    now = timezone.now()
    for days in (0, 199, 201, 400):
        AuditEntry.objects.create(at=now - timedelta(days=days), action=Action.CHANGED, channel="service")
    purge_audit()
    assert [round((now - entry.at).days) for entry in entries()] == [0, 199]


@pytest.mark.control("V16")
def test_an_entry_leaves_as_a_log_line_once_it_is_committed(
    db: None, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    with capture_logs() as lines:
        with django_capture_on_commit_callbacks(execute=True):
            entry = audit.record(
                Action.CHANGED,
                request=audit.Source("operadora", Channel.SERVICE),
                changes={"status": ["a", "b"]},
                detail="x",
            )
            assert lines == []
        with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
            audit.record(Action.CHANGED)
            transaction.set_rollback(True)
    assert lines == [
        {
            "event": "changed", "log_level": "info", "entry": entry.pk, "at": entry.at.isoformat(), "who": "operadora",
            "channel": "service", "changes": {"status": ["a", "b"]}, "detail": "x",
        }
    ]  # fmt: skip


# --- Read -----------------------------------------------------------------------------------------------------


def test_the_trail_is_read_with_a_permission_of_its_own(db: None) -> None:
    """The links to it: tests/backoffice/test_wording.py."""
    partner, trail = PartnerFactory(name="Financeira Um"), reverse("admin:foundation_auditentry_changelist")
    assert operator_with("view_partner").get(trail).status_code == 403
    client = operator_with("view_partner", "view_auditentry")
    audit.record(
        Action.SUSPENDED,
        obj=partner,
        request=audit.Source("maria", Channel.SERVICE),
        changes={"status": ["active", "suspended"]},
    )
    audit.record(Action.SUSPENDED, obj=PartnerFactory(name="Financeira Dois"))
    of_one = f"{trail}?model=partners.partner&object_id={partner.pk}"
    see(client, of_one, "Financeira Um", hidden=["Financeira Dois"])
    for query in ("q=maria", "action=suspended&q=maria", f"q={partner.pk}"):
        found = client.get(f"{trail}?{query}").context["cl"].result_list
        assert [entry.object_name for entry in found] == ["Financeira Um"], query
    entry = AuditEntry.objects.get(who="maria")
    see(client, entry, "suspenso", entry.action_in_words, page_of(partner), hidden=["(&#x27;"])
    assert client.post(page_of(entry), {}).status_code == 403
    assert client.get(f"{trail}?q={FULL_FLOW}").context["cl"].result_count == 0
