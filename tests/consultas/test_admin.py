"""The operator's pages of queries, offers and external steps."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from consultas.answer import Answer
from consultas.models import Offer, Query, Step
from foundation.encryption import blind_index
from partners.models import Partner
from providers.types.answer import QueryStatus
from providers.types.steps import ActionType, BankAction
from tests.client import FULL_FLOW
from tests.factories import PartnerFactory, update_encrypted
from tests.operators import operator_with
from tests.proposals.rows import an_offer
from webhooks.models import reference_index

OTHER = "90000000256"
PERSONAL = (FULL_FLOW, "900.000.001-75", "Maria da Silva", "11987654321", "maria@example.com", "03/1985", "1985-03")
LISTS = ("query", "offer", "step")


@pytest.fixture
def partner(db: None) -> Partner:
    return PartnerFactory(providers=["imbuia"])


@pytest.fixture
def offer(partner: Partner) -> Offer:
    return an_offer(partner, "imbuia")


@pytest.fixture
def step(offer: Offer) -> Step:
    return Step.objects.create(
        partner=offer.partner,
        query=offer.query,
        provider="imbuia",
        cpf_index=offer.cpf_index,
        type="biometria",
        url="https://bank.example/liveness/secret",
        detail="Prova de vida.",
        reference="step-1",
        expires_at=timezone.now() + timedelta(hours=1),
    )


@pytest.fixture
def curious(db: None) -> Client:
    """The browser of a user who may log in and has no other permission."""
    return operator_with()


def pages(offer: Offer, step: Step) -> list[str]:
    lists = [reverse(f"admin:consultas_{name}_changelist") for name in LISTS]
    rows = {"query": offer.query_id, "offer": offer.pk, "step": step.pk}
    return lists + [reverse(f"admin:consultas_{name}_change", args=[key]) for name, key in rows.items()]


def test_the_holder_is_masked_on_every_page(admin_client: Client, offer: Offer, step: Step) -> None:
    for page in pages(offer, step):
        text = admin_client.get(page).content.decode()
        assert "***.000.001-**" in text, page
        assert [word for word in (*PERSONAL, offer.cpf_index, step.url) if word in text] == [], page


def test_amounts_and_rates_read_as_in_brazil(admin_client: Client, offer: Offer) -> None:
    for page in (reverse("admin:consultas_offer_changelist"), reverse("admin:consultas_offer_change", args=[offer.pk])):
        text = admin_client.get(page).content.decode()
        for told in ("Imbuia", "R$ 5.000,00", "24 × R$ 300,00", "1,99%"):
            assert told in text


@pytest.mark.parametrize("name", LISTS)
def test_a_holder_is_looked_up_in_a_posted_form(admin_client: Client, offer: Offer, step: Step, name: str) -> None:
    an_offer(offer.partner, "imbuia", cpf=OTHER)
    found = admin_client.post(reverse(f"admin:consultas_{name}_find"), {"cpf": "900.000.001-75"}, follow=True)
    address = found.redirect_chain[0][0]
    assert blind_index("cpf", FULL_FLOW) in address
    assert FULL_FLOW not in address
    assert found.context["cl"].result_count == 1


def test_a_query_tells_why_there_are_no_offers_and_what_the_holder_owes(admin_client: Client, offer: Offer) -> None:
    step = BankAction(ActionType.CHAT_LINK, "https://bank.example/secret", "Confirme.", "step-1")
    answers = [
        Answer("jatoba", QueryStatus.NO_OFFERS, 120, 0.0, reasons=("Sem margem.", "Sem localização.")),
        Answer("cedro", QueryStatus.REQUIRES_ACTION, 80, 0.0, action=step),
        Answer("imbuia", QueryStatus.ERROR, 50, 0.0, error="Banco indisponível."),
    ]
    update_encrypted(Query.objects.all(), answers=msgspec.to_builtins(answers))
    Query.objects.update(finished_at=timezone.now())
    page = admin_client.get(reverse("admin:consultas_query_change", args=[offer.query_id])).content.decode()
    for told in ("Sem margem.; Sem localização.", "confirmação no WhatsApp", "sem ofertas", "Banco indisponível."):
        assert told in page
    for raw in ("no_offers", "requires_action", "whatsapp_link", "https://bank.example/secret"):
        assert raw not in page


def test_an_invalid_cpf_is_refused(admin_client: Client) -> None:
    reply = admin_client.post(reverse("admin:consultas_query_find"), {"cpf": "90000000176"})
    assert "Informe um CPF válido." in reply.content.decode()


@pytest.mark.parametrize("name", LISTS)
def test_the_search_in_the_address_takes_no_cpf(admin_client: Client, offer: Offer, step: Step, name: str) -> None:
    reply = admin_client.get(reverse(f"admin:consultas_{name}_changelist"), {"q": FULL_FLOW})
    assert reply.context["cl"].result_count == 0
    assert "Localizar CPF" in reply.content.decode()


@pytest.mark.parametrize("name", LISTS)
def test_without_permission_nobody_is_found(curious: Client, offer: Offer, name: str) -> None:
    reply = curious.post(reverse(f"admin:consultas_{name}_find"), {"cpf": FULL_FLOW})
    assert reply.status_code == 403


def test_the_menu_shows_what_one_may_see(curious: Client, admin_client: Client) -> None:
    def menu(browser: Client) -> set[str]:
        text = browser.get("/admin/").content.decode()
        return {each for each in ("Propostas", "Bancos", "Consultas", "Eventos de webhook") if each in text}

    assert menu(admin_client) == {"Propostas", "Bancos", "Consultas", "Eventos de webhook"}
    assert menu(curious) == set()


def test_lists_that_belong_together_are_tabs_of_one_in_the_menu(
    curious: Client, admin_client: Client, settings: Any, tmp_path: Path
) -> None:
    """Before the fix, the menu had 18 entries, and the last ones were below the screen's edge."""
    settings.GUIDE_ROOT = tmp_path  # the guide, which is an entry where it was generated, is not counted
    entries = [
        entry for section in admin_client.get("/admin/").context["sidebar_navigation"] for entry in section["items"]
    ]
    assert len([entry for entry in entries if entry["has_permission"]]) <= 12
    for first, *others in (
        ("consultas_query", "consultas_offer", "consultas_step"),
        ("authorizations_session", "authorizations_terms"),
        ("proposals_erasure", "proposals_erasurerequest"),
        ("partners_partner", "partners_apikey"),
        ("auth_user", "auth_group"),
    ):
        address = reverse(f"admin:{first}_changelist")
        tabs = admin_client.get(address).content.decode().partition('id="tabs-items"')[2].partition("</nav>")[0]
        for other in others:
            shown = admin_client.get(reverse(f"admin:{other}_changelist"))
            assert shown.request["PATH_INFO"] in tabs
            [lit] = [
                entry["link"]
                for section in shown.context["sidebar_navigation"]
                for entry in section["items"]
                if entry["active"]
            ]
            assert lit == address


def test_a_step_is_checked_on_request(admin_client: Client, step: Step) -> None:
    Step.objects.update(due_at=timezone.now() + timedelta(minutes=5))
    address = reverse("admin:consultas_step_change", args=[step.pk])
    page = admin_client.get(address).content.decode()
    assert "Verificar agora" in page
    assert "prova de vida" in page
    assert reverse("admin:consultas_query_change", args=[step.query_id]) in page

    admin_client.get(address, {"consultas_step_check_now": ""})
    assert Step.objects.get().due_at > timezone.now()
    admin_client.post(address, {"consultas_step_check_now": ""})
    assert Step.objects.get().due_at <= timezone.now()
    assert LogEntry.objects.get().change_message == "Verificação antecipada."


def test_a_closed_step_is_not_checked_and_links_to_its_events(admin_client: Client, step: Step) -> None:
    Step.objects.update(state=Step.State.APPROVED, due_at=None, closed_at=timezone.now())
    address = reverse("admin:consultas_step_change", args=[step.pk])
    page = admin_client.get(address).content.decode()
    assert "Verificar agora" not in page
    assert f"/admin/webhooks/event/?reference_index={reference_index(FULL_FLOW)}" in page
    admin_client.post(address, {"consultas_step_check_now": ""})
    assert Step.objects.get().due_at is None
