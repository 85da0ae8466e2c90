"""What the address of a list may ask, and nothing about hidden columns; and how far a list of millions is counted."""

import html
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin
from uuid import uuid4

import pytest
from django.contrib import admin
from django.db import connection
from django.db.models import DateField
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from backoffice import search
from foundation.backoffice import admins
from foundation.encryption import blind_index
from foundation.models import AuditEntry
from proposals.models import Erasure
from tests.backoffice.story import Story
from tests.backoffice.test_roles import SUPPORT, addresses, client_of, others, rows_of
from tests.factories import PartnerFactory
from tests.operators import is_list, rows_at
from tests.proposals.rows import an_offer

pytestmark = pytest.mark.django_db

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
    for model in MODELS:
        request = rf.get("/")
        request.user = admin_user
        page = admin.site._registry[model]
        allowed = {}
        for name, field in columns(model):
            lookups = (f"{name}__{each}" for each in field.get_lookups())
            allowed |= {each: field for each in (name, *lookups) if page.lookup_allowed(each, "x", request)}
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
        for link in re.findall(r'href="([^"]*\?[^"]*)"', answer.content.decode()):
            yield urljoin(page, html.unescape(link).partition("#")[0])


def test_every_link_with_a_query_string_opens(
    admin_client: Client, admin_user: Any, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The links of all pages, of the problems on the first page, and of a holder with many rows."""
    monkeypatch.setattr(search, "MOST", 1)
    rows, index = rows_of(story), blind_index("cpf", story.cpf)
    pages = [*(address for _, address, _ in addresses(rows)), *others(story)]
    links = {link for page in pages for link in _links(admin_client, page) if link.startswith("/admin/")}
    parts = ("?partner__id__exact=", f"?cpf_index={index}", "object_id=", "?created_at__gte=", "state__exact=", "?o=")
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
    with CaptureQueriesContext(connection) as statements:
        page = admin_client.get("/admin/proposals/erasure/")
    assert page.context["cl"].result_count == rows
    assert shown in " ".join(re.sub(r"<[^>]+>", " ", page.content.decode()).split())
    [counted] = [each["sql"] for each in statements if "COUNT(*)" in each["sql"] and "erasure" in each["sql"]]
    assert "LIMIT 4" in counted


def test_a_row_is_looked_up_by_its_id_through_its_index(admin_client: Client) -> None:
    """Before the fix, ids were compared as text, and each search read all queries."""
    query = an_offer(PartnerFactory(), "ipe").query
    for term, found in ((str(query.pk), 1), (f" {query.pk} ", 1), ("request-1", 1), ("request", 0), (str(uuid4()), 0)):
        with CaptureQueriesContext(connection) as statements:
            page = admin_client.get("/admin/consultas/query/", {"q": term})
        assert page.context["cl"].result_count == found, term
        assert not any('"consultas_query"."id")::' in each["sql"] for each in statements)
    for address in ("/admin/consultas/offer/", "/admin/proposals/proposal/"):
        assert admin_client.get(address, {"q": "no id"}).context["cl"].result_count == 0
