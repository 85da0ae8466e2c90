"""The roles that come with the service: the pages and actions that each may use, and what it sees there."""

import html
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Group, Permission, User
from django.core.management.sql import emit_post_migrate_signal
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from authorizations.models import Evidence
from backoffice import roles
from consultas.models import Step
from foundation.encryption import blind_index
from foundation.models import AuditEntry
from proposals.models import Erasure, Move, Proposal
from tests.backoffice.story import Story
from webhooks.models import Attempt

pytestmark = pytest.mark.django_db

SUPPORT, OPERATION, AUDIT, SECURITY = "suporte", "operação", "auditoria", "segurança"
EVERYBODY = {SUPPORT, OPERATION, AUDIT, SECURITY}
#: Which roles get each page. Pages of a model that is not named are for superusers, or for all who may view its rows.
PAGES: dict[str, set[str]] = {
    **dict.fromkeys(("partners_partner", "partners_apikey", "partners_failedcall", "webhooks_event"), EVERYBODY),
    **dict.fromkeys(("authorizations_session", "authorizations_terms", "providers_provider"), EVERYBODY),
    **dict.fromkeys(("consultas_query", "consultas_offer", "consultas_step"), EVERYBODY),
    **dict.fromkeys(("proposals_proposal", "proposals_erasure", "proposals_erasurerequest"), EVERYBODY),
    "auth_user": {AUDIT, SECURITY},
    "foundation_auditentry": {AUDIT, SECURITY},
}
#: Which roles get the page that asks for confirmation of each action.
ACTIONS: dict[str, set[str]] = {
    "partners_partner_add": {OPERATION},
    "partners_partner_issue_key": {OPERATION},
    "providers_provider_close": {OPERATION},
    "providers_provider_reopen": {OPERATION},
    "partners_partner_rotate_secret": {OPERATION},
    "partners_partner_suspend": {OPERATION},
    "partners_partner_suspend_and_hold": {OPERATION},
    "partners_partner_resume": {OPERATION},
    "partners_apikey_restrict": {OPERATION, SECURITY},
    "partners_apikey_revoke": {OPERATION, SECURITY},
    "webhooks_event_resend_window": {OPERATION},
    "webhooks_event_resend_one": {OPERATION},
    "consultas_step_check_now": {OPERATION},
    "proposals_proposal_reconcile_one": {OPERATION},
    "authorizations_terms_add": {OPERATION},
    "authorizations_terms_preview": EVERYBODY,
    "authorizations_terms_publish": {OPERATION},
    "authorizations_session_read_evidence": {AUDIT},
    "authorizations_session_export_dossier": {AUDIT},
    "authorizations_session_revoke": {OPERATION, SECURITY},
    "proposals_erasure_erase": {SECURITY},
    "providers_provider_add": set(),
    "auth_user_add": {SECURITY},
}
#: Who may save a row's page.
SAVES: dict[str, set[str]] = {
    "partners_partner": {OPERATION},
    "providers_provider": {OPERATION},
    "auth_user": {SECURITY},
    "webhooks_event": set(),
    "consultas_step": set(),
    "proposals_proposal": set(),
    "consultas_query": set(),
    "consultas_offer": set(),
    "authorizations_session": set(),
}
#: The models whose rows are made in the back office.
MADE = {"partners_partner", "providers_provider", "authorizations_terms", "auth_user"}
#: Words of untranslated pages, and of Django's title of lists, which says
#: that a row may be changed.
UNWANTED = re.compile(
    r"\b(?:Selecione .* para modificar|Can|the|your|and|Add|Change|Delete|Select|Save|View|Search|Date|Time|Today|Now"
    r"|Yes|None|True|False|New|All|Password|Username|Staff|Groups|Permissions|History|Home|Filter|Clear|Close|Show|Hide"
    r"|Loading|Results?|Unknown)\b"
)
#: The actions of lists, which OPERATION may run.
LIST_ACTIONS = {"webhooks_event": "resend_selection", "proposals_proposal": "reconcile_selection"}
#: Pages of one person's evidence, which show that person in full.
IN_FULL = ("read_evidence", "export_dossier")


@pytest.fixture
def rows(story: Story) -> dict[str, Any]:
    return rows_of(story)


def rows_of(story: Story) -> dict[str, Any]:
    """A row of each model that has pages, by the model's name as in `partners_partner`; None if there is no row."""
    own = [story.partner, story.key, story.event, story.session, story.session.terms, story.query, story.offer]
    more = [story.failed_call, story.step, story.proposal, story.partner.allowances.first().provider]
    found = {f"{row._meta.app_label}_{row._meta.model_name}": row for row in (*own, *more)}
    return {
        **found,
        "auth_user": User.objects.create_user("outra"),
        "proposals_erasure": Erasure.objects.create(cpf_index="0" * 64, by="maria", erased={}, kept={}, left={}),
        "proposals_erasurerequest": None,
        "foundation_auditentry": None,
    }


def unwanted_in(response: Any) -> set[str]:
    """The unwanted words of a page and of its fields' and links' titles, which come from the theme or Django."""
    if response.status_code != 200 or not response["Content-Type"].startswith("text/html"):
        return set()
    page = re.sub(
        r"<(script|style|template|pre)\b.*?</\1>|<span class=\"material-symbols.*?</span>",
        " ",
        response.text,
        flags=re.DOTALL,
    )
    titles = re.findall(r'(?:title|placeholder|aria-label|alt)="([^"]*)"', page)
    return set(UNWANTED.findall(" ".join([re.sub(r"<[^>]*>", " ", page), *titles])))


def client_of(role: str) -> Client:
    user = User.objects.create_user(f"pessoa-{role}", is_staff=True)
    user.groups.add(Group.objects.get(name=f"Papel: {role}"))
    client = Client()
    client.force_login(user)
    return client


def addresses(rows: dict[str, Any]) -> Iterator[tuple[str, str, set[str]]]:
    """The name, the address and the roles of each page."""
    for name, who in PAGES.items():
        yield name, reverse(f"admin:{name}_changelist"), who
        if (row := rows[name]) is not None:
            yield f"{name}_change", reverse(f"admin:{name}_change", args=[quote(row.pk)]), who
    for name, who in ACTIONS.items():
        model = "_".join(name.split("_")[:2])
        is_of_list = name.endswith(("_add", "_window")) or model == "proposals_erasure"
        yield name, reverse(f"admin:{name}", args=[] if is_of_list else [quote(rows[model].pk)]), who


def others(story: Story) -> list[str]:
    """The pages that belong to no model."""
    holder = blind_index("cpf", story.cpf)
    fixed = [reverse(name) for name in ("admin:index", "search", "figures:banks", "figures:funnel")]
    return [
        *fixed,
        f"{reverse('holder')}?cpf_index={holder}",
        reverse("partner", args=[story.partner.pk]),
        reverse("figures:bank", args=["ipe"]),
    ]


@pytest.mark.parametrize("role", sorted(EVERYBODY))
@pytest.mark.control("API5")
def test_each_page_and_action_is_for_its_roles(rows: dict[str, Any], story: Story, role: str) -> None:
    """And no page shows a secret, or a holder's data in full without the permission for evidence, or offers what the
    role may not do; all are in Portuguese. Before the fix, the page of a partner offered *Revogar* for its keys to all
    who saw it."""
    client, wrong, leaks, unwanted, offered = client_of(role), {}, [], {}, []
    holder = (story.cpf, story.session.cpf, story.session.name, story.session.authorization_id)
    table, secrets = list(addresses(rows)), (*story.secrets, *holder)
    refused = [f'"{address}"' for _, address, who in table if role not in who]
    refused += [f'value="{each}"' for each in LIST_ACTIONS.values() if role != OPERATION]
    table += [(address, address, EVERYBODY) for address in others(story)]
    for name, address, who in table:
        response = client.get(address)
        # An action that would change nothing redirects to its row.
        is_let_in = response.status_code in (200, 302)
        if is_let_in != (role in who):
            wrong[name] = response.status_code
        if is_let_in and not name.endswith(IN_FULL):
            text = html.unescape(response.text)
            leaks += [name for secret in secrets if secret in text]
            offered += [(name, each) for each in refused if each in text]
        if is_let_in and (found := unwanted_in(response)):
            unwanted[name] = found
    assert (wrong, leaks, unwanted, offered) == ({}, [], {}, [])


def test_a_stranger_is_led_to_the_log_in(rows: dict[str, Any], story: Story, client: Client) -> None:
    for address in [*(address for _, address, _ in addresses(rows)), *others(story)]:
        for response in (client.get(address), client.post(address)):
            assert (response.status_code, response["Location"].partition("?")[0]) == (302, "/admin/login/"), address


def stored(rows: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """All rows of the models that have pages, and of those below them. The audit trail and its log are left out, and
    failed calls but the one in `rows`: a web process writes those of an earlier test at the end of its minute."""
    models = {type(row) for row in rows.values() if row is not None} | {Evidence, Attempt, Move, Erasure}
    found = {model.__name__: list(model._base_manager.order_by("pk").values()) for model in models}
    own = rows["partners_failedcall"].pk
    return found | {"FailedCall": [row for row in found["FailedCall"] if row["id"] == own]}


@pytest.mark.parametrize("role", sorted(EVERYBODY))
@pytest.mark.control("V8")
def test_only_who_may_saves_and_acts(rows: dict[str, Any], role: str) -> None:
    """What a role may not do is refused, and changes nothing. Nor does the address of an action, opened by a GET."""
    later = timezone.now() + timedelta(hours=1)
    Proposal.objects.update(submission=Proposal.Submission.UNKNOWN, due_at=later)
    Step.objects.update(state=Step.State.OPEN, closed_at=None, due_at=later)
    client, before, answered = client_of(role), stored(rows), {}
    for name, who in SAVES.items():
        address = reverse(f"admin:{name}_change", args=[quote(rows[name].pk)])
        if role not in who:
            answered[name] = client.post(address, {"name": "x"}).status_code
            action = "delete_selected" if role == OPERATION else LIST_ACTIONS.get(name, "delete_selected")
            client.post(reverse(f"admin:{name}_changelist"), {"action": action, "_selected_action": [rows[name].pk]})
    for name, address, who in addresses(rows):
        if name in ACTIONS and role in who:
            client.get(address)
        elif name in ACTIONS:
            answered[name] = client.post(address, {"post": "yes", "cpf": "90000000175"}).status_code
    assert {name: status for name, status in answered.items() if status != 403} == {}
    assert stored(rows) == before
    for name, who in SAVES.items():
        if role in who:
            assert client.post(reverse(f"admin:{name}_change", args=[quote(rows[name].pk)]), {}).status_code != 403


def test_nobody_makes_deletes_or_rewrites_what_the_service_writes(rows: dict[str, Any], admin_client: Client) -> None:
    before = stored(rows)
    for name, row in rows.items():
        made = admin_client.get(reverse(f"admin:{name}_add")).status_code
        assert made == (200 if name in MADE else 403), name
        if row is None:
            continue
        deletion = reverse(f"admin:{name}_delete", args=[quote(row.pk)])
        assert admin_client.post(deletion, {"post": "yes"}).status_code == 403, name
        if name not in MADE | {"partners_apikey"}:
            forged = {"status": "disbursed", "state": "failed", "attempts": "7", "partner_reference": "x", "by": "x"}
            inner = {"attempt_set-TOTAL_FORMS": "0", "attempt_set-INITIAL_FORMS": "0"}
            admin_client.post(reverse(f"admin:{name}_change", args=[quote(row.pk)]), {**forged, **inner})
    assert stored(rows) == before
    assert not AuditEntry.objects.exclude(action__in=("denied", "logged_in")).exists()


def test_every_model_with_a_page_is_in_the_table() -> None:
    """Whoever adds a page has to decide which roles get it."""
    registered = {f"{model._meta.app_label}_{model._meta.model_name}" for model in admin.site._registry}
    assert registered == set(PAGES)


@pytest.mark.control("CMN IX")
def test_the_roles_hold_what_the_release_says() -> None:
    """Every permission exists, and the next `migrate` undoes changes made in the database. Before the fix, `manage.py
    flush` ended with a TypeError."""
    held = {
        group.name: {
            f"{p.content_type.app_label}.{p.codename}" for p in group.permissions.select_related("content_type")
        }
        for group in Group.objects.all()
    }
    assert held == {name: set(permissions) for name, permissions in roles.ROLES.items()}
    support = Group.objects.get(name="Papel: suporte")
    support.permissions.set([Permission.objects.get(codename="view_evidence")])
    roles.write()
    assert support.permissions.count() == len(roles.ROLES["Papel: suporte"])
    Group.objects.all().delete()
    emit_post_migrate_signal(verbosity=0, interactive=False, db="default")
    assert {group.name for group in Group.objects.all()} == set(roles.ROLES)
