"""One box finds what a partner names, and one page shows all about a holder, to those who may see it. What the address
of a list may ask, and how far a list of millions is counted."""

import html
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin
from uuid import uuid4

import pytest
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import DateField
from django.test import Client, RequestFactory
from django.urls import reverse

from backoffice import search
from foundation.backoffice import admins
from foundation.encryption import blind_index
from foundation.models import AuditEntry
from proposals.models import Erasure, Proposal
from tests.backoffice.story import Story
from tests.backoffice.test_roles import SUPPORT, addresses, client_of, others, rows_of
from tests.factories import PartnerFactory
from tests.operators import is_list, operator_with, page_of, press, rows_at, see
from tests.plans import assert_indexed, execute, executed
from tests.proposals.rows import an_offer
from webhooks import outbox
from webhooks.models import Event

pytestmark = pytest.mark.django_db

SEARCH = "/admin/busca/"


def find(client: Client, what: str) -> str:
    """The address to which the search box redirects for a single row, or the text of its results."""
    response = client.post(SEARCH, {"what": what})
    return response["Location"] if response.status_code == 302 else html.unescape(response.text)


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
    assert f'href="{page}' in listed.text
    assert str(story.partner.pk) not in listed.text


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


MISTYPED, NO_NAMES = ("529.982.247-26", "52998224726"), ("\0", "x" * 129, "")


@pytest.mark.parametrize("what", ["nada", "9" * 40, "🙂", "evt_0", "%", "5299822472", *NO_NAMES, *MISTYPED])
def test_an_unknown_name_finds_nothing_and_a_mistyped_cpf_is_told(admin_client: Client, what: str) -> None:
    page = admin_client.post(SEARCH, {"what": what})
    assert (page.status_code, "Não é um CPF válido" in page.text) == (200, what in MISTYPED)
    assert ("ada foi encontrado" in page.text) == (what not in NO_NAMES)


def test_a_cpf_leads_to_the_holder_without_standing_in_the_address(admin_client: Client, story: Story) -> None:
    for typed in (story.cpf, f"{story.cpf[:3]}.{story.cpf[3:6]}.{story.cpf[6:9]}-{story.cpf[9:]}"):
        address = find(admin_client, typed)
        assert address == f"/admin/titular/?cpf_index={blind_index('cpf', story.cpf)}"
    completed = outbox.store(story.partner, "query.completed", str(story.query.pk), {})
    rows = (story.query, story.offer, story.proposal, story.step, story.event, completed)
    see(admin_client, address, *map(page_of, rows), "***.000.001-**", hidden=[story.cpf])


def test_each_sees_only_what_that_person_may_view(story: Story) -> None:
    operator = operator_with("view_proposal")
    assert find(operator, str(story.proposal.pk)) == page_of(story.proposal), "its event is not for this operator"
    assert "Nada foi encontrado" in find(operator, str(story.query.pk))
    see(operator, find(operator, story.cpf), page_of(story.proposal), hidden=[page_of(story.query)])
    nobody = operator_with("view_provider")
    see(nobody, find(nobody, story.cpf), "Nada há deste titular", hidden=["000.001"])


@pytest.mark.parametrize("index", ["", "abc", "%00", "0" * 64, "0" * 63 + "%00"])
def test_a_holder_that_nobody_knows_has_an_empty_page(admin_client: Client, index: str) -> None:
    response = admin_client.get(f"/admin/titular/?cpf_index={index}")
    assert response.status_code == 200
    assert "Nada há deste titular" in response.text


def test_a_search_reads_no_table_whole(admin_client: Client, story: Story) -> None:
    with executed() as statements:
        admin_client.post(SEARCH, {"what": "nada-disso"})
        admin_client.get(f"/admin/titular/?cpf_index={blind_index('cpf', story.cpf)}")
    small = r'SELECT .* FROM "(partners_partner|partners_apikey|proposals_erasure)"'
    looks = [sql for sql in statements if sql.startswith("SELECT") and not re.match(small, sql)]
    # An index by time alone would be read as a whole, but in the plan of one page it looks like any other.
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    indexes = execute("SELECT indexname FROM pg_indexes WHERE indexname LIKE '%newest%'")
    execute(f"DROP INDEX {', '.join(name for [name] in indexes)}")
    assert_indexed(looks)


def test_an_id_that_the_address_has_to_quote_is_found_too(admin_client: Client, story: Story) -> None:
    """Before the fix, some events had links to nowhere: Django reads `_22` in an address as a quotation mark."""
    values = {"name": "lead", "external_reference": "group-1", "body": "{}", "state": "failed", "due_at": None}
    event = Event.objects.create(id="evt_22" + "0" * 30, partner=story.partner, **values)
    page = find(admin_client, event.pk)
    shown = admin_client.get(page)
    assert shown.context["original"] == event
    assert "Colocado na fila de entrega." in press(admin_client, page_of(event, "resend_one"), "Reenviar").text
    event.refresh_from_db()
    assert event.state == "due"
    # The audit trail's entry links to the event, and the event's page links to its entries.
    entry = AuditEntry.objects.filter(object_id=event.pk).latest("at")
    see(admin_client, entry, page)
    assert str(entry.pk) in admin_client.get(page_of(event, "history"), follow=True).text


# --- What the address of a list may ask, and nothing about hidden columns; and how far a list of millions is counted


MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)
#: Columns whose value is a secret, or lets somebody act as another.
SECRET = {"authorization_id", "digest", "credentials", "password", "cpf", "webhook_secret", "former_credentials"}


def columns(model: Any, deep: bool = True) -> Iterator[tuple[str, Any]]:
    """The columns of a model, and those of the models beside it, by their names in a look-up."""
    for field in model._meta.get_fields():
        if field.concrete:
            yield field.name, field
        if deep and field.is_relation and field.related_model:
            beside = field.name if field.concrete else field.get_accessor_name() or field.name
            for name, each in columns(field.related_model, deep=False):
                yield f"{beside}__{name}", each
                yield f"{field.name}__{name}", each


def test_no_look_up_but_an_exact_one_is_allowed(rf: RequestFactory, admin_user: Any) -> None:
    """Before the fix, `authorization_id__regex=^Kg[a-m]` and 192 requests told every operator the whole link of a
    holder's page. Only dates with a filter are compared."""
    request = rf.get("/")
    request.user = admin_user

    def is_allowed(page: Any, name: str) -> bool:
        page.filter_params = {name: ["1"]}
        with suppress(IncorrectLookupParameters):
            return bool(page.get_filters(request))
        return False

    for model in MODELS:
        page = admin.site._registry[model].get_changelist_instance(request)
        allowed = {}
        for name, field in columns(model):
            lookups = (f"{name}__{each}" for each in field.get_lookups())
            allowed |= {each: field for each in (name, *lookups) if is_allowed(page, each)}
        assert not [each for each in allowed if SECRET & set(each.split("__"))], model
        of_dates = ("__gte", "__lt", "__year", "__month", "__day")
        exact = {name for name, _ in columns(model)} | {"id__in"}
        assert not [
            name
            for name, field in allowed.items()
            if name not in exact
            and not name.endswith(("__exact", "__isnull", *(of_dates if isinstance(field, DateField) else ())))
        ]


def test_a_pattern_tells_nothing(story: Story) -> None:
    """A true pattern and a wrong one get the same answer, on the page and in the file."""
    client = client_of(SUPPORT)
    secret = story.session.authorization_id
    lists = {
        "authorizations_session": ("authorization_id", secret),
        "partners_apikey": ("digest", story.key.digest),
        "webhooks_event": ("reference_index", "a"),
    }
    for name, (column, value) in lists.items():
        address = reverse(f"admin:{name}_changelist")
        for lookup in ("", "__exact", "__startswith", "__regex", "__contains", "__gt", "__isnull", "__length"):
            if (column, lookup) == ("reference_index", ""):
                continue  # the list of one holder's events has the whole keyed hash in its address
            for tried in (value[:6], value, "zzz"):
                answer = client.get(address, {f"{column}{lookup}": tried})
                assert (answer.status_code, answer["Location"]) == (302, f"{address}?e=1"), (name, column, lookup)
    for tried in (secret, "zzz"):
        answer = client.get(reverse("admin:authorizations_session_changelist"), {"e": "1", "authorization_id": tried})
        assert "cl" not in (answer.context or {}), "a list that refuses twice shows no rows"


def test_a_pattern_leads_the_file_to_the_list(admin_client: Client, story: Story) -> None:
    address = f"{reverse('admin:consultas_query_export')}?authorization_id__startswith="
    for tried in (story.session.authorization_id[:3], "zzz"):
        answer = admin_client.post(address + tried)
        assert (answer.status_code, urljoin("/admin/consultas/query/export/", answer["Location"])) == (
            302,
            f"{reverse('admin:consultas_query_changelist')}?e=1",
        )
    assert not AuditEntry.objects.filter(action="exported").exists()


def _links(client: Client, page: str) -> Iterator[str]:
    """The links with a query string on a page of the back office."""
    answer = client.get(page)
    if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
        for link in re.findall(r'href="([^"]*\?[^"]*)"', answer.text):
            yield urljoin(page, html.unescape(link).partition("#")[0])


def test_every_link_with_a_query_string_opens(
    admin_client: Client, admin_user: Any, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The links of all pages, of the problems on the first page, and of a holder with many rows."""
    monkeypatch.setattr(search, "MOST", 1)
    rows, index = rows_of(story), blind_index("cpf", story.cpf)
    pages = [*(address for _, address, _ in addresses(rows)), *others(story)]
    links = {link for page in pages for link in _links(admin_client, page) if link.startswith("/admin/")}
    parts = ("?partner__id__exact=", f"?cpf_index={index}", "?created_at__gte=", "state__exact=", "?o=")
    assert [part for part in parts if not any(part in link for link in links)] == []
    wrong = {}
    for link in sorted(links):
        if is_list(link):
            rows_at(admin_user, link)
        elif (answer := admin_client.get(link)).status_code != 200:
            wrong[link] = (answer.status_code, answer.get("Location"))
    assert wrong == {}


@pytest.mark.parametrize(("rows", "shown"), [(3, "3 exclusões de dados"), (4, "mais de 3 exclusões de dados")])
def test_a_list_counts_to_its_bound(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, rows: int, shown: str
) -> None:
    monkeypatch.setattr(admins, "MOST", 3)
    for number in range(rows):
        Erasure.objects.create(cpf_index=f"{number:064}", by="maria", erased={}, kept={}, left={})
    with executed() as statements:
        page = admin_client.get("/admin/proposals/erasure/")
    assert page.context["cl"].result_count == rows
    assert shown in " ".join(re.sub(r"<[^>]+>", " ", page.text).split())
    [counted] = [sql for sql in statements if "COUNT(*)" in sql and "erasure" in sql]
    assert "LIMIT 4" in counted


def test_a_row_is_looked_up_by_its_id_through_its_index(admin_client: Client) -> None:
    """Before the fix, ids were compared as text, and each search read all queries."""
    query = an_offer(PartnerFactory(), "ipe").query
    for term, found in ((str(query.pk), 1), (f" {query.pk} ", 1), ("request-1", 1), ("request", 0), (str(uuid4()), 0)):
        with executed() as statements:
            page = admin_client.get("/admin/consultas/query/", {"q": term})
        assert page.context["cl"].result_count == found, term
        assert not any('"consultas_query"."id")::' in sql for sql in statements)
    for address in ("/admin/consultas/offer/", "/admin/proposals/proposal/"):
        assert admin_client.get(address, {"q": "no id"}).context["cl"].result_count == 0
