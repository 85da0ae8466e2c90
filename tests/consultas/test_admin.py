"""The operator's pages of queries, offers and external steps."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from consultas.models import Answer, Offer, Query, Step, failed
from foundation.encryption import blind_index
from foundation.models import AuditEntry
from partners.models import Partner
from providers.errors import (
    BankClosed,
    BankFailure,
    BankFull,
    BankHeldBack,
    BankInWindow,
    BankKeptOut,
    BankPaused,
    BankSwitchedOff,
    BankTimedOut,
    LoginRefused,
    ProviderUnavailable,
)
from providers.reasons import OperatorCode
from providers.types.query import ActionType, BankAction, QueryStatus
from tests.client import FULL_FLOW
from tests.factories import PartnerFactory, update_encrypted
from tests.operators import page_of, press, rows_at, see
from tests.proposals.rows import a_step, an_offer
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
    return a_step(offer, url="https://bank.example/liveness/secret")


def test_the_holder_is_masked_on_every_page(admin_client: Client, offer: Offer, step: Step) -> None:
    for row in (offer.query, offer, step):
        for page in (page_of(row), reverse(f"admin:consultas_{row._meta.model_name}_changelist")):
            see(admin_client, page, "***.000.001-**", hidden=[*PERSONAL, offer.cpf_index, step.url])


def test_amounts_and_rates_read_as_in_brazil(admin_client: Client, offer: Offer) -> None:
    for page in (reverse("admin:consultas_offer_changelist"), offer):
        see(admin_client, page, "Imbuia", "R$ 5.000,00", "24 × R$ 300,00", "1,99%")


def test_the_queries_of_a_bank_are_found(admin_user: User, offer: Offer) -> None:
    """Whatever the address says."""
    Query.objects.update(banks=["imbuia"])
    address = reverse("admin:consultas_query_changelist")
    counts = {bank: 1 if bank == "imbuia" else 0 for bank in ("imbuia", "ipe", "xpto", "%00")}
    assert {bank: len(rows_at(admin_user, f"{address}?bank={bank}")) for bank in counts} == counts


@pytest.mark.parametrize("name", LISTS)
def test_a_list_finds_a_holder_by_a_link_alone(admin_client: Client, offer: Offer, step: Step, name: str) -> None:
    """The text of a list's search stands in the address. The search of the menu takes a CPF."""
    an_offer(offer.partner, "imbuia", cpf=OTHER)
    address = reverse(f"admin:consultas_{name}_changelist")
    found = admin_client.get(address, {"cpf_index": blind_index("cpf", FULL_FLOW)})
    assert found.context["cl"].result_count == 1
    reply = admin_client.get(address, {"q": FULL_FLOW})
    assert reply.context["cl"].result_count == 0
    assert "use a busca do menu" in reply.text


def test_a_query_tells_why_there_are_no_offers_and_what_the_holder_owes(admin_client: Client, offer: Offer) -> None:
    step = BankAction(ActionType.CHAT_LINK, "https://bank.example/secret", "Confirme.", "step-1")
    answers = [
        Answer("jatoba", QueryStatus.NO_OFFERS, 120, 0.0, reasons=("Sem margem.", "Sem localização.")),
        Answer("cedro", QueryStatus.REQUIRES_ACTION, 80, 0.0, action=step),
        Answer("imbuia", QueryStatus.ERROR, 50, 0.0, error="Banco indisponível."),
    ]
    update_encrypted(Query.objects.all(), answers=msgspec.to_builtins(answers))
    Query.objects.update(finished_at=timezone.now())
    told = ("Sem margem.; Sem localização.", "confirmação no WhatsApp", "sem ofertas", "Banco indisponível.")
    raw = ("no_offers", "requires_action", "whatsapp_link", "https://bank.example/secret")
    see(admin_client, offer.query, *told, hidden=raw)


SPARED, LIMIT = "O serviço não chamou o banco (falhas recentes).", "(limite de chamadas simultâneas)"
WINDOW = "O banco está fora do ar até 25/11/2026 18:00: virada de folha."
PAUSED = "O serviço não chamou o banco: este parceiro estava em pausa nele. Até 25/11/2026 18:00: auditoria"


@pytest.mark.parametrize(
    ("failure", "situation", "words"),
    [
        (ProviderUnavailable(), "erro ou recusa", "Banco indisponível no momento. Tente novamente em instantes."),
        (BankTimedOut(), "erro ou recusa", "O banco não respondeu a tempo."),
        (LoginRefused(), "erro ou recusa", "O banco recusou as nossas credenciais."),
        (BankSwitchedOff(), "não foi chamado", "Banco desativado no momento."),
        (BankPaused("25/11/2026 18:00: auditoria"), "não foi chamado", PAUSED),
        (
            BankInWindow(WINDOW),
            "não foi chamado",
            f"O serviço não chamou o banco, por uma janela do operador. {WINDOW}",
        ),
        (BankClosed(), "erro ou recusa", "O banco está fora do horário ou em virada de folha."),
        (BankHeldBack(), "não foi chamado", SPARED),
        (BankFull(), "não foi chamado", f"O serviço não chamou o banco {LIMIT}."),
        (BankKeptOut(), "não foi chamado", "por ordem do operador (Chamar o banco: nunca)."),
    ],
    ids=lambda case: type(case).__name__ if isinstance(case, BankFailure) else "",
)
def test_a_query_tells_whether_its_bank_was_called(
    admin_client: Client, offer: Offer, failure: BankFailure, situation: str, words: str
) -> None:
    """Before the fix, a bank that the service did not call read like one that answered 5xx, and a pause of the partner
    like a bank that is switched off. Of a query that no worker took, and of one that follows it, no bank was called."""
    answers = msgspec.to_builtins([failed("imbuia", failure, 7.0)])
    leader, follower = offer.query, an_offer(offer.partner, "imbuia").query
    update_encrypted(Query.objects.all(), answers=answers)
    Query.objects.update(finished_at=timezone.now(), takes=1)
    others = [each for each in ("não foi chamado", "erro ou recusa") if each != situation]
    see(admin_client, leader, situation, words, hidden=[*others, "Nenhum processo"])
    Query.objects.update(takes=0)
    Query.objects.filter(pk=follower.pk).update(follows=leader.pk)
    for query in (leader, follower):
        see(admin_client, query, "não foi chamado", "Nenhum processo tomou a consulta.", hidden=["erro ou recusa"])


def test_a_bank_that_was_called_late_is_told(admin_client: Client, offer: Offer) -> None:
    late = replace(failed("imbuia", BankTimedOut(), 7.0), operator_code=OperatorCode.LATE)
    update_encrypted(Query.objects.all(), answers=msgspec.to_builtins([late]))
    Query.objects.update(finished_at=timezone.now(), takes=1)
    see(
        admin_client, offer.query, "a consulta esperou por um processo nosso", hidden=["O banco não respondeu a tempo."]
    )


def menu_of(page: Any) -> list[dict[str, Any]]:
    """The entries of the menu on a page."""
    return [entry for section in page.context["sidebar_navigation"] for entry in section["items"]]


def test_lists_that_belong_together_are_tabs_of_one_in_the_menu(
    admin_client: Client, settings: Any, tmp_path: Path
) -> None:
    """Before the fix, the menu had 18 entries, and the last ones were below the screen's edge."""
    settings.GUIDE_ROOT = tmp_path  # the guide, which is an entry where it was generated, is not counted
    assert len([entry for entry in menu_of(admin_client.get("/admin/")) if entry["has_permission"]]) <= 12
    for first, *others in (
        ("consultas_query", "consultas_offer", "consultas_step"),
        ("authorizations_session", "authorizations_terms"),
        ("proposals_erasure", "proposals_erasurerequest"),
        ("partners_partner", "partners_apikey"),
    ):
        address = reverse(f"admin:{first}_changelist")
        tabs = admin_client.get(address).text.partition('id="tabs-items"')[2].partition("</nav>")[0]
        for other in others:
            shown = admin_client.get(reverse(f"admin:{other}_changelist"))
            assert shown.request["PATH_INFO"] in tabs
            assert [entry["link"] for entry in menu_of(shown) if entry["active"]] == [address]


def test_a_step_is_checked_on_request(admin_client: Client, step: Step) -> None:
    Step.objects.update(due_at=timezone.now() + timedelta(minutes=5))
    check = page_of(step, "check_now")
    see(admin_client, step, "Verificar agora", check, "prova de vida", page_of(step.query))
    see(admin_client, check, "O banco será consultado em segundos.")
    assert Step.objects.get().due_at > timezone.now()
    press(admin_client, check, "Verificar agora")
    assert Step.objects.get().due_at <= timezone.now()
    assert AuditEntry.objects.get(action="pushed").detail == "Verificação antecipada."


def test_a_closed_step_is_not_checked_and_links_to_its_events(admin_client: Client, step: Step) -> None:
    Step.objects.update(state=Step.State.APPROVED, due_at=None, closed_at=timezone.now())
    events = f"/admin/webhooks/event/?reference_index={reference_index(FULL_FLOW)}"
    see(admin_client, step, events, hidden=["Verificar agora"])
    admin_client.post(page_of(step, "check_now"))
    assert Step.objects.get().due_at is None
