"""Lists of millions of rows are counted to a bound."""

import re
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from foundation.backoffice import pagination
from proposals.models import Erasure
from tests.factories import PartnerFactory
from tests.proposals.rows import an_offer


@pytest.mark.parametrize(("rows", "shown"), [(3, "3 exclusões de dados"), (4, "mais de 3 exclusões de dados")])
def test_a_list_counts_to_its_bound(
    db: None, admin_client: Client, monkeypatch: pytest.MonkeyPatch, rows: int, shown: str
) -> None:
    monkeypatch.setattr(pagination, "MOST", 3)
    for number in range(rows):
        Erasure.objects.create(cpf_index=f"{number:064}", by="maria", erased={}, kept={}, left={})
    with CaptureQueriesContext(connection) as statements:
        page = admin_client.get("/admin/proposals/erasure/")
    assert page.context["cl"].result_count == rows
    assert shown in " ".join(re.sub(r"<[^>]+>", " ", page.content.decode()).split())
    [counted] = [each["sql"] for each in statements if "COUNT(*)" in each["sql"] and "erasure" in each["sql"]]
    assert "LIMIT 4" in counted


def test_a_row_is_looked_up_by_its_id_through_its_index(db: None, admin_client: Client) -> None:
    """Before the fix, ids were compared as text, and each search read all queries."""
    query = an_offer(PartnerFactory(), "ipe").query
    for term, found in ((str(query.pk), 1), (f" {query.pk} ", 1), ("request-1", 1), ("request", 0), (str(uuid4()), 0)):
        with CaptureQueriesContext(connection) as statements:
            page = admin_client.get("/admin/consultas/query/", {"q": term})
        assert page.context["cl"].result_count == found, term
        assert not any('"consultas_query"."id")::' in each["sql"] for each in statements)
    for address in ("/admin/consultas/offer/", "/admin/proposals/proposal/"):
        assert admin_client.get(address, {"q": "no id"}).context["cl"].result_count == 0
