"""The operator's pages of proposals."""

import re
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from consultas.models import Offer, Query
from foundation.models import AuditEntry
from partners.models import Partner
from proposals.models import BankCall, Cause, Proposal
from providers.errors import ProviderRejected
from providers.reasons import Reason, ReasonCode
from providers.types.proposal import BankProposal, ProposalStatus, Stage, StageReport
from tests.client import FULL_FLOW
from tests.factories import update_encrypted
from tests.operators import operator_with, page_of, rows_at, see
from tests.plans import execute, executed
from tests.proposals.datasets import dataset
from tests.proposals.rows import a_proposal, a_step, an_offer
from tests.webhooks.deliveries import leave_attempts
from webhooks import outbox
from webhooks.models import Attempt, Event
from webhooks.transport import Fault

LIST = "/admin/proposals/proposal/"
ACCOUNT = Reason.of(ReasonCode.INVALID_ACCOUNT).as_dict()
TERMS = {"loanValue": 5000.0, "installments": 24}
PERSONAL = (FULL_FLOW, "Maria da Silva", "Ana da Silva", "11987654321", "maria@example.com", "567890")


@pytest.fixture
def proposal(partner: Partner) -> Proposal:
    """A submission of unknown outcome, due for a look-up in an hour."""
    return an_unknown_one(partner)


def an_unknown_one(partner: Partner) -> Proposal:
    return a_proposal(
        an_offer(partner, "ipe"),
        terms=TERMS,
        submission=Proposal.Submission.UNKNOWN,
        due_at=timezone.now() + timedelta(hours=1),
    )


def heading_of(page: str) -> str:
    return page.partition('class="heading"')[2].partition("</section>")[0]


def test_list_shows_proposals_without_personal_data(admin_client: Client, proposal: Proposal) -> None:
    told = ("***.000.001-**", "R$ 5.000,00 em 24x", "resultado desconhecido", "criada", proposal.partner.name)
    page = see(admin_client, LIST, *told, hidden=PERSONAL)
    assert ">Ipê<" in "".join(page.split()), "Before the fix, lists showed the bank's identifier."


def test_page_shows_the_timeline_and_no_personal_data(admin_client: Client, proposal: Proposal) -> None:
    BankCall.objects.create(
        proposal=proposal, operation="submit", outcome="provider_unavailable", ms=1234, request_id="request-1"
    )
    status = BankProposal("N-77", "waiting_signature", ProposalStatus.AWAITING_SIGNATURE, "https://bank.example/s")
    proposal.adopt(status, Cause.RECONCILE)
    told = (
        "chamada ao banco: envio",
        "waiting_<wbr>signature",  # Before the fix, a narrow column broke such a word anywhere.
        "1,2 s",
        "criada → aguardando assinatura",
        "banco indisponível",
        "conciliação",
    )
    hidden = [*PERSONAL, "https://bank.example/s", "provider_unavailable", 'name="_save"']
    see(admin_client, proposal, *told, "N-77", hidden=hidden)


def test_the_page_says_first_what_it_is_about_and_folds_what_is_empty(admin_client: Client, proposal: Proposal) -> None:
    """Before the fix, the timeline stood below thirty fields, most of them empty, and the CPF led nowhere."""
    Proposal.objects.update(native_id="N-77")
    page = admin_client.get(page_of(proposal))
    heading = re.sub(r"<[^>]+>|\s+", " ", heading_of(page.text))
    assert re.findall(r"R\$ 5.000,00 em 24x|Ipê|criada|resultado desconhecido", heading) == [
        "R$ 5.000,00 em 24x",
        "Ipê",
        "resultado desconhecido",
    ], "before the fix, it was called `criada`, although nobody knows whether the bank has it"
    assert f'href="/admin/titular/?cpf_index={proposal.cpf_index}">***.000.001-**<' in page.text
    timeline, told, empty = (options["fields"] for _, options in page.context["adminform"].fieldsets)
    assert timeline == ["timeline"]
    assert {"native_id", "request_id"} <= set(told)
    assert {"contract_number", "disbursed_at", "paid_amount", "why"} <= set(empty)
    assert sorted([*timeline, *told, *empty]) == sorted(site._registry[Proposal].fields)


def test_page_shows_the_facts_that_the_partner_reads(admin_client: Client, proposal: Proposal) -> None:
    proposal.rename("order:7")
    paid = {"contract_number": "CCB-7", "disbursed_amount": Decimal("4987.65")}
    proposal.adopt(BankProposal("N-77", "paid", ProposalStatus.DISBURSED, **paid), Cause.RECONCILE)
    see(admin_client, proposal, "order:7", "CCB-7", "R$ 4.987,65", "banco 001, conta corrente ****90")
    ended = an_unknown_one(proposal.partner)
    ended.adopt(BankProposal("N-78", "no", ProposalStatus.CANCELLED), Cause.RECONCILE)
    heading = heading_of(see(admin_client, ended))
    assert "(cancelled)" in heading, "before the fix, the reason stood below the timeline"
    assert "aceita" not in heading, "before the fix, `envio: aceita` stood beside the end"


def test_page_tells_what_a_proposal_waits_for_and_why(admin_client: Client, proposal: Proposal) -> None:
    failed = StageReport(Stage.AVERBATION, timezone.now(), "dataprev parada", is_retried=True)
    proposal.adopt(BankProposal("N-77", "x", ProposalStatus.SIGNED, stage=failed), Cause.RECONCILE)
    page = see(admin_client, proposal)
    assert "etapa: averbação" in heading_of(page)
    assert re.search(r"averbação desde .{10,30}: dataprev parada \(other; o banco tenta de novo\)", page)


@pytest.mark.parametrize(
    ("submission", "changes", "told"),
    [
        ("unknown", {}, "O serviço pergunta ao banco até saber; o parceiro espera."),
        ("not_sent", {}, "O parceiro pode enviar de novo."),
        ("accepted", {}, "O parceiro pede a formalização."),
        ("accepted", {"status": "in_analysis"}, "O banco analisa."),
        ("accepted", {"status": "awaiting_signature", "stage": "signature"}, "O titular assina."),
        ("accepted", {"status": "signed", "stage": "averbation"}, "O banco averba e paga."),
        ("accepted", {"status": "signed", "stage_reason": ACCOUNT}, "O parceiro corrige a conta com o titular."),
        ("refused", {"status": "rejected", "reason": ACCOUNT}, "O parceiro corrige a conta com o titular."),
        ("accepted", {"status": "disbursed"}, ""),
        ("accepted", {"status": "cancelled"}, ""),
    ],
)
def test_page_says_who_acts_next(
    admin_client: Client, partner: Partner, submission: str, changes: dict[str, Any], told: str
) -> None:
    proposal = a_proposal(an_offer(partner, "ipe"), Proposal.Submission(submission), terms=TERMS, **changes)
    page = admin_client.get(page_of(proposal))
    assert page.context["heading"]["who_acts"] == told
    assert told in page.text


def test_page_tells_a_withdrawal(admin_client: Client, proposal: Proposal) -> None:
    until, at = date(2126, 3, 9), timezone.now()
    paid = BankProposal("N-77", "paid", ProposalStatus.DISBURSED, withdrawal_until=until, withdrawn_at=at)
    proposal.adopt(paid, Cause.RECONCILE)
    told = ("paga, desistida", "paga → desistência do titular", "(withdrawn)", "2126")
    see(admin_client, proposal, *told, hidden=["etapa:"])


def test_a_withdrawn_contract_is_not_told_as_a_paid_one(admin_client: Client, partner: Partner) -> None:
    """Before the fix, lists and the search told a green `paga`, and no filter found these."""
    paid, withdrawn = an_unknown_one(partner), an_unknown_one(partner)
    Proposal.objects.update(status="disbursed", submission="accepted", due_at=None)
    Proposal.objects.filter(pk=withdrawn.pk).update(withdrawn_at=timezone.now(), request_id="request-7")
    Proposal.objects.filter(pk=paid.pk).update(request_id="request-7")
    page = admin_client.get(LIST)
    column = page.context["cl"].model_admin.coloured_status
    rows = {row.pk: column(row) for row in page.context["cl"].result_list}
    assert rows == {paid.pk: "paga", withdrawn.pk: "paga, desistida"}
    assert (column.label["paga"], column.label["paga, desistida"]) == ("success", "warning")
    filtered = admin_client.get(f"{LIST}?withdrawn=yes").context["cl"]
    assert [row.pk for row in filtered.result_list] == [withdrawn.pk]
    found = admin_client.post(reverse("search"), {"what": "request-7"}).context["found"]
    assert {each.state for each in found} == {"Ipê: paga", "Ipê: paga, desistida"}


def test_the_timeline_tells_of_the_query_the_steps_and_the_webhooks_with_their_durations(
    admin_client: Client, proposal: Proposal
) -> None:
    begun = timezone.now() - timedelta(minutes=30)
    Query.objects.update(created_at=begun, finished_at=begun + timedelta(seconds=2.5))
    step = a_step(
        proposal.offer, state="approved", opened_at=begun, closed_at=begun + timedelta(minutes=5), expires_at=begun
    )
    event = outbox.store(proposal.partner, "proposal.created", str(proposal.pk), {})
    Event.objects.update(state="delivered", due_at=None, delivered_at=event.created_at + timedelta(hours=3))
    leave_attempts(event, 2, "timeout")
    answer = {"url": "u", "status": 200, "duration_ms": 40, "at": timezone.now()}
    Attempt.objects.create(partner=proposal.partner, event=event, number=3, **answer)
    page = admin_client.get(page_of(proposal)).text
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    told = [" | ".join(re.findall(r"<td[^>]*>(.*?)</td>", row)[1:4]) for row in rows if "<td data-title" in row]
    plain = [re.sub(r"<[^>]+>", "", line) for line in told]
    assert plain[:2] == ["consulta agregada | concluída | 2,5 s", "passo do titular: biometria | aberto | "]
    assert "passo do titular: biometria | concluído | 5\xa0minutos desde que foi aberto" in plain
    answers = f"{Fault.TIMEOUT.label} (2×), HTTP 200"
    assert plain[-1] == f"webhook proposal.created | entregue: {answers} | 3\xa0horas até ser entregue"
    assert reverse("admin:consultas_step_change", args=[step.pk]) in page


def test_the_query_of_origin_is_the_one_that_the_proposal_was_sent_from(admin_client: Client, partner: Partner) -> None:
    """Before the fix, the page and its timeline showed the offer's newest query, which came after the submission."""

    def quoted_again(offer: Offer) -> Query:
        newer = an_offer(partner, "ipe").query
        Offer.objects.filter(pk=offer.pk).update(query=newer)
        offer.refresh_from_db()
        return newer

    def shown(proposal: Proposal) -> set[str]:
        page = admin_client.get(page_of(proposal)).text
        return set(re.findall(r"/admin/consultas/query/([0-9a-f-]{36})/", page))

    offer = an_offer(partner, "ipe")
    until = timezone.now() + timedelta(minutes=1)
    proposal = Proposal.begin_first_attempt(
        offer, dataset({"provider": "ipe", "offerId": str(offer.pk)}), "request-1", until, ""
    )
    first = offer.query
    second = quoted_again(offer)
    assert shown(proposal) == {str(first.pk)}
    # A worker sends the offer as it is when it takes the attempt. After that no later query changes the origin.
    taken = Proposal.take(str(proposal.pk))
    third = quoted_again(offer)
    assert shown(proposal) == {str(second.pk)}
    assert taken is not None
    taken = Proposal.objects.select_related("offer").get(pk=proposal.pk)
    assert taken.prepare_resend(is_first_gone=True)
    assert shown(proposal) == {str(third.pk)}
    third.offers.update(query=first)
    third.delete()
    see(admin_client, proposal, "já apagada")


def test_the_timeline_has_nothing_that_its_reader_may_not_see(proposal: Proposal) -> None:
    outbox.store(proposal.partner, "proposal.created", str(proposal.pk), {})
    hidden = ["webhook proposal.created", "consulta agregada"]
    assert "linha do tempo" in see(operator_with("view_proposal"), proposal, hidden=hidden).lower()


def test_page_leads_to_offer_query_and_events_and_says_what_went_wrong(
    admin_client: Client, proposal: Proposal
) -> None:
    update_encrypted(Proposal.objects.all(), error=ProviderRejected("Margem insuficiente.").as_dict())
    rows = (page_of(proposal.offer), page_of(proposal.offer.query), f"/admin/webhooks/event/?q={proposal.pk}")
    see(admin_client, proposal, *rows, "Margem insuficiente. (provider_rejected)")


def test_found_by_its_ids_and_its_state(admin_user: User, proposal: Proposal) -> None:
    proposal.rename("order:7")
    Proposal.objects.update(native_id="N-77")
    other = an_unknown_one(proposal.partner)
    for term in (str(proposal.pk), proposal.reference, "N-77", "order:7"):
        assert rows_at(admin_user, f"{LIST}?q={term}") == [proposal]
    for of_both in ("q=request-1", "q=%20request-1%20", "submission__exact=unknown"):
        assert set(rows_at(admin_user, f"{LIST}?{of_both}")) == {proposal, other}
    for of_none in ("q=request-2", "submission__exact=accepted"):
        assert rows_at(admin_user, f"{LIST}?{of_none}") == []

    # A retry overwrites the request of an earlier call in the row.
    for operation, request_id in (("submit", "request-0"), ("find", "request-0"), ("formalize", "request-2")):
        BankCall.objects.create(proposal=proposal, operation=operation, request_id=request_id)
    found = [rows_at(admin_user, f"{LIST}?q=request-{number}") for number in (0, 2, 3)]
    assert found == [[proposal], [proposal], []], "once"
    assert len(rows_at(admin_user, f"{LIST}?q=request-1")) == 2


def test_a_search_asks_as_much_for_many_as_for_one(admin_client: Client, partner: Partner) -> None:
    def queries(term: str, count: int) -> int:
        rows = [an_unknown_one(partner) for _ in range(count)]
        for row in rows:
            BankCall.objects.create(proposal=row, operation="submit", request_id=term)
        with executed() as made:
            page = admin_client.get(LIST, {"q": term}).text
        assert all(page_of(row) in page for row in rows)
        return len(made)

    queries("request-a", 1)  # statements that run only once in a process
    assert queries("request-b", 1) == queries("request-c", 5)


def test_neither_the_list_nor_a_search_reads_or_sorts_the_whole_table(rf: RequestFactory, partner: Partner) -> None:
    an_unknown_one(partner)
    model_admin = site.get_model_admin(Proposal)
    request = rf.get(LIST)
    request.user = User(is_superuser=True, is_staff=True)
    every = model_admin.get_queryset(request).order_by("-created_at", "-id")
    found, _ = model_admin.get_search_results(request, every, "request-1")
    # A sequential scan or a sort that is left then is one that no index can replace.
    execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
    assert "Sort" not in every[:50].explain()
    assert "Seq Scan on proposals_" not in found.explain()


@pytest.mark.parametrize("is_of_list", [True, False])
def test_what_is_unknown_is_looked_for_now(admin_client: Client, proposal: Proposal, is_of_list: bool) -> None:
    """By the list's action or the page's. A settled one is left alone."""
    address = LIST if is_of_list else page_of(proposal, "reconcile_one")
    of_list = {"action": "reconcile_selection", "_selected_action": [str(proposal.pk)]}
    pressed = of_list if is_of_list else {}
    see(admin_client, proposal, "Conciliar agora")
    told = "Em conciliação agora: 1." if is_of_list else "Conciliação antecipada."
    assert told in admin_client.post(address, pressed, follow=True).text
    assert Proposal.objects.filter(pk=proposal.pk, due_at__lte=timezone.now()).exists()
    assert AuditEntry.objects.filter(object_id=str(proposal.pk)).count() == 1
    Proposal.objects.update(submission=Proposal.Submission.ACCEPTED, due_at=None)
    see(admin_client, proposal, hidden=["Conciliar agora"])
    told = admin_client.post(address, pressed, follow=True).text
    assert ("Nenhuma tem resultado desconhecido." in told) == is_of_list
    assert Proposal.objects.get().due_at is None
