"""What the lists of the back office weigh."""

import gzip
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import AutoField, Field, Model
from django.test import Client
from django.urls import reverse

from foundation.models import AuditEntry
from proposals.models import ErasureRequest
from tests.backoffice.story import Story
from tests.backoffice.test_roles import PAGES, rows_of

pytestmark = pytest.mark.django_db

#: The most bytes of a list's page, as HTML and as it is sent.
MOST, MOST_SENT = 150_000, 20_000
FULL = 50
COUNTS = {"queries": 12, "offers": 31, "proposals": 2}
#: What makes a row as long as many are.
LONG: dict[str, dict[str, Any]] = {
    "auth_user": {"first_name": "Maria Aparecida", "last_name": "da Silva Santos", "email": "maria.santos@um.example"},
    "foundation_auditentry": {
        "address": "2001:db8:85a3::8a2e:370:7334",
        "model": "partners.partner",
        "object_id": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
        "object_name": "Financeira Exemplo de Crédito Consignado",
        "changes": {"webhook_url": ["", ""], "requests_per_minute": [60, 90]},
        "detail": "Colocados na fila de entrega: 12.",
    },
    "partners_failedcall": {"request_id": "7c9e6679-7425-40de-944b-e07fc1f90ae7", "field": "dataset.titular.endereco"},
    "proposals_erasure": {"erased": COUNTS, "kept": COUNTS, "left": COUNTS},
    "proposals_proposal": {"status": "cancelled"},  # an offer may have many of these
    "webhooks_event": {"name": "proposal.pending_formalization", "fault": "status", "attempts": 12},
}


def new_value(field: Field) -> Any:
    """A value of a unique column, for a row that is not written yet."""
    is_given = field.has_default() or field.null or isinstance(field, AutoField)
    return field.get_default() if is_given else uuid4().hex[:20]


def a_page_like(row: Model, changes: dict[str, Any]) -> Iterator[Model]:
    """As many rows as a page shows, with the values of `row` and these changes."""
    columns = row._meta.concrete_fields
    values = {column.attname: getattr(row, column.attname) for column in columns} | changes
    for _ in range(FULL):
        own = {each.attname: new_value(each) for each in columns if each.unique or each.name == "identity"}
        yield type(row)(**values | own)


def test_every_list_is_light_with_a_full_page_of_rows(story: Story, admin_client: Client) -> None:
    """Before the fixes, the page of 50 events had 400 KB of HTML, and one of 100 keys had 500 KB. The API's replies are
    not compressed."""
    rows = rows_of(story) | {"foundation_auditentry": AuditEntry.objects.first()}
    rows["proposals_erasurerequest"] = ErasureRequest.objects.create(cpf_index="0" * 64, asked_by="maria.operadora")
    accepted, weights = {"accept-encoding": "gzip"}, {}
    for name in PAGES:
        rows[name].refresh_from_db()
        type(rows[name])._base_manager.bulk_create(a_page_like(rows[name], LONG.get(name, {})))
        page = admin_client.get(reverse(f"admin:{name}_changelist"), headers=accepted)
        listed = page.context["cl"]
        assert (len(listed.result_list), page["Content-Encoding"]) == (listed.list_per_page, "gzip"), name
        weights[name] = (len(gzip.decompress(page.content)), len(page.content))
    assert {name: each for name, each in weights.items() if each[0] > MOST or each[1] > MOST_SENT} == {}
    key = {"X-Partner-Api-Key": story.secrets[1], **accepted}
    api = admin_client.get("/partners/v1/webhook-events", headers=key)
    assert (api.status_code, "Content-Encoding" in api) == (200, False)
