"""Operators read Portuguese, and texts that are true for their permissions."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets, label_for_field
from django.contrib.auth.models import Group, User
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from backoffice.problems.problem import waited
from consultas.models import Offer
from foundation import audit
from foundation.models import Action
from tests.factories import PartnerFactory, ProviderFactory
from tests.operators import operator_with, page_of, says, see
from tests.proposals.rows import an_offer

pytestmark = pytest.mark.django_db


def test_who_may_only_look_at_a_bank_sees_no_field_for_its_secrets(admin_client: Client) -> None:
    """Before the fix, such an operator saw the fields "New credentials" and "New callback secret"."""
    bank = ProviderFactory(name="ipe")
    see(operator_with("view_provider"), bank, "Credenciais guardadas", hidden=["credential_", "New "])
    see(admin_client, bank, "Segredo de cliente")


def test_the_path_over_a_page_names_nothing_twice(admin_client: Client) -> None:
    """Before the fix, a list's title was "Parceiros › Parceiros"."""
    page = see(admin_client, reverse("admin:partners_partner_changelist"))
    path = page.partition('id="header-inner"')[2].partition("chevron_right")[0]
    assert "chevron_right" not in page.partition('id="header-inner"')[2].partition("</h1>")[0], path


def test_who_leaves_is_not_thanked_for_quality_time(admin_client: Client) -> None:
    says(admin_client.post("/admin/logout/"), "Feche o navegador", hidden=["tempo de qualidade"])


def test_an_empty_list_asks_nobody_to_add_what_nobody_adds_and_all_is_said_in_no_gender(admin_client: Client) -> None:
    """Before the fix, the list of permissions said "Escolher todos permissões"."""
    see(admin_client, reverse("admin:consultas_query_changelist"), "Não há nada aqui", hidden=["Crie um item"])
    see(admin_client, reverse("admin:jsi18n"), "Acrescentar tudo", hidden=["Escolher todos"])


def test_an_offer_without_insurance_is_no_fault(admin_client: Client) -> None:
    """Before the fix, its column had a red cross."""
    an_offer(PartnerFactory(providers=["ipe"]), "ipe")
    see(admin_client, reverse("admin:consultas_offer_changelist"), "sem seguro")


def test_a_cost_is_shown_as_people_write_it(admin_client: Client) -> None:
    """Before the fix, the page said "1,990000" and "bank"."""
    offer = an_offer(PartnerFactory(providers=["ipe"]), "ipe")
    for source, told in (("bank", "do banco"), ("computed", "calculado")):
        Offer.objects.update(cet_monthly="1.990000", cet_annual=None, cet_source=source)
        see(admin_client, offer, *(f">{text}</div>" for text in ("1,99%", told, "—")))


def test_columns_and_fields_have_titles_of_their_own(rf: RequestFactory, admin_user: User) -> None:
    """Before the fix, an offer's page had two fields called "Seguro"."""
    for model in list(admin.site._registry):
        request, pages = rf.get("/admin/"), admin.site._registry[model]
        request.user = admin_user
        for names in (pages.get_list_display(request), flatten_fieldsets(pages.get_fieldsets(request, model()))):
            own = [name for name in names if name not in ("password1", "password2", "usable_password", "new_id")]
            form = pages.get_form(request, model())()
            titles = [str(label_for_field(name, model, pages, form=form)).casefold() for name in own]
            assert len(titles) == len(set(titles)), titles


@pytest.mark.parametrize(("seconds", "told"), [(5, "menos de um minuto"), (70, "1\xa0minuto"), (7300, "2\xa0horas")])
def test_a_short_wait_is_told_in_words(seconds: int, told: str) -> None:
    """Before the fix, the first page said "há 0 minuto"."""
    assert waited(timezone.now() - timedelta(seconds=seconds)).startswith(told)


def test_the_guide_names_buttons_and_pages_as_they_are_on_screen() -> None:
    """Each name in italics in the guide's section on the first day is a text of the service."""
    guide = (settings.BASE_DIR / "docs" / "operator-guide.md").read_text()
    table = guide.partition("### O primeiro dia")[2].partition("### Os papéis")[0]
    named = {name.removesuffix(" N").removesuffix(", …") for name in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", table)}
    of_django = {"Salvar", "Salvar e continuar editando"}
    own = "authorizations backoffice config consultas foundation partners proposals providers webhooks"
    files = [path for each in own.split() for path in (settings.BASE_DIR / each).rglob("*.py")]
    files += [*(settings.BASE_DIR / "templates").rglob("*.html"), *(settings.BASE_DIR / "locale").rglob("*.po")]
    words = "".join(path.read_text() for path in files).lower()  # a model's label has no capital of its own
    assert len(named) > 20
    assert {name for name in named - of_django if name.lower() not in words} == set()


def test_a_refusal_is_a_page_with_the_menu_for_operators_alone(client: Client) -> None:
    """Before the fix, an operator saw one line of text and no way back."""
    operator = operator_with("view_query")
    for address, status, told in (
        (reverse("admin:partners_partner_changelist"), 403, "Sem permissão"),
        ("/admin/nada/", 404, "Página não encontrada"),
    ):
        says(operator.get(address), told, reverse("admin:consultas_query_changelist"), status=status)
        assert client.get(address).status_code == 302
    assert operator.get("/nada").content == "Recurso não encontrado.\n".encode()


def test_a_form_without_its_token_is_explained(admin_user: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    says(client.post(reverse("admin:partners_partner_add")), "abra-o de novo", status=403)


def test_the_menu_leads_to_the_guide_where_its_pages_were_made(
    admin_client: Client, tmp_path: Path, settings: Any
) -> None:
    address = "/admin/guia/operator-guide.html"
    settings.GUIDE_ROOT = tmp_path
    see(admin_client, reverse("admin:index"), hidden=[address])
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "operator-guide.html").write_text("<h1>Guia do operador</h1>")
    see(admin_client, reverse("admin:index"), address)
    shown = admin_client.get(address)
    assert shown.status_code == 200
    assert b"Guia do operador" in b"".join(shown)  # type: ignore[arg-type]  # the file, and closed


def test_an_account_shows_its_roles_and_is_made_inactive_rather_than_deleted(admin_client: Client) -> None:
    user = User.objects.create_user("rui", password="uma-senha-bem-longa")
    user.groups.add(Group.objects.get(name="Papel: suporte"))
    see(admin_client, reverse("admin:auth_user_changelist"), "Papéis", ">suporte<", ">superusuário<")
    see(admin_client, user, hidden=["date_joined_0", "last_login_0", page_of(user, "delete")])


def test_the_audit_trail_stands_in_for_a_history(admin_client: Client) -> None:
    """Before the fix, who reads the audit trail was offered Django's history beside it."""
    bank = ProviderFactory(name="ipe")
    trail = f"{reverse('admin:foundation_auditentry_changelist')}?model=providers.provider&object_id=ipe"
    page = "".join(see(admin_client, bank).split())
    assert (page.count(page_of(bank, "history")), ">policy<" in page) == (1, True)
    see(operator_with("view_provider"), bank, hidden=[trail.partition("?")[0], page_of(bank, "history")])
    assert admin_client.get(page_of(bank, "history")).url == trail
    entry = audit.record(Action.CHANGED, obj=bank, changes={"enabled": [True, False]})
    assert ">policy<" not in "".join(see(admin_client, entry).split())
