"""Lists can be exported as CSV of any size, with the page's masks and filters; each export is recorded."""

import csv
import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from config import gunicorn
from foundation.backoffice import exporting
from foundation.models import AuditEntry
from partners.failed_calls import FailedCall
from proposals.models import Proposal
from tests.backoffice.story import Story
from tests.factories import PartnerFactory, update_encrypted
from tests.operators import operator_with, press, see
from tests.plans import executed
from webhooks import admin as webhook_pages

pytestmark = pytest.mark.django_db


def exported(client: Client, model: str, query: str = "") -> list[list[str]]:
    return rows_of(client.post(f"{reverse(f'admin:{model}_export')}{query}"))


def rows_of(response: Any) -> list[list[str]]:
    """The rows of an exported file."""
    assert response.status_code == 200
    assert response["Content-Disposition"].startswith("attachment; filename=")
    text = b"".join(response.streaming_content).decode()
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=";"))


def told(client: Client, model: str) -> dict[str, str]:
    """The only exported row of a list, by the titles of its columns."""
    [titles, row] = exported(client, model)
    return dict(zip(titles, row, strict=True))


EXPORTED = sorted(
    f"{model._meta.app_label}_{model._meta.model_name}"
    for model, page in admin.site._registry.items()
    if isinstance(page, exporting.ExportMixin)
)


@pytest.mark.control("CMN IV")
def test_every_list_leaves_as_it_is_shown_and_nothing_more(admin_client: Client, story: Story) -> None:
    assert {"consultas_query", "proposals_proposal", "webhooks_event", "partners_partner"} <= set(EXPORTED)
    for model in EXPORTED:
        rows = exported(admin_client, model)
        shown = admin_client.get(reverse(f"admin:{model}_changelist"))
        assert len(rows) - 1 == shown.context["cl"].result_count, model
        text = str(rows)
        hidden = (*story.secrets, story.cpf, story.session.cpf, story.session.name, story.session.authorization_id)
        assert not [secret for secret in hidden if secret in text], model
        assert "<" not in text
    proposal = told(admin_client, "proposals_proposal")
    assert (proposal["CPF"], proposal["Situação"]) == ("***.000.001-**", "aguardando assinatura")


def test_the_file_has_the_whole_ids(admin_client: Client, story: Story) -> None:
    type(story.query).objects.update(partner_reference="pedido-1")
    Proposal.objects.update(partner_reference="pedido-2")
    for model, ids in (
        ("consultas_query", {str(story.query.pk), "pedido-1"}),
        ("consultas_offer", {str(story.offer.pk)}),
        ("proposals_proposal", {str(story.proposal.pk), "pedido-2", "CT-1"}),
        ("webhooks_event", {str(story.event.pk), webhook_pages.shown(story.event)}),
    ):
        titles, *rows = exported(admin_client, model)
        assert len(set(titles)) == len(titles), model
        assert [row for row in rows if ids <= set(row)], model
    see(admin_client, story.query, "pedido-1")


def test_numbers_terms_reasons_and_payment_have_columns_of_their_own(admin_client: Client, story: Story) -> None:
    """Before the fix, the file had "R$ 5.000,00 em 24x", and neither the reason nor the payment; then amounts with one
    decimal, and no date of a withdrawal."""
    terms = {"loanValue": 5000.5, "installments": 24, "installmentValue": 260.0, "interestRate": 1.99}
    update_encrypted(Proposal.objects.all(), terms=terms, reason={"code": "no_margin", "message": "Sem margem."})
    Proposal.objects.update(
        disbursed_at=datetime(2026, 11, 23, 15, tzinfo=UTC),
        disbursed_amount=Decimal("4987.65"),
        contract_number="CCB-7",
        withdrawn_at=datetime(2026, 11, 24, 15, tzinfo=UTC),
    )
    proposal = told(admin_client, "proposals_proposal")
    assert {name: proposal[name] for name in list(proposal)[6:11] + list(proposal)[-7:]} == {
        "Valor": "5000,50",
        "Parcelas": "24",
        "Valor da parcela": "260,00",
        "Taxa ao mês (%)": "1,99",
        "Primeiro vencimento": "",
        "Número do contrato": "CCB-7",
        "Código do motivo": "no_margin",
        "Motivo": "Sem margem.",
        "Paga em": "2026-11-23 12:00:00",
        "Valor pago": "4987,65",
        "Desistência em": "2026-11-24 12:00:00",
        "Recebimento": "banco 001, conta corrente ****90",
    }
    assert told(admin_client, "consultas_query").items() >= {"Respostas de bancos": "0", "Ofertas": "0"}.items()
    assert told(admin_client, "consultas_offer").items() >= {"Valor": "5000,00", "Parcelas": "24"}.items()
    # A web process of the service, started for other tests, may add a call of its own.
    [titles, *rows] = exported(admin_client, "partners_failedcall")
    [call] = [dict(zip(titles, row, strict=True)) for row in rows if story.failed_call.request_id in row]
    assert call.items() >= {"HTTP": "422", "Código": "invalid_input"}.items()


def test_the_filters_of_the_list_hold_and_are_noted(admin_client: Client, story: Story) -> None:
    listed = reverse("admin:webhooks_event_changelist") + "?state__exact=failed"
    rows = rows_of(press(admin_client, listed, "Exportar esta lista em CSV"))
    assert [row[5] for row in rows[1:]] == ["lead"]
    entry = AuditEntry.objects.filter(action="exported").latest("at")
    assert (entry.who, entry.model) == ("admin", "webhooks.event")
    assert "state__exact=failed" in entry.detail
    assert exported(admin_client, "webhooks_event", "?state__exact=delivered")[1:] == []


def test_pages_follow_each_other_without_a_gap(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if many rows have the same time."""
    monkeypatch.setattr(exporting, "PAGE", 7)
    now = timezone.now()
    FailedCall.objects.bulk_create(
        FailedCall(method="GET", route="r", status=404, request_id=f"r-{n}", at=now - timedelta(minutes=n // 10))
        for n in range(50)
    )
    with executed() as statements:
        rows = exported(admin_client, "partners_failedcall")
    # The web process of an earlier test may still write calls of its own.
    ids = [row[7] for row in rows[1:] if row[7].startswith("r-")]
    assert sorted(ids) == sorted(f"r-{n}" for n in range(50))
    pages = [sql for sql in statements if "LIMIT 7" in sql]
    assert len(pages) == 8
    assert not any("OFFSET" in sql for sql in pages)
    assert ("Content-Type", exporting.CONTENT_TYPE) in gunicorn._STREAMED, "a long list has its time for each write"


def test_no_cell_is_a_formula(admin_client: Client) -> None:
    PartnerFactory(name='=HYPERLINK("http://x";"y")')
    hidden = ["@SUM(1)", "\uff1dSUM(1)", "\u200b +SUM(1)", "\uff0dSUM(1)", "\tSUM(1)"]
    # Before the fix, a formula behind some of these was no formula.
    unseen = "\ufeff\u202d\u00ad\u2003\u200e\x0b\u3164\u1160\ufe0f\U000e0001"
    hidden += [f"{each}=SUM(1)" for each in [*unseen, unseen]]
    for name in hidden:
        PartnerFactory(name=name)
    PartnerFactory(name="\ufeffFinanceira = Um")
    assert {row[2] for row in exported(admin_client, "partners_partner")[1:]} == {
        '\'=HYPERLINK("http://x";"y")',
        "\ufeffFinanceira = Um",
        *(f"'{name}" for name in hidden),
    }


def test_only_who_may_takes_a_list_out(story: Story) -> None:
    address = reverse("admin:consultas_query_export")
    for permissions, status in (
        (("view_query",), 403),
        (("export_lists",), 403),
        (("view_query", "export_lists"), 200),
    ):
        operator = operator_with(*permissions)
        assert operator.post(address).status_code == status
        if "view_query" in permissions:
            shown = operator.get(reverse("admin:consultas_query_changelist")).text
            assert ("Exportar esta lista" in shown) == (status == 200)
    assert operator.get(address).status_code == 405
