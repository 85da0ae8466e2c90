"""One box finds what a partner names, and one page shows all about a holder, to those who may see it."""

import html
import re

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from foundation.encryption import blind_index
from foundation.models import AuditEntry
from proposals.models import Proposal
from tests.backoffice.story import Story
from tests.factories import PartnerFactory
from tests.operators import operator_with, page_of, press, see
from tests.plans import assert_indexed
from webhooks import outbox
from webhooks.models import Event

pytestmark = pytest.mark.django_db

SEARCH = "/admin/busca/"


def find(client: Client, what: str) -> str:
    """The address to which the search box redirects for a single row, or the text of its results."""
    response = client.post(SEARCH, {"what": what})
    return response["Location"] if response.status_code == 302 else html.unescape(response.content.decode())


def test_what_a_partner_names_leads_to_its_row(admin_client: Client, story: Story) -> None:
    """Before the fix, a contract's number, which banks and partners name, found nothing."""
    see(admin_client, "/admin/", f'<form method="post" action="{SEARCH}"', 'name="what"')
    Proposal.objects.update(contract_number="CCB-7")
    listed = admin_client.get("/admin/proposals/proposal/", {"q": "CCB-7"})
    assert listed.context["cl"].result_count == 1
    for what, row in (
        (str(story.offer.pk), story.offer),
        (str(story.query.pk), story.query),
        (story.event.pk, story.event),
        (str(story.session.pk), story.session),
        (story.session.evidence.receipt, story.session),
        ("pedido-com-erro", story.failed_call),
        (story.proposal.native_id, story.proposal),
        ("CCB-7", story.proposal),
        (story.proposal.reference, story.proposal),
        (f"  {story.offer.pk} ", story.offer),
    ):
        assert find(admin_client, what) == page_of(row), what


def test_a_partner_is_found_by_its_name_and_its_cnpj(admin_client: Client, story: Story) -> None:
    """Before the fixes, a search knew a partner by its id only, and led to its settings."""
    other = PartnerFactory(name="Crédito 100% Fácil", cnpj="11222333000181")
    page = reverse("partner", args=[other.pk])
    for what in ("crédito 100", "100% F", "11.222.333/0001-81", "11222333000181", str(other.pk)):
        assert find(admin_client, what) == page, what
    assert page not in find(admin_client, "1_0% F")
    listed = admin_client.get(reverse("admin:partners_partner_changelist"), {"q": "11.222.333/0001-81"})
    assert f'href="{page}' in listed.content.decode()
    assert str(story.partner.pk) not in listed.content.decode()


def test_a_proposal_s_submission_is_told_where_the_bank_did_not_accept_it(admin_client: Client, story: Story) -> None:
    """Before the fix, a refused proposal read `recusada, aceita`, and a query's state was its kind."""
    for submission, words in (("accepted", ""), ("unknown", ", envio: resultado desconhecido")):
        Proposal.objects.update(submission=submission)
        shown = find(admin_client, "request-1")
        assert f"{story.proposal.status_in_words}{words}</td>" in shown
        assert "aceita</td>" not in shown
    assert f"{story.query.pk} (agregada)</a></td><td>" in shown


def test_what_names_several_rows_lists_them(admin_client: Client, story: Story) -> None:
    """A request id of a query and a proposal; a partner's own reference; a proposal with its events; a key with its
    failed calls."""
    for row in (story.query, story.proposal, story.session):
        type(row)._default_manager.filter(pk=row.pk).update(partner_reference="pedido-2026-7")
    for what, rows in (
        ("request-1", (story.query, story.proposal)),
        ("pedido-2026-7", (story.query, story.proposal, story.session)),
        (str(story.proposal.pk), (story.proposal, story.event)),
        (story.key.prefix, (story.key, story.failed_call)),
        (story.session.authorization_id, (story.session,)),
        (story.secrets[1], (story.key, story.failed_call)),
    ):
        shown = find(admin_client, what)
        assert all(page_of(row) in shown for row in rows), what
    assert story.secrets[1] not in shown.replace(f'value="{story.secrets[1]}"', "")


@pytest.mark.parametrize("what", ["nada", "\0", "9" * 40, "🙂", "evt_0", "%", "x" * 129, ""])
def test_an_unknown_name_finds_nothing(admin_client: Client, what: str) -> None:
    assert admin_client.post(SEARCH, {"what": what}).status_code == 200


@pytest.mark.parametrize(
    ("what", "is_mistyped"), [("529.982.247-26", True), ("52998224726", True), ("5299822472", False)]
)
def test_a_mistyped_cpf_is_told(admin_client: Client, what: str, is_mistyped: bool) -> None:
    page = admin_client.post(SEARCH, {"what": what}).content.decode()
    assert ("Não é um CPF válido" in page) == is_mistyped
    assert "ada foi encontrado" in page


def test_a_cpf_leads_to_the_holder_without_standing_in_the_address(admin_client: Client, story: Story) -> None:
    for typed in (story.cpf, f"{story.cpf[:3]}.{story.cpf[3:6]}.{story.cpf[6:9]}-{story.cpf[9:]}"):
        address = find(admin_client, typed)
        assert address == f"/admin/titular/?cpf_index={blind_index('cpf', story.cpf)}"
    with transaction.atomic():
        completed = outbox.store(story.partner, "query.completed", str(story.query.pk), {})
    shown = html.unescape(admin_client.get(address).content.decode())
    for row in (story.query, story.offer, story.proposal, story.step, story.event, completed):
        assert page_of(row) in shown
    assert story.cpf not in shown
    assert "***.000.001-**" in shown


def test_each_sees_only_what_that_person_may_view(story: Story) -> None:
    operator = operator_with("view_proposal")
    assert find(operator, str(story.proposal.pk)) == page_of(story.proposal), "its event is not for this operator"
    assert "Nada foi encontrado" in find(operator, str(story.query.pk))
    shown = operator.get(find(operator, story.cpf)).content.decode()
    assert page_of(story.proposal) in shown
    assert page_of(story.query) not in shown
    nobody = operator_with("view_provider")
    shown = nobody.get(find(nobody, story.cpf)).content.decode()
    assert "Nada há deste titular" in shown
    assert "000.001" not in shown


@pytest.mark.parametrize("index", ["", "abc", "%00", "0" * 64, "0" * 63 + "%00"])
def test_a_holder_that_nobody_knows_has_an_empty_page(admin_client: Client, index: str) -> None:
    response = admin_client.get(f"/admin/titular/?cpf_index={index}")
    assert response.status_code == 200
    assert "Nada há deste titular" in response.content.decode()


def test_a_search_reads_no_table_whole(admin_client: Client, story: Story) -> None:
    with CaptureQueriesContext(connection) as queries:
        admin_client.post(SEARCH, {"what": "nada-disso"})
        admin_client.get(f"/admin/titular/?cpf_index={blind_index('cpf', story.cpf)}")
    small = r'SELECT .* FROM "(partners_partner|partners_apikey|proposals_erasure)"'
    looks = [each["sql"] for each in queries if each["sql"].startswith("SELECT") and not re.match(small, each["sql"])]
    with connection.cursor() as cursor:
        # An index by time alone would be read as a whole, but in the plan of one page it looks like any other.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SELECT indexname FROM pg_indexes WHERE indexname LIKE '%newest%'")
        cursor.execute(f"DROP INDEX {', '.join(name for [name] in cursor.fetchall())}")
    assert_indexed(looks)


def test_an_id_that_the_address_has_to_quote_is_found_too(admin_client: Client, story: Story) -> None:
    """Before the fix, some events had links to nowhere: Django reads `_22` in an address as a quotation mark."""
    values = {"name": "lead", "external_reference": "group-1", "body": "{}", "state": "failed", "due_at": None}
    event = Event.objects.create(id="evt_22" + "0" * 30, partner=story.partner, **values)
    page = find(admin_client, event.pk)
    shown = admin_client.get(page)
    assert shown.context["original"] == event
    assert "Colocados na fila de entrega: 1." in press(admin_client, shown, "Reenviar").content.decode()
    event.refresh_from_db()
    assert event.state == "due"
    # The audit trail's entry links to the event, and the event's page links to its entries.
    entry = AuditEntry.objects.filter(object_id=event.pk).latest("at")
    assert page in admin_client.get(page_of(entry)).content.decode()
    assert str(entry.pk) in admin_client.get(admin_client.get(page).context["audit_address"]).content.decode()
