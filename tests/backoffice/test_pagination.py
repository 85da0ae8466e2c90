"""Lists of millions of rows are counted to a bound."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from foundation.backoffice import pagination
from proposals.models import Erasure


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
